"""Tables in Parquet files; the vectors of one that is larger than memory go to a temporary file, block by block."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from likewise.errors import FileFormatError, LikewiseError, optional
from likewise.rows import table as tables
from likewise.rows.columns import Columns, kept_fields
from likewise.rows.npy import explained
from likewise.rows.sources import spooled
from likewise.rows.table import ID_NAMES, NAME_NAMES, Table, checked_rows, named_column

_EMBEDDING_NAMES = ("embedding", "embeddings", "features", "vector", "x")
_BUFFER = 1 << 20  # bytes of a column that are read at a time: without it a whole row group is


def is_parquet(path: Path) -> bool:
    """Whether a file is called a Parquet file."""
    return path.suffix.lower() in (".parquet", ".pq")


def streamed_parquet(
    path: Path, vector: str | None = None, label: str | None = None, id_column: str | None = None
) -> Table:
    """A Parquet file as a table whose vectors, a column of lists of one length, are on disk, in a temporary file."""
    if not path.is_file():
        raise LikewiseError(f"{path} does not exist")
    return read_parquet(path, vector, label, id_column, on_disk=True)


def _vectors(path: Path, column: str) -> Iterator[np.ndarray]:
    """A column of lists of one length as blocks of rows."""
    first, width = 0, None
    with readable_parquet(path) as parquet, parquet.ParquetFile(path, buffer_size=_BUFFER, pre_buffer=False) as file:
        for batch in file.iter_batches(4096, columns=[column]):
            rows = list_rows(path, batch.column(0), column, first, width)
            if rows.shape[1] == 0:
                raise LikewiseError(f"row 1 of {path} has no numbers in {column!r}: expected a list of numbers")
            first, width = first + len(rows), rows.shape[1]
            yield rows


# -- Reading a file as a table -----------------------------------------------------------------------------------------


def read_parquet(
    path: Path,
    features: str | None = None,
    label_column: str | None = None,
    id_column: str | None = None,
    metadata: Sequence[str] = (),
    on_disk: bool = False,
) -> Table:
    """Rows, labels, ids and names from a Parquet file; its other columns are read when they are asked for."""
    with explained(path, "Parquet"):
        with readable_parquet(path) as parquet, parquet.ParquetFile(path) as file:
            schema, notes = file.schema_arrow, list[str]()
            if file.metadata.num_rows == 0:
                raise LikewiseError(f"{path} is empty: it has columns and no rows")
        columns = list(schema.names)
        known = {
            "label": named_column(path, columns, label_column),
            "id": named_column(path, columns, id_column, ID_NAMES),
            "path": named_column(path, columns, None, NAME_NAMES),
        }
        for column in metadata:
            named_column(path, columns, column)
        rows, is_list = _feature_columns(path, schema, features, {*known.values(), *metadata}, notes)
        if known["label"] is None:
            known["label"] = _only_text(path, schema, {*known.values(), *rows, *metadata})
        wanted = [column for column in known.values() if column is not None]
        X: np.ndarray
        if on_disk and is_list:
            X, frame = spooled(_vectors(path, rows[0]), str(path)), parquet_frame(path, wanted)
        else:
            frame = parquet_frame(path, [*rows, *wanted])
            numbers = [] if is_list else [frame[column].to_numpy().astype(np.float64) for column in rows]
            X = _embeddings(path, frame, rows[0]) if is_list else np.column_stack(numbers)
            X = checked_rows(X, str(path), notes)
        y, ids, names = (None if name is None else frame[name].to_pylist() for name in known.values())
        rest = tables.without_built_in([column for column in columns if column not in rows], known)
        return Table(
            X,
            None if y is None else tables.tidy_labels(y),
            None if names is None else ["" if name is None else str(name) for name in names],
            str(path),
            notes,
            None if ids is None else tables.checked_ids(ids, known["id"] or "id", path),
            partial(_parquet_columns, path, rest) if kept_fields(_selected(schema, rest))[0] else None,
            known,
        )


def _only_text(path: Path, schema: Any, taken: set[str | None]) -> str | None:
    """The label, where it is the only text column that is no title and no prose, and its values repeat."""
    import pyarrow.types as pt

    texts, is_text = [], (pt.is_string, pt.is_large_string, pt.is_string_view)
    for field in schema:
        kind = field.type.value_type if pt.is_dictionary(field.type) else field.type
        if field.name not in taken and any(check(kind) for check in is_text):
            texts.append(field.name)
    label = tables.sole_label(texts)
    if label is None:
        return None
    values = parquet_frame(path, [label])[label]
    return label if len(values.unique()) < len(values) else None


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
