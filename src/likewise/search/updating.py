"""An index brought up to date with its table: rows are matched by ids; only new and changed ones are embedded."""

from typing import Any, NamedTuple

import numpy as np

from likewise.errors import LikewiseError
from likewise.learn.base import SimilarityModel
from likewise.search.gallery import GalleryRows, as_gallery
from likewise.search.index import Index
from likewise.search.items import Items
from likewise.search.neighbors import Neighbors
from likewise.search.rank import query_rows
from likewise.utils.arrays import row_hashes


class Changes(NamedTuple):
    """What differs between an index and a newer state of its table, in rows; with another model all are embedded."""

    new: int
    changed: int
    gone: int
    embedded: int
    other_model: bool

    def __bool__(self) -> bool:
        return bool(self.new or self.changed or self.gone or self.other_model)


def updated(
    index: Index,
    gallery: object,
    model: SimilarityModel | None = None,
    *,
    approximate: bool | str | None = None,
    n_neighbors: str | int | Neighbors = "auto",
    new_items: str | float = "auto",
    verbose: int = 0,
) -> tuple[Index, Changes]:
    """The index of a newer state of its gallery, and what has changed; both need ids of their own.

    Rows that stay come first, in the order of the index, then changed and new ones. With a model that has another
    identity, another `approximate` or another number of neighbours the index is built again; "auto" and None are those
    that the index has.
    """
    parts = as_gallery(gallery, id_column=index.items.id_column)
    for items, where in ((index.items, "the index"), (parts.items, "the gallery")):
        if items.numbered:
            raise LikewiseError(f"{where} has no ids: an update needs a column of ids, by which rows are recognised")
    index.items.check_ids_of(parts.items)
    model = index.model if model is None else model
    before = np.array([index.items.row_of.get(name, -1) for name in parts.items.ids.tolist()], dtype=np.int64)
    there = np.flatnonzero(before >= 0)
    is_other_model = model.closed.identity != index.model.closed.identity
    same_width = parts.raw.shape[1] == index.raw.shape[1]
    moved = np.full(len(there), not same_width)  # rows with other features
    if same_width:
        moved = row_hashes(parts.raw)[there] != row_hashes(index.raw)[before[there]]
    differs = moved | _other_columns(index.items, before[there], parts.items, there)
    kind = index.approximate if approximate is None else approximate
    present = index.neighbors or 0
    neighbors = present if n_neighbors in ("auto", getattr(present, "k", 0)) else n_neighbors
    other_gate = new_items != "auto" and (new_items, index.model.taught_share) != (0, None)
    if is_other_model or other_gate or (kind, neighbors) != (index.approximate, present):
        other = Index.build(model, parts, approximate=kind, n_neighbors=neighbors, new_items=new_items, verbose=verbose)
        n_embedded = len(other)
    else:
        other, n_embedded = _with_changes(index, parts, before, there[~moved])
    n_gone = len(index) - len(there)
    return other, Changes(len(other) - len(there), int(differs.sum()), n_gone, n_embedded, is_other_model)


def _with_changes(index: Index, parts: GalleryRows, before: np.ndarray, staying: np.ndarray) -> tuple[Index, int]:
    """The index with the rows that stay, then those with other features and the new ones; and how many these are."""
    staying = staying[np.argsort(before[staying])]
    others = np.setdiff1d(np.arange(len(before)), staying)
    items = parts.items.take(np.concatenate([staying, others]))
    new = query_rows(np.asarray(parts.raw[others]), index.raw.shape[1]) if len(others) else index.raw[:0]
    other = index.changed(before[staying], new, items)
    other.root, other.extractor, other.extractor_file = parts.root, parts.extractor, parts.extractor_file
    return other, len(others)


def _other_columns(old: Items, old_rows: np.ndarray, new: Items, new_rows: np.ndarray) -> np.ndarray:
    """Whether the label, the path or the metadata of each row differs."""
    differs = np.zeros(len(new_rows), dtype=bool)
    names = dict.fromkeys(name for items in (old, new) if items.metadata for name in items.metadata.names)
    pairs = [(old.labels, new.labels), (old.paths, new.paths)]
    pairs += [(_column(old, name), _column(new, name)) for name in names]
    for one, two in pairs:
        cells = zip(_cells(one, old_rows), _cells(two, new_rows), strict=True)
        differs |= np.array([a != b for a, b in cells], dtype=bool)
    return differs


def _column(items: Items, name: str) -> Any:
    return None if items.metadata is None or name not in items.metadata.names else items.metadata.column(name)


def _cells(column: Any, rows: np.ndarray) -> Any:
    if column is None:
        return [None] * len(rows)
    return column[rows] if isinstance(column, np.ndarray) else column.take(rows).to_pylist()
