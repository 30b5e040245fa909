"""Tables in NumPy's files and in Parquet."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from likewise.errors import FileFormatError, LikewiseError, optional
from likewise.rows.columns import Columns, kept_fields
from likewise.rows.npy import Archive, explained, mapped
from likewise.rows.table import (
    ID_NAMES,
    LABEL_NAMES,
    NAME_NAMES,
    Table,
    check_width,
    checked_ids,
    checked_rows,
    named_column,
    sole_label,
    tidy_labels,
    without_built_in,
)

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
    y = _labels(path, archive, ndims, label_column)
    notes: list[str] = []
    X = checked_rows(archive.read(rows or ""), f"{path}[{rows}]", notes)
    return Table(X, y, _names(archive, len(X)), str(path), notes, _ids(path, archive, len(X)))


def _from_sparse(path: Path, archive: Archive, label_column: str | None) -> Table:
    """What `scipy.sparse.save_npz` wrote, or the parts of a CSR matrix; labels may stand under their usual keys."""
    shape = archive.read("shape")
    if shape.shape != (2,) or shape.dtype.kind not in "iu" or shape.min() < 0 or shape[0] > _most_rows(archive.size):
        raise FileFormatError(f"{path}[shape] is {shape.tolist()}: expected the rows and columns of a matrix")
    n, d = (int(size) for size in shape)
    check_width(d, str(path))
    if "format" in archive.keys:
        found = sp.load_npz(path)
    else:
        found = sp.csr_array(tuple(archive.read(key) for key in ("data", "indices", "indptr")), shape=(n, d))
    if hasattr(found, "check_format"):
        found.check_format(full_check=True)  # places outside of the matrix would be read and written, too
    X = checked_rows(sp.csr_array(found), str(path), [])
    ndims = {key: len(archive.header(key).shape) for key in archive.keys if key not in _SPARSE_KEYS}
    y, n = _labels(path, archive, ndims, label_column), X.shape[0]
    return Table(X, y, _names(archive, n), str(path), ids=_ids(path, archive, n))


def _most_rows(size: int) -> int:
    """Rows that a sparse file of this size may claim: empty rows take no room in it, but some in memory."""
    return max(1_000_000, 64 * size)


def _labels(path: Path, archive: Archive, ndims: dict[str, int], label_column: str | None) -> np.ndarray | None:
    key = _pick(path, ndims, label_column, LABEL_NAMES, matrix=False)
    if key is None:
        return None
    y = archive.read(key)
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


_EMBEDDING_NAMES = ("embedding", "embeddings", "features", "vector", "x")


def read_parquet(
    path: Path,
    features: str | None = None,
    label_column: str | None = None,
    id_column: str | None = None,
    metadata: Sequence[str] = (),
    opened: Callable[[Path, str], Any] | None = None,
) -> Table:
    """Rows, labels, ids and names from a Parquet file; its other columns are read when they are asked for.

    `opened` opens the column of vectors in place of reading it.
    """
    with explained(path, "Parquet"):
        return _from_parquet(path, features, label_column, id_column, metadata, opened)


def _from_parquet(
    path: Path,
    features: str | None,
    label_column: str | None,
    id_column: str | None,
    metadata: Sequence[str],
    opened: Callable[[Path, str], Any] | None,
) -> Table:
    schema = parquet_schema(path)
    columns = list(schema.names)
    known = {
        "label": named_column(path, columns, label_column),
        "id": named_column(path, columns, id_column, ID_NAMES),
        "path": named_column(path, columns, None, NAME_NAMES),
    }
    for column in metadata:
        named_column(path, columns, column)
    notes: list[str] = []
    rows, is_list = _feature_columns(path, schema, features, {*known.values(), *metadata}, notes)
    if known["label"] is None:
        known["label"] = _only_text(path, schema, {*known.values(), *rows, *metadata})
    wanted = [column for column in known.values() if column is not None]
    if opened is not None and is_list:
        X, frame = opened(path, rows[0]), parquet_frame(path, wanted)
    else:
        frame = parquet_frame(path, [*rows, *wanted])
        X = checked_rows(_embeddings(path, frame, rows[0]) if is_list else _numeric(frame, rows), str(path), notes)
    y, ids, names = (None if name is None else frame[name].to_pylist() for name in known.values())
    kept = without_built_in([column for column in columns if column not in rows], known)
    return Table(
        X,
        None if y is None else tidy_labels(y),
        None if names is None else ["" if name is None else str(name) for name in names],
        str(path),
        notes,
        None if ids is None else checked_ids(ids, known["id"] or "id", path),
        partial(_parquet_columns, path, kept) if kept_fields(_selected(schema, kept))[0] else None,
        known["path"],
    )


def _only_text(path: Path, schema: Any, taken: set[str | None]) -> str | None:
    """The label, where it is the only text column that is no title and no prose, and its values repeat."""
    texts = [field.name for field in schema if field.name not in taken and _is_text(field.type)]
    found = sole_label(texts)
    if found is None:
        return None
    values = parquet_frame(path, [found])[found]
    return found if len(values.unique()) < len(values) else None


def _selected(schema: Any, names: Sequence[str]) -> Any:
    import pyarrow as pa

    return pa.schema([field for field in schema if field.name in names])


def _parquet_columns(path: Path, names: list[str]) -> Columns:
    """Columns of a Parquet file, batch by batch."""
    with explained(path, "Parquet"), readable_parquet(path) as parquet, parquet.ParquetFile(path) as file:
        chosen = None if any("." in name for name in names) else names  # a dot would lead into a nested column
        return Columns.spooled(file.iter_batches(10_000, columns=chosen), _selected(file.schema_arrow, names))


@contextmanager
def readable_parquet(path: Path) -> Iterator[Any]:
    """pyarrow.parquet; what it raises on a damaged file becomes one sentence."""
    pq, pa = (optional(name, f"reading {path}", "parquet") for name in ("pyarrow.parquet", "pyarrow"))
    try:
        yield pq
    except (pa.ArrowException, OSError) as error:
        raise FileFormatError(f"{path} is not a Parquet file, or it is damaged: {error}") from error


def parquet_schema(path: Path) -> Any:
    """The columns of a Parquet file that has rows, and their types."""
    with readable_parquet(path) as parquet, parquet.ParquetFile(path) as file:
        if file.metadata.num_rows == 0:
            raise LikewiseError(f"{path} is empty: it has columns and no rows")
        return file.schema_arrow


def parquet_frame(path: Path, columns: Sequence[str] | None = None) -> Any:
    """The Arrow table in a Parquet file, or some of its columns."""
    with readable_parquet(path) as parquet:
        if columns is None or any("." in name for name in columns):
            return parquet.read_table(path)
        return parquet.read_table(path, columns=list(dict.fromkeys(columns)))


def _feature_columns(
    path: Path, schema: Any, features: str | None, taken: set[str | None], notes: list[str]
) -> tuple[list[str], bool]:
    """The embedding column if there is one, and True; the numeric columns otherwise."""
    columns = [column for column in schema.names if column not in taken]
    if features is not None:
        return [named_column(path, list(schema.names), features) or ""], True
    lists = [column for column in columns if _holds_lists(schema.field(column).type)]
    usual = [column for column in lists if column.lower() in _EMBEDDING_NAMES]
    if len(lists) == 1 or len(usual) == 1:
        return [(usual or lists)[0]], True
    if lists:
        raise LikewiseError(f"{path} has the embedding columns {', '.join(lists)}: name one with --features")
    numeric = [column for column in columns if _is_numeric(schema.field(column).type)]
    if not numeric:
        raise LikewiseError(f"{path} has no embedding column and no numeric one: it has {', '.join(columns)}")
    left_out = [column for column in columns if column not in numeric]
    if left_out:
        notes.append(f"{path}: not used as features: {', '.join(left_out)}")
    return numeric, False


def _numeric(frame: Any, columns: list[str]) -> np.ndarray:
    return np.column_stack([frame[column].to_numpy().astype(np.float64) for column in columns])


def _is_text(kind: Any) -> bool:
    import pyarrow.types as pt

    kind = kind.value_type if pt.is_dictionary(kind) else kind
    return bool(pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind))


def _embeddings(path: Path, frame: Any, column: str) -> np.ndarray:
    import pyarrow as pa

    values = frame[column].combine_chunks()
    return list_rows(path, pa.concat_arrays(values.chunks) if isinstance(values, pa.ChunkedArray) else values, column)


def list_rows(path: Path, values: Any, column: str, first: int = 0, width: int | None = None) -> np.ndarray:
    """A list column, or rows of it from `first` on, as a matrix; a missing or a shorter row is named."""
    import pyarrow.compute as pc

    values = getattr(values, "storage", values)  # an Arrow tensor column keeps its numbers in there
    if not _holds_lists(values.type):
        raise LikewiseError(f"column {column!r} of {path} is {values.type}: expected lists of numbers")
    if values.null_count:
        row = first + np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))[0] + 1
        raise LikewiseError(f"row {row} of {path} has no {column}: expected a list of numbers")
    widths = pc.list_value_length(values).to_numpy(zero_copy_only=False)
    width = int(widths[0]) if width is None else width
    if (widths != width).any():
        row = np.flatnonzero(widths != width)[0]
        raise LikewiseError(
            f"row {first + row + 1} of {path} has {widths[row]} numbers in {column!r}: expected {width}"
        )
    return values.flatten().to_numpy(zero_copy_only=False).reshape(len(values), width)


def _holds_lists(kind: Any) -> bool:
    import pyarrow.types as pt

    kind = getattr(kind, "storage_type", kind)
    is_list = pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind)
    return is_list and _is_numeric(kind.value_type)


def _is_numeric(kind: Any) -> bool:
    import pyarrow.types as pt

    return pt.is_integer(kind) or pt.is_floating(kind) or pt.is_boolean(kind)
