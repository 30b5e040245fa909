"""Parquet files: a column of embeddings, or numeric columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from likewise.errors import FileFormatError, LikewiseError, MissingExtraError
from likewise.tables.table import LABEL_NAMES, NAME_NAMES, Table, checked_rows, tidy_labels

__all__ = ["parquet_frame", "read_parquet"]

_EMBEDDING_NAMES = ("embedding", "embeddings", "features", "vector", "x")


def read_parquet(path: Path, features: str | None = None, label_column: str | None = None) -> Table:
    """Rows and labels from a Parquet file."""
    frame = parquet_frame(path)
    if frame.num_rows == 0:
        raise LikewiseError(f"{path} is empty: it has columns and no rows")
    label = _known(path, frame.column_names, label_column, LABEL_NAMES)
    name = _known(path, frame.column_names, None, NAME_NAMES)
    notes: list[str] = []
    X = checked_rows(_rows(path, frame, features, {label, name}, notes), str(path), notes)
    y = None if label is None else tidy_labels(frame[label].to_pylist())
    names = None if name is None else [str(value) for value in frame[name].to_pylist()]
    return Table(X, y, names, str(path), notes)


def parquet_frame(path: Path) -> Any:
    """The Arrow table in a Parquet file."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingExtraError(f"reading {path}", "parquet") from error
    try:
        return pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise FileFormatError(f"{path} is not a Parquet file, or it is damaged: {error}") from error


def _known(path: Path, columns: list[str], asked: str | None, usual: tuple[str, ...]) -> str | None:
    if asked is not None and asked not in columns:
        raise LikewiseError(f"{path} has no column {asked!r}: its columns are {', '.join(columns)}")
    lowered = {column.lower(): column for column in columns}
    return asked or next((lowered[name] for name in usual if name in lowered), None)


def _rows(path: Path, frame: Any, features: str | None, taken: set[str | None], notes: list[str]) -> np.ndarray:
    """The embedding column if there is one, the numeric columns otherwise."""
    columns = [column for column in frame.column_names if column not in taken]
    if features is not None:
        return _embeddings(path, frame, _known(path, frame.column_names, features, ()) or "")
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
