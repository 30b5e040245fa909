"""An index into a store, row by row; the vectors of another model go into a table of their own, which is swapped in."""

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
from likewise.search.stores.base import EXPORT, Kind, Layout, Rows, Store, kind_of_type, record_batch, schema
from likewise.utils.arrays import row_hashes
from likewise.utils.files import atomic_write
from likewise.utils.progress import progress_bar


@dataclass(frozen=True)
class Exported:
    """What an export did: rows written, rows that were there already, rows removed, and the identity of the model.

    `swapped` says that the table held vectors of another model: that table is kept until the next swap, so `removed` is
    then 0.
    """

    written: int
    kept: int
    removed: int
    model: str
    swapped: bool


def export_to(index: BaseIndex, store: Store, *, approximate: bool = False, verbose: int = 0) -> Exported:
    """Write the vectors, ids and metadata of an index into a table: rows that are new or differ, without those gone.

    Rows that were added by hand stay. If the table holds vectors of another model, all rows go into a new table, which
    takes the place of the old one in one step when it is complete; `store.rollback()` goes back. An export that was
    stopped goes on where it was when it is run again. `approximate` builds the HNSW index of the store.
    """
    columns, taken = own_columns(index), {"id", "vector", "label", "path", EXPORT}
    for name in () if index.metadata is None else index.metadata.names:  # a name that is taken gets a _ appended
        columns[f"{name}_" if name.lower() in taken else name] = index.metadata.column(name)  # type: ignore[union-attr]
    layout, existing, model = layout_of(index, columns), store.layout(), index.model.identity
    tags = {} if existing is None else store.tags()
    models = {None if existing is None else existing.model, *(tag.partition("-")[0] for tag in tags.values())}
    is_swapped = bool(models - {None, model})
    if is_swapped:
        target = store.staged(layout)
        tags = target.tags()
    else:
        target = store
        target.create(layout)
    written = 0
    with progress_bar(f"exporting to {store.table}", len(index), enabled=verbose > 0) as advance:
        for rows in batches(index, columns, store.batch):
            # A row is known by the model and by a hash of its vector and its metadata.
            names, codes = repr(list(rows.metadata)), row_hashes(rows.vectors).tolist()
            records = [f"{names}{record}".encode() for record in zip(codes, *rows.metadata.values(), strict=True)]
            new_tags = [f"{model}-{blake2b(record, digest_size=8).hexdigest()}" for record in records]
            changed = [row for row, name in enumerate(rows.ids) if tags.pop(name, None) != new_tags[row]]
            if changed:
                new = rows.take(changed)
                target.upsert(new.ids, new.vectors, new.metadata, tags=[new_tags[row] for row in changed])  # type: ignore[arg-type]
            written += len(changed)
            advance(len(rows))
    target.remove(list(tags))
    target.settle()
    if approximate:
        target.build_index()
    if is_swapped:
        store.swap(target)
    return Exported(written, len(index) - written, 0 if is_swapped else len(tags), model, is_swapped)


def own_columns(index: BaseIndex) -> dict[str, Any]:
    """Labels and paths, where the index has them."""
    columns = {"label": index.labels, "path": index.paths}
    return {name: column for name, column in columns.items() if column is not None}


def layout_of(index: BaseIndex, columns: dict[str, Any]) -> Layout:
    """A table of these columns next to ids and vectors."""
    ids: Kind = "int" if index.ids.dtype.kind == "i" else "text"
    return Layout(index.vectors.shape[1], ids, _kinds(columns), index.model.card())


def batches(index: BaseIndex, columns: dict[str, Any], size: int) -> Iterator[Rows]:
    """Ids, vectors and these columns in batches; dates and booleans are text, as JSON spells them."""
    kinds = _kinds(columns)
    for start in range(0, len(index), size):
        part = slice(start, start + size)
        metadata = {}
        for name, column in columns.items():
            values = column[part].tolist() if isinstance(column, np.ndarray) else column.slice(start, size).to_pylist()
            is_text = kinds[name] == "text"
            metadata[name] = [None if v is None else _text(v) for v in values] if is_text else values
        yield Rows(index.ids[part].tolist(), np.asarray(index.vectors[part], np.float32), metadata)


def _kinds(columns: dict[str, Any]) -> dict[str, Kind]:
    """Arrow's numbers are numbers; labels and paths are text."""
    return {name: "text" if isinstance(c, np.ndarray) else kind_of_type(c.type) for name, c in columns.items()}


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return value.isoformat() if isinstance(value, date) else str(value)


# -- Rows of a store into a file: Parquet in batches, or NumPy's .npz --------------------------------------------------


def pull(store: Store, path: str | os.PathLike[str], *, verbose: int = 0) -> int:
    """Write all rows of a table to `path`, .parquet or .npz, as `likewise fit` reads them; returns their number."""
    path = Path(path)
    if path.suffix.lower() not in (".parquet", ".npz"):
        raise LikewiseError(f"{path} ends with {path.suffix or 'nothing'}; expected .parquet or .npz")
    layout, total = store.existing_layout(), store.count()
    if total == 0:
        raise LikewiseError(f"the table {store.table!r} is empty")
    with progress_bar(f"pulling {store.table}", total, enabled=verbose > 0) as advance:

        def batches() -> Iterator[Rows]:
            for rows in store.scan():
                yield rows
                advance(len(rows))

        write = _write_parquet if path.suffix.lower() == ".parquet" else _write_npz
        atomic_write(path, lambda file: write(file, batches(), layout))
    return total


def _write_parquet(file: Any, batches: Iterator[Rows], layout: Layout) -> None:
    pa, parquet = (optional(name, "Parquet", "parquet") for name in ("pyarrow", "pyarrow.parquet"))
    columns = schema(layout)
    with parquet.ParquetWriter(file, columns) as writer:
        for rows in batches:
            try:
                writer.write_batch(record_batch(rows, columns))
            except pa.ArrowException as error:
                reason = str(error).splitlines()[0]
                raise LikewiseError(f"the rows differ in kind from the first ones: {reason}") from error


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
