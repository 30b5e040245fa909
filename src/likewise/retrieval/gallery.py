"""The rows of an index: from a feature store, a table, a path to either, an array, or blocks of rows."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from likewise.data.rows import is_blocks
from likewise.errors import LikewiseError
from likewise.retrieval.items import Items, as_items
from likewise.retrieval.streaming import spooled
from likewise.tables import Table, read_table
from likewise.tables.store import EXTRACTOR, FeatureStore, is_store

__all__ = ["EXTRACTOR", "GalleryRows", "as_gallery"]


@dataclass(frozen=True)
class GalleryRows:
    """Raw rows, their items, and the extractor that made them, if there is one."""

    raw: np.ndarray
    items: Items
    root: Path | None = None
    extractor: dict[str, Any] | None = None
    extractor_file: Path | None = None


def as_gallery(source: Any, probe: Callable[[np.ndarray], object] = lambda rows: None) -> GalleryRows:
    """Rows from a store, a table, a path to either, an array or blocks; `probe` is shown a first row of blocks."""
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        source = FeatureStore.open(path) if is_store(path) else read_table(path)
    if isinstance(source, FeatureStore):
        return _from_store(source)
    if isinstance(source, Table):
        return GalleryRows(_checked(source.X), as_items(source, source.X.shape[0]))
    raw = spooled(source, probe) if is_blocks(source) else _checked(source)
    return GalleryRows(raw, as_items(None, len(raw)))


def _from_store(store: FeatureStore) -> GalleryRows:
    known = {"label": store.labels, "path": store.paths}
    items = as_items({name: values for name, values in known.items() if values is not None}, len(store))
    file = store.path / EXTRACTOR
    return GalleryRows(store.features, items, store.root, store.meta.get("extractor"), file if file.is_file() else None)


def _checked(rows: Any) -> np.ndarray:
    if sp.issparse(rows):
        raise LikewiseError("gallery is sparse; an index holds dense rows: reduce it first, as TruncatedSVD does")
    raw = np.asarray(rows)  # of a memmap a view, still mapped
    if raw.ndim != 2 or raw.dtype.kind not in "biuf" or 0 in raw.shape:
        raise LikewiseError(f"gallery has shape {raw.shape} and type {raw.dtype}; expected rows of numbers")
    return raw
