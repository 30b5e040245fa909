"""Tables in NumPy's files and in Parquet."""

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.lib import format as npy

from likewise.errors import FileFormatError, LikewiseError, optional
from likewise.tables.table import LABEL_NAMES, NAME_NAMES, Table, checked_rows, named_column, tidy_labels

_FEATURE_KEYS = ("X", "features", "embeddings", "x", "data")
_NAME_KEYS = ("names", "paths", "files", "ids")
# Of the archives of scipy.sparse.save_npz, in all its formats.
_SPARSE_KEYS = {"format", "shape", "data", "_is_array", "indices", "indptr", "offsets", "coords", "row", "col"}


def load_array(path: Path) -> np.ndarray:
    """One array from a `.npy` file, memory-mapped; pickled objects are refused."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise FileFormatError(_why_not(path, ".npy", error)) from error
    if not isinstance(array, np.ndarray):
        raise FileFormatError(f"{path} is a .npz archive with the name of a .npy file: rename it")
    return array


def read_npy(path: Path) -> Table:
    """Rows from a `.npy` file; they stay on the disk until they are used."""
    notes: list[str] = []
    return Table(checked_rows(load_array(path), str(path), notes), source=str(path), notes=notes)


def read_npz(path: Path, features: str | None = None, label_column: str | None = None) -> Table:
    """Rows and labels from an `.npz` archive, under the keys people use or the ones given."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            return _from_archive(path, archive, features, label_column)
    except (zipfile.BadZipFile, ValueError, OSError, EOFError, AttributeError) as error:
        if isinstance(error, LikewiseError):
            raise
        raise FileFormatError(_why_not(path, ".npz", error)) from error


def _from_archive(path: Path, archive: Any, features: str | None, label_column: str | None) -> Table:
    keys = list(archive.files)
    if {"format", "shape", "data"} <= set(keys) or {"indptr", "indices", "shape", "data"} <= set(keys):
        return _from_sparse(path, archive, label_column)
    ndims = {key: _ndim(archive, key) for key in keys}
    rows = _pick(path, ndims, features, _FEATURE_KEYS, matrix=True)
    y = _labels(path, archive, ndims, label_column)
    notes: list[str] = []
    X = checked_rows(archive[rows], f"{path}[{rows}]", notes)
    return Table(X, y, _names(archive, len(X)), str(path), notes)


def _from_sparse(path: Path, archive: Any, label_column: str | None) -> Table:
    """What `scipy.sparse.save_npz` wrote, or the parts of a CSR matrix; labels may stand under their usual keys."""
    if "format" in archive.files:
        X = sp.csr_array(sp.load_npz(path))
    else:
        X = sp.csr_array(tuple(archive[key] for key in ("data", "indices", "indptr")), shape=tuple(archive["shape"]))
    ndims = {key: _ndim(archive, key) for key in archive.files if key not in _SPARSE_KEYS}
    return Table(X, _labels(path, archive, ndims, label_column), _names(archive, X.shape[0]), str(path))


def _labels(path: Path, archive: Any, ndims: dict[str, int], label_column: str | None) -> np.ndarray | None:
    key = _pick(path, ndims, label_column, LABEL_NAMES, matrix=False)
    if key is None:
        return None
    y = archive[key]
    if y.size != max(y.shape, default=0):  # a column or a row is a list of labels, too
        raise LikewiseError(f"{path}[{key}] has shape {y.shape}: expected one label per row")
    return tidy_labels(y.ravel())


def _pick(path: Path, ndims: dict[str, int], asked: str | None, usual: tuple[str, ...], *, matrix: bool) -> str | None:
    """The key asked for, else a usual one, else the only array of the right kind."""
    if asked is not None:
        if asked not in ndims:
            raise LikewiseError(f"{path} has no key {asked!r}: it holds {_listed(ndims)}")
        return asked
    fitting = [key for key, ndim in ndims.items() if (ndim >= 2 if matrix else ndim == 1)]
    found = [key for key in usual if key in fitting] or (fitting if len(fitting) == 1 else [])
    if found:
        return found[0]
    if not fitting and not matrix:
        return None
    what = "features with --features" if matrix else "labels with --label-column"
    raise LikewiseError(f"{path} holds {_listed(ndims)}: name the key of the {what}")


