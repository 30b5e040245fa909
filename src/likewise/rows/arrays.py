"""Tables in NumPy's files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from likewise.errors import FileFormatError, LikewiseError
from likewise.rows.npy import Archive, explained, mapped
from likewise.rows.table import ID_NAMES, LABEL_NAMES, Table, check_width, checked_ids, checked_rows, tidy_labels

_FEATURE_KEYS = ("X", "features", "embeddings", "x", "data")
_NAME_KEYS = ("names", "paths", "files")
# Of the archives of scipy.sparse.save_npz, in all its formats.
_SPARSE_KEYS = {"format", "shape", "data", "_is_array", "indices", "indptr", "offsets", "coords", "row", "col"}


def read_npy(path: Path) -> Table:
    """Rows from a `.npy` file; they stay on the disk until they are used."""
    notes: list[str] = []
    return Table(checked_rows(mapped(path), str(path), notes), source=str(path), notes=notes)


def read_npz(path: Path, features: str | None = None, label_column: str | None = None) -> Table:
    """Rows and labels from an `.npz` archive, under the keys people use or the ones given."""
    with explained(path, ".npz"), Archive(path) as archive:
        notes, ndims = list[str](), {key: len(archive.header(key).shape) for key in archive.keys}
        if {"shape", "data", "format"} <= ndims.keys() or {"shape", "data", "indices", "indptr"} <= ndims.keys():
            X: Any = _sparse(path, archive)
            ndims = {key: n for key, n in ndims.items() if key not in _SPARSE_KEYS}
            label = _pick(path, ndims, label_column, LABEL_NAMES, matrix=False)
        else:
            rows = _pick(path, ndims, features, _FEATURE_KEYS, matrix=True)
            label = _pick(path, ndims, label_column, LABEL_NAMES, matrix=False)
            X = checked_rows(archive.read(rows or ""), f"{path}[{rows}]", notes)
        y, n = None if label is None else archive.read(label), X.shape[0]
        if y is not None and y.size != max(y.shape, default=0):  # a column or a row is a list of labels, too
            raise LikewiseError(f"{path}[{label}] has shape {y.shape}: expected one label per row")
        y = None if y is None else tidy_labels(y.ravel())
        names, ids = (_column(archive, keys, n) for keys in (_NAME_KEYS, ID_NAMES))
        return Table(
            X,
            y,
            None if names is None else [str(name) for name in names[1]],
            str(path),
            notes,
            None if ids is None else checked_ids(ids[1].tolist(), ids[0], path),
            known={"label": label},
        )


def _sparse(path: Path, archive: Archive) -> Any:
    """What `scipy.sparse.save_npz` wrote, or the parts of a CSR matrix."""
    shape = archive.read("shape")
    most = max(1_000_000, 64 * archive.size)  # empty rows take no room in a file, but some in memory
    if shape.shape != (2,) or shape.dtype.kind not in "iu" or shape.min() < 0 or shape[0] > most:
        raise FileFormatError(f"{path}[shape] is {shape.tolist()}: expected the rows and columns of a matrix")
    n, d = (int(size) for size in shape)
    check_width(d, str(path))
    if "format" in archive.keys:
        matrix = sp.load_npz(path)
    else:
        matrix = sp.csr_array(tuple(archive.read(key) for key in ("data", "indices", "indptr")), shape=(n, d))
    if hasattr(matrix, "check_format"):
        matrix.check_format(full_check=True)  # places outside of the matrix would be read and written, too
    return checked_rows(sp.csr_array(matrix), str(path), [])


def _pick(path: Path, ndims: dict[str, int], name: str | None, usual: tuple[str, ...], *, matrix: bool) -> str | None:
    """The key asked for, else a usual one, else the only array of the right kind."""
    listed = ", ".join(f"{key} ({ndim}-D)" for key, ndim in ndims.items()) or "nothing"
    if name is not None:
        if name not in ndims:
            raise LikewiseError(f"{path} has no key {name!r}: it holds {listed}")
        return name
    fitting = [key for key, ndim in ndims.items() if (ndim >= 2 if matrix else ndim == 1)]
    candidates = [key for key in usual if key in fitting] or (fitting if len(fitting) == 1 else [])
    if candidates:
        return candidates[0]
    if not fitting and not matrix:
        return None
    what = "features with --features" if matrix else "labels with --label-column"
    raise LikewiseError(f"{path} holds {listed}: name the key of the {what}")


def _column(archive: Archive, keys: Sequence[str], n: int) -> tuple[str, np.ndarray] | None:
    """The first of these keys that has n values, and the values."""
    key = next((key for key in keys if key in archive.keys and archive.header(key).shape == (n,)), None)
    return None if key is None else (key, archive.read(key))
