"""What an index is built from: a feature store, a path to one or to a table, rows, or blocks of rows."""

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

__all__ = ["EXTRACTOR", "Gallery", "as_gallery"]

EXTRACTOR = "extractor.safetensors"  # beside the rows that it made


@dataclass(frozen=True)
class Gallery:
    """Raw rows and all that is known of them."""

    raw: np.ndarray
    items: Items
    root: Path | None = None
    extractor: dict[str, Any] | None = None
    extractor_file: Path | None = None


def as_gallery(source: Any, probe: Callable[[np.ndarray], object] = lambda rows: None) -> Gallery:
    """Rows from whatever holds them; of blocks `probe` sees the first row before the others are asked for."""
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        if not (path / "meta.json").is_file():
            return as_gallery(read_table(path))
        from likewise.features import FeatureStore

        return _from_store(FeatureStore.open(path))
    if hasattr(source, "items") and hasattr(source, "meta"):
        return _from_store(source)
    if isinstance(source, Table):
        return Gallery(_checked(source.X), as_items(source, source.X.shape[0]))
    raw = spooled(source, probe) if is_blocks(source) else _checked(source)
    return Gallery(raw, as_items(None, len(raw)))


def _from_store(store: Any) -> Gallery:
    items = as_items({"label": store.labels, "path": store.paths} if store.labels is not None else
                     {"path": store.paths}, len(store))  # fmt: skip
    file = store.path / EXTRACTOR
    return Gallery(store.features, items, store.root, store.meta.get("extractor"), file if file.is_file() else None)


def _checked(rows: Any) -> np.ndarray:
    if sp.issparse(rows):
        raise LikewiseError("gallery is sparse; an index holds dense rows: reduce it first, as TruncatedSVD does")
    raw = np.asarray(rows)  # of a memmap a view, still mapped
    if raw.ndim != 2 or raw.dtype.kind not in "biuf" or 0 in raw.shape:
        raise LikewiseError(f"gallery has shape {raw.shape} and type {raw.dtype}; expected rows of numbers")
    return raw