def npy_header(file: Any) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Shape, whether in Fortran order, and type of the array in an open `.npy` file."""
    version = npy.read_magic(file)
    return (npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0)(file)


def _ndim(archive: Any, key: str) -> int:
    with archive.zip.open(f"{key}.npy") as file:
        return len(npy_header(file)[0])


def _names(archive: Any, n: int) -> list[str] | None:
    for key in _NAME_KEYS:
        if key in archive.files and archive[key].shape == (n,):
            return [str(value) for value in archive[key]]
    return None


def _listed(ndims: dict[str, int]) -> str:
    return ", ".join(f"{key} ({ndim}-D)" for key, ndim in ndims.items()) or "nothing"


def _why_not(path: Path, kind: str, error: Exception) -> str:
    if "pickle" in str(error).lower() or "object" in str(error).lower():
        return f"{path} holds pickled objects, which can run code: save numbers, and labels as text"
    return f"{path} is not a {kind} file, or it is truncated: {error}"


_EMBEDDING_NAMES = ("embedding", "embeddings", "features", "vector", "x")


def read_parquet(path: Path, features: str | None = None, label_column: str | None = None) -> Table:
    frame = parquet_frame(path)
    if frame.num_rows == 0:
        raise LikewiseError(f"{path} is empty: it has columns and no rows")
    label = named_column(path, frame.column_names, label_column)
    name = named_column(path, frame.column_names, None, NAME_NAMES)
    notes: list[str] = []
    X = checked_rows(_rows(path, frame, features, {label, name}, notes), str(path), notes)
    y = None if label is None else tidy_labels(frame[label].to_pylist())
    names = None if name is None else [str(value) for value in frame[name].to_pylist()]
    return Table(X, y, names, str(path), notes)


def parquet_frame(path: Path) -> Any:
    """The Arrow table in a Parquet file."""
    pq, pa = (optional(name, f"reading {path}", "parquet") for name in ("pyarrow.parquet", "pyarrow"))
    try:
        return pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise FileFormatError(f"{path} is not a Parquet file, or it is damaged: {error}") from error


def _rows(path: Path, frame: Any, features: str | None, taken: set[str | None], notes: list[str]) -> np.ndarray:
    """The embedding column if there is one, the numeric columns otherwise."""
    columns = [column for column in frame.column_names if column not in taken]
    if features is not None:
        return _embeddings(path, frame, named_column(path, frame.column_names, features) or "")
    lists = [column for column in columns if _holds_lists(frame.schema.field(column).type)]
    usual = [column for column in lists if column.lower() in _EMBEDDING_NAMES]
    if len(lists) == 1 or len(usual) == 1:
        return _embeddings(path, frame, (usual or lists)[0])
    if lists:
        raise LikewiseError(f"{path} has the embedding columns {', '.join(lists)}: name one with --features")
    return _numeric(path, frame, columns, notes)


def _numeric(path: Path, frame: Any, columns: list[str], notes: list[str]) -> np.ndarray:
    numeric = [column for column in columns if _is_numeric(frame.schema.field(column).type)]
    if not numeric:
        raise LikewiseError(f"{path} has no embedding column and no numeric one: it has {', '.join(columns)}")
    left_out = [column for column in columns if column not in numeric]
    if left_out:
        notes.append(f"{path}: not used as features: {', '.join(left_out)}")
    return np.column_stack([frame[column].to_numpy().astype(np.float64) for column in numeric])


def _embeddings(path: Path, frame: Any, column: str) -> np.ndarray:
    """A list column as a matrix; a missing or a shorter row is named."""
    import pyarrow as pa
    import pyarrow.compute as pc

    values = frame[column].combine_chunks()
    if isinstance(values, pa.ChunkedArray):
        values = pa.concat_arrays(values.chunks)
    values = getattr(values, "storage", values)  # an Arrow tensor column keeps its numbers in there
    if not _holds_lists(values.type):
        raise LikewiseError(f"column {column!r} of {path} is {values.type}: expected lists of numbers")
    if values.null_count:
        row = np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))[0] + 1
        raise LikewiseError(f"row {row} of {path} has no {column}: expected a list of numbers")
    widths = pc.list_value_length(values).to_numpy(zero_copy_only=False)
    if (widths != widths[0]).any():
        row = np.flatnonzero(widths != widths[0])[0]
        raise LikewiseError(f"row {row + 1} of {path} has {widths[row]} numbers in {column!r}: expected {widths[0]}")
    flat = values.flatten().to_numpy(zero_copy_only=False)
    return flat.reshape(len(values), int(widths[0]))


def _holds_lists(kind: Any) -> bool:
    import pyarrow.types as pt

    kind = getattr(kind, "storage_type", kind)
    is_list = pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind)
    return is_list and _is_numeric(kind.value_type)


def _is_numeric(kind: Any) -> bool:
    import pyarrow.types as pt

    return pt.is_integer(kind) or pt.is_floating(kind) or pt.is_boolean(kind)
