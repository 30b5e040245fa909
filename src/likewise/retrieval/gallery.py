"""What an index is built from: a feature store, a path to one or to a table, or rows."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from likewise.base import SimilarityModel
from likewise.errors import LikewiseError
from likewise.retrieval.items import Items, as_items
from likewise.tables import Table, read_table

__all__ = ["EXTRACTOR", "Gallery", "as_gallery", "gallery_side", "in_float", "lengths"]

_BLOCK = 4096  # rows transformed at a time: a kernel needs room for rows × landmarks
EXTRACTOR = "extractor.safetensors"  # beside the rows that it made


@dataclass(frozen=True)
class Gallery:
    """Raw rows and all that is known of them."""

    raw: np.ndarray
    items: Items
    root: Path | None = None
    extractor: dict[str, Any] | None = None
    extractor_file: Path | None = None


def as_gallery(source: Any) -> Gallery:
    """Rows from whatever holds them."""
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
    raw = _checked(source)
    return Gallery(raw, as_items(None, len(raw)))


def _from_store(store: Any) -> Gallery:
    items = as_items({"label": store.labels, "path": store.paths} if store.labels is not None else
                     {"path": store.paths}, len(store))  # fmt: skip
    file = store.path / EXTRACTOR
    return Gallery(store.features, items, store.root, store.meta.get("extractor"), file if file.is_file() else None)


def _checked(rows: Any) -> np.ndarray:
    if sp.issparse(rows):
        raise LikewiseError("gallery is sparse; an index holds dense rows: reduce it first, as TruncatedSVD does")
    raw = np.asarray(rows)
    if raw.ndim != 2 or raw.dtype.kind not in "biuf" or 0 in raw.shape:
        raise LikewiseError(f"gallery has shape {raw.shape} and type {raw.dtype}; expected rows of numbers")
    return raw


def gallery_side(model: SimilarityModel, raw: np.ndarray) -> np.ndarray:
    """Gallery side of the rows in float32, block by block."""
    parts = [model.transform(in_float(raw[i : i + _BLOCK])) for i in range(0, len(raw), _BLOCK)]
    return np.ascontiguousarray(np.concatenate(parts), dtype=np.float32)


def lengths(raw: np.ndarray) -> np.ndarray:
    """Lengths of the rows in float32, block by block."""
    parts = [in_float(raw[i : i + _BLOCK]) for i in range(0, len(raw), _BLOCK)]
    return np.concatenate([np.linalg.norm(part, axis=1) for part in parts]).astype(np.float32)


def in_float(X: np.ndarray) -> np.ndarray:
    """float32 or float64: models take no other."""
    return np.asarray(X) if X.dtype in (np.float32, np.float64) else np.asarray(X, np.float32)
