"""Tables in NumPy's files."""

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
        return _from_archive(path, archive, features, label_column)


def _from_archive(path: Path, archive: Archive, features: str | None, label_column: str | None) -> Table:
    keys = set(archive.keys)
    if {"format", "shape", "data"} <= keys or {"indptr", "indices", "shape", "data"} <= keys:
        return _from_sparse(path, archive, label_column)
    ndims = {key: len(archive.header(key).shape) for key in archive.keys}
    rows = _pick(path, ndims, features, _FEATURE_KEYS, matrix=True)
    key = _pick(path, ndims, label_column, LABEL_NAMES, matrix=False)
    y, notes = _labels(path, archive, key), list[str]()
    X = checked_rows(archive.read(rows or ""), f"{path}[{rows}]", notes)
    return Table(X, y, _names(archive, len(X)), str(path), notes, _ids(path, archive, len(X)), known={"label": key})


def _from_sparse(path: Path, archive: Archive, label_column: str | None) -> Table:
    """What `scipy.sparse.save_npz` wrote, or the parts of a CSR matrix; labels may stand under their usual keys."""
    shape = archive.read("shape")
    if shape.shape != (2,) or shape.dtype.kind not in "iu" or shape.min() < 0 or shape[0] > _most_rows(archive.size):
        raise FileFormatError(f"{path}[shape] is {shape.tolist()}: expected the rows and columns of a matrix")
    n, d = (int(size) for size in shape)
    check_width(d, str(path))
    if "format" in archive.keys:
        matrix = sp.load_npz(path)
    else:
        matrix = sp.csr_array(tuple(archive.read(key) for key in ("data", "indices", "indptr")), shape=(n, d))
    if hasattr(matrix, "check_format"):
        matrix.check_format(full_check=True)  # places outside of the matrix would be read and written, too
    X = checked_rows(sp.csr_array(matrix), str(path), [])
    ndims = {key: len(archive.header(key).shape) for key in archive.keys if key not in _SPARSE_KEYS}
    key, n = _pick(path, ndims, label_column, LABEL_NAMES, matrix=False), X.shape[0]
    y = _labels(path, archive, key)
    return Table(X, y, _names(archive, n), str(path), ids=_ids(path, archive, n), known={"label": key})


def _most_rows(size: int) -> int:
    """Rows that a sparse file of this size may claim: empty rows take no room in it, but some in memory."""
    return max(1_000_000, 64 * size)


def _labels(path: Path, archive: Archive, key: str | None) -> np.ndarray | None:
    if key is None:
        return None
    y = archive.read(key)
    if y.size != max(y.shape, default=0):  # a column or a row is a list of labels, too
        raise LikewiseError(f"{path}[{key}] has shape {y.shape}: expected one label per row")
    return tidy_labels(y.ravel())


def _pick(path: Path, ndims: dict[str, int], name: str | None, usual: tuple[str, ...], *, matrix: bool) -> str | None:
    """The key asked for, else a usual one, else the only array of the right kind."""
    if name is not None:
        if name not in ndims:
            raise LikewiseError(f"{path} has no key {name!r}: it holds {_listed(ndims)}")
        return name
    fitting = [key for key, ndim in ndims.items() if (ndim >= 2 if matrix else ndim == 1)]
    candidates = [key for key in usual if key in fitting] or (fitting if len(fitting) == 1 else [])
    if candidates:
        return candidates[0]
    if not fitting and not matrix:
        return None
    what = "features with --features" if matrix else "labels with --label-column"
    raise LikewiseError(f"{path} holds {_listed(ndims)}: name the key of the {what}")


def _names(archive: Archive, n: int) -> list[str] | None:
    for key in _NAME_KEYS:
        if key in archive.keys and archive.header(key).shape == (n,):
            return [str(value) for value in archive.read(key)]
    return None


def _ids(path: Path, archive: Archive, n: int) -> list[Any] | None:
    key = next((key for key in ID_NAMES if key in archive.keys and archive.header(key).shape == (n,)), None)
    return None if key is None else checked_ids(archive.read(key).tolist(), key, path)


def _listed(ndims: dict[str, int]) -> str:
    return ", ".join(f"{key} ({ndim}-D)" for key, ndim in ndims.items()) or "nothing"
