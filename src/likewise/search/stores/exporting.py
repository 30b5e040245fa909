"""An index into a store: in batches, resumed where it was stopped, and without rows of an earlier export."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from likewise.errors import LikewiseError, optional
from likewise.search.index import BaseIndex
from likewise.search.stores.arrow import record_batch, schema
from likewise.search.stores.base import EXPORT, Kind, Layout, Rows, Store
from likewise.utils.files import atomic_write
from likewise.utils.progress import progress_bar

_BLOCK = 65_536  # rows that are hashed at a time


@dataclass(frozen=True)
class Exported:
    """What an export did: rows written, rows that were there already, and rows of earlier exports removed."""

    written: int
    kept: int
    removed: int
    export: str


def export_to(index: BaseIndex, store: Store, *, verbose: int = 0) -> Exported:
    """Write the vectors, ids and metadata of an index into a table, and remove what an earlier export left there.

    Rows that this very export has written already are skipped: run it again after it was stopped. While it runs, the
    table has rows of both exports.
    """
    columns = metadata_of(index)
    store.create(layout_of(index, columns))
    export, written = fingerprint(index), 0
    with progress_bar(f"exporting to {store.table}", len(index), enabled=verbose > 0) as advance:
        for rows in batches(index, columns, store.batch):
            new = rows.without(store.written(rows.ids, export))
            if len(new):
                store.upsert(new.ids, new.vectors, new.metadata, export=export)  # type: ignore[arg-type]
            written += len(new)
            advance(len(rows))
    return Exported(written, len(index) - written, store.prune(export), export)


def own_columns(index: BaseIndex) -> dict[str, Any]:
    """Labels and paths, where the index has them."""
    columns = {"label": index.labels, "path": index.paths}
    return {name: column for name, column in columns.items() if column is not None}


def metadata_of(index: BaseIndex) -> dict[str, Any]:
    """The columns of an index that are exported next to ids and vectors; a name that is taken gets a _ appended."""
    columns, taken = own_columns(index), {"id", "vector", "label", "path", EXPORT}
    for name in () if index.metadata is None else index.metadata.names:
        columns[f"{name}_" if name.lower() in taken else name] = index.metadata.column(name)  # type: ignore[union-attr]
    return columns


def layout_of(index: BaseIndex, columns: dict[str, Any]) -> Layout:
    """A table of these columns next to ids and vectors."""
    kinds = {name: _kind(column) for name, column in columns.items()}
    return Layout(index.vectors.shape[1], "int" if index.ids.dtype.kind == "i" else "text", kinds)


def batches(index: BaseIndex, columns: dict[str, Any], size: int) -> Iterator[Rows]:
    """Ids, vectors and these columns in batches; dates and booleans are text, as JSON spells them."""
    kinds = layout_of(index, columns).metadata
    for start in range(0, len(index), size):
        part = slice(start, start + size)
        metadata = {name: _of_kind(_values(column, part), kinds[name]) for name, column in columns.items()}
        yield Rows(index.ids[part].tolist(), np.asarray(index.vectors[part], np.float32), metadata)


def fingerprint(index: BaseIndex) -> str:
    """A name for what an index holds: another model, other rows or other labels have another one."""
    digest = blake2b(digest_size=8)
    for start in range(0, len(index), _BLOCK):
        part = slice(start, start + _BLOCK)
        digest.update(np.ascontiguousarray(index.vectors[part], np.float32).tobytes())
        columns = [index.ids[part].tolist(), *({n: _values(c, part)} for n, c in metadata_of(index).items())]
        digest.update(json.dumps(columns, default=str).encode())
    return digest.hexdigest()


def _kind(column: Any) -> Kind:
    """Arrow's numbers are numbers; labels and paths are text."""
    if isinstance(column, np.ndarray):
        return "text"
    from likewise.search.stores.arrow import kind_of_type

    return kind_of_type(column.type)


def _values(column: Any, part: slice) -> list[Any]:
    if isinstance(column, np.ndarray):
        return column[part].tolist()
    return column.slice(part.start, part.stop - part.start).to_pylist()


def _of_kind(values: list[Any], kind: str) -> list[Any]:
    return [None if v is None else _text(v) for v in values] if kind == "text" else values


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return value.isoformat() if isinstance(value, date) else str(value)


# ---------------------------------------------------------------------------------------------------------------------
# Rows of a store into a file: Parquet in batches, or NumPy's .npz


def pull(store: Store, path: str | os.PathLike[str], *, verbose: int = 0) -> int:
    """Write all rows of a table to `path`, .parquet or .npz, as `likewise fit` reads them; returns their number."""
    path = Path(path)
    if path.suffix.lower() not in (".parquet", ".npz"):
        raise LikewiseError(f"{path} ends with {path.suffix or 'nothing'}; expected .parquet or .npz")
    layout, total = store.existing_layout(), store.count()
    if total == 0:
        raise LikewiseError(f"the table {store.table!r} is empty")
    with progress_bar(f"pulling {store.table}", total, enabled=verbose > 0) as advance:
        rows = _counted(store.scan(), advance)
        write = _write_parquet if path.suffix.lower() == ".parquet" else _write_npz
        atomic_write(path, lambda file: write(file, rows, layout))
    return total


def _counted(batches: Iterator[Rows], advance: Any) -> Iterator[Rows]:
    for rows in batches:
        yield rows
        advance(len(rows))


def _write_parquet(file: Any, batches: Iterator[Rows], layout: Layout) -> None:
    parquet = optional("pyarrow.parquet", "Parquet", "parquet")
    columns = schema(layout)
    with parquet.ParquetWriter(file, columns) as writer:
        for rows in batches:
            writer.write_batch(_as_batch(rows, columns))


def _as_batch(rows: Rows, columns: Any) -> Any:
    import pyarrow as pa

    try:
        return record_batch(rows, columns)
    except pa.ArrowException as error:
        raise LikewiseError(f"the rows differ in kind from the first ones: {str(error).splitlines()[0]}") from error


def _write_npz(file: Any, batches: Iterator[Rows], layout: Layout) -> None:
    """`X`, `ids` and a key for each column; the whole table is in memory."""
    parts = list(batches)
    arrays = {
        "X": np.concatenate([rows.vectors for rows in parts]),
        "ids": _array([n for rows in parts for n in rows.ids]),
    }
    for name in layout.metadata:
        arrays[name] = _array([value for rows in parts for value in rows.metadata.get(name, [None] * len(rows))])
    np.savez(file, **arrays)  # type: ignore[arg-type]


def _array(values: list[Any]) -> np.ndarray:
    """Numbers as numbers, else text; what is missing is NaN or empty."""
    if all(isinstance(value, int | float | None) for value in values):
        missing = any(value is None for value in values)
        return np.array([np.nan if value is None else value for value in values] if missing else values)
    return np.array(["" if value is None else str(value) for value in values])
