"""The rows of an index with more of them, or with fewer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from likewise.errors import LikewiseError
from likewise.search.gallery import embedded
from likewise.search.items import Items, as_items
from likewise.search.rank import query_rows
from likewise.search.smoothed_gallery import SmoothedGallery, base_part

if TYPE_CHECKING:
    from likewise.search.index import Index


class IndexRows(NamedTuple):
    """Raw rows, their vectors, their items, and the vectors smoothed by neighbours, if they are."""

    raw: np.ndarray
    vectors: np.ndarray
    items: Items
    smoothed: SmoothedGallery | None


def plus(index: Index, rows: Any, items: Any) -> IndexRows:
    """The rows of an index that was not taught, followed by others."""
    rows, smoothed = query_rows(rows, index.raw.shape[1]), index._smoothed
    start = int(index.ids.max()) + 1 if index.ids.dtype.kind == "i" and len(index) else len(index)
    joined = index.items.plus(as_items(items, len(rows), start))
    vectors = embedded(index.model, rows)
    smoothed = None if smoothed is None else smoothed.plus(base_part(index.model, vectors))
    raw = np.concatenate([index.raw, rows.astype(index.raw.dtype, copy=False)])
    return IndexRows(raw, np.concatenate([index.plain_vectors, vectors]), joined, smoothed)


def minus(index: Index, ids: Any) -> IndexRows:
    """The rows of an index that was not taught, without those of some ids."""
    kept, smoothed = np.setdiff1d(np.arange(len(index)), index.rows_of(ids)), index._smoothed
    if not len(kept):
        raise LikewiseError(f"removing all {len(index)} items would leave an empty index")
    smoothed = None if smoothed is None else smoothed.take(kept)
    return IndexRows(index.raw[kept], index.plain_vectors[kept], index.items.take(kept), smoothed)
