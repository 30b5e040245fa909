"""Similarity spaces of the items: raw cosine, the learned similarity, and the one before the last lesson."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from likewise.base import SimilarityModel
from likewise.retrieval import Index

__all__ = ["Space", "learned_space", "raw_space"]

Nearest = Callable[[np.ndarray, int], tuple[np.ndarray, np.ndarray]]

_ROWS = 1 << 16  # gallery rows scored at a time, so that a gallery on disk is read piece by piece
_TINY = np.finfo(np.float32).tiny


@dataclass(frozen=True)
class Space:
    """Query side Q and gallery side G of all items; `scale` multiplies each gallery row."""

    version: int
    Q: np.ndarray
    G: np.ndarray
    scale: np.ndarray | None = None
    model: SimilarityModel | None = None
    approximate: Nearest | None = None

    def queries(self, rows: list[int]) -> np.ndarray:
        """Query vectors of items, by row number."""
        Q = np.asarray(self.Q[rows], dtype=np.float32)
        return Q if self.scale is None else Q * self.scale[rows][:, None]

    def embed(self, X: np.ndarray) -> np.ndarray:
        """Query vectors of raw feature rows."""
        if self.model is not None:
            return np.asarray(self.model.transform_query(X), dtype=np.float32)
        return np.asarray(X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), _TINY), dtype=np.float32)

    def scores(self, Q: np.ndarray) -> np.ndarray:
        """Similarity of each query to each item, shape (n_q, n)."""
        if len(self.G) <= _ROWS and self.G.dtype == np.float32:
            S = Q @ self.G.T
        else:
            S = np.empty((len(Q), len(self.G)), dtype=np.float32)
            for start in range(0, len(self.G), _ROWS):
                part = np.asarray(self.G[start : start + _ROWS], dtype=np.float32)
                np.matmul(Q, part.T, out=S[:, start : start + _ROWS])
        return S if self.scale is None else S * self.scale


def raw_space(index: Index) -> Space:
    """Cosine of the raw features; the rows are not copied, and stay on disk if that is where they are."""
    return Space(0, index.raw, index.raw, 1 / np.maximum(index.norms, _TINY))


def learned_space(index: Index, version: int = 0) -> Space:
    """The similarity of an index; an approximate index answers unfiltered searches with its own engine."""
    G = np.ascontiguousarray(index.vectors, dtype=np.float32)
    Q = G if index.model.symmetric else _in_blocks(index.model.transform_query, index.raw)
    return Space(version, Q, G, None, index.model, index.search_vectors if index.approximate else None)


def _in_blocks(side: Callable[[Any], Any], raw: np.ndarray, size: int = 8192) -> np.ndarray:
    blocks = (np.asarray(raw[i : i + size], dtype=np.float32) for i in range(0, len(raw), size))
    return np.concatenate([np.asarray(side(block), dtype=np.float32) for block in blocks])
