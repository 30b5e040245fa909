"""An index into a store: in batches, resumed where it was stopped, and without rows of an earlier export."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np

from likewise.retrieval.index import Index
from likewise.retrieval.stores.base import Layout, Rows, Store, kind_of_values
from likewise.utils.progress import progress_bar

_BLOCK = 65_536  # rows that are hashed at a time


@dataclass(frozen=True)
class Exported:
    """What an export did: rows written, rows that were there already, and rows of earlier exports removed."""

    written: int
    kept: int
    removed: int
    export: str


def export_to(index: Index, store: Store, *, verbose: int = 0) -> Exported:
    """Write the vectors, ids and metadata of an index into a table, and remove what an earlier export left there.

    Rows that this very export has written already are skipped: run it again after it was stopped. While it runs, the
    table has rows of both exports.
    """
    store.create(layout_of(index))
    export, written = fingerprint(index), 0
    with progress_bar(f"exporting to {store.table}", len(index), enabled=verbose > 0) as advance:
        for rows in batches(index, store.batch):
            new = rows.without(store.written(rows.ids, export))
            if len(new):
                store.upsert(new.ids, new.vectors, new.metadata, export=export)  # type: ignore[arg-type]
            written += len(new)
            advance(len(rows))
    return Exported(written, len(index) - written, store.prune(export), export)


def metadata_of(index: Index) -> dict[str, np.ndarray]:
    """The columns of an index that are exported beside ids and vectors."""
    columns = {"label": index.labels, "path": index.paths}
    return {name: column for name, column in columns.items() if column is not None}


def layout_of(index: Index) -> Layout:
    """The columns of the table of an index; labels are text, so that a table of numbers takes words later."""
    kinds = {name: kind_of_values(column.tolist()) for name, column in metadata_of(index).items()}
    kinds |= {name: "text" for name in ("label", "path") if name in kinds}
    return Layout(index.vectors.shape[1], "int" if index.ids.dtype.kind == "i" else "text", kinds)


def batches(index: Index, size: int) -> Iterator[Rows]:
    """The rows of an index in batches; a column of mixed kinds is text."""
    columns, kinds = metadata_of(index), layout_of(index).metadata
    for start in range(0, len(index), size):
        part = slice(start, start + size)
        metadata = {name: _of_kind(column[part].tolist(), kinds[name]) for name, column in columns.items()}
        yield Rows(index.ids[part].tolist(), np.asarray(index.vectors[part], np.float32), metadata)


def fingerprint(index: Index) -> str:
    """A name for what an index holds: another model, other rows or other labels have another one."""
    found = blake2b(digest_size=8)
    for start in range(0, len(index), _BLOCK):
        part = slice(start, start + _BLOCK)
        found.update(np.ascontiguousarray(index.vectors[part], np.float32).tobytes())
        columns = [index.ids[part].tolist(), *({n: c[part].tolist()} for n, c in metadata_of(index).items())]
        found.update(json.dumps(columns, default=str).encode())
    return found.hexdigest()


def _of_kind(values: list[Any], kind: str) -> list[Any]:
    return [v if v is None or isinstance(v, str) else str(v) for v in values] if kind == "text" else values
