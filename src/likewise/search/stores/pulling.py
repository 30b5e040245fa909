"""Rows of a store into a file: Parquet in batches, or NumPy's .npz."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from likewise.errors import LikewiseError, optional
from likewise.search.stores.arrow import record_batch, schema
from likewise.search.stores.base import Layout, Rows, Store
from likewise.utils.files import atomic_write
from likewise.utils.progress import progress_bar


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
    found = list(batches)
    arrays = {
        "X": np.concatenate([rows.vectors for rows in found]),
        "ids": _array([n for rows in found for n in rows.ids]),
    }
    for name in layout.metadata:
        arrays[name] = _array([value for rows in found for value in rows.metadata.get(name, [None] * len(rows))])
    np.savez(file, **arrays)  # type: ignore[arg-type]


def _array(values: list[Any]) -> np.ndarray:
    """Numbers as numbers, else text; what is missing is NaN or empty."""
    if all(isinstance(value, int | float | None) for value in values):
        missing = any(value is None for value in values)
        return np.array([np.nan if value is None else value for value in values] if missing else values)
    return np.array(["" if value is None else str(value) for value in values])
