"""Ways of comparing the items: raw cosine, the learned similarity, and the one before the last lesson."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from likewise.base import SimilarityModel

__all__ = ["Space", "best", "learned_space", "raw_space"]

Nearest = Callable[[np.ndarray, int], tuple[np.ndarray, np.ndarray]]

_ROWS = 1 << 16  # gallery rows scored at a time, so that a gallery on disk is read piece by piece


@dataclass(frozen=True)
class Space:
    """Query side Q and gallery side G of every item; `scale` is what each gallery row is multiplied by."""

    name: str
    version: int
    Q: np.ndarray
    G: np.ndarray
    scale: np.ndarray | None = None
    model: SimilarityModel | None = None
    approximate: Nearest | None = None

    def queries(self, rows: Any) -> np.ndarray:
        """Query-side vectors of items, by row number."""
        Q = np.asarray(self.Q[rows], dtype=np.float32)
        return Q if self.scale is None else Q * self.scale[rows][:, None]

    def embed(self, X: np.ndarray) -> np.ndarray:
        """Query-side vectors of raw feature rows."""
        if self.model is not None:
            return np.asarray(self.model.transform_query(X), dtype=np.float32)
        return np.asarray(X, dtype=np.float32) * _inverse_norms(X)[:, None]

    def scores(self, Q: np.ndarray) -> np.ndarray:
        """Similarity of each query with each item, shape (n_q, n)."""
        if len(self.G) <= _ROWS and self.G.dtype == np.float32:
            S = Q @ self.G.T
        else:
            S = np.empty((len(Q), len(self.G)), dtype=np.float32)
            for start in range(0, len(self.G), _ROWS):
                part = np.asarray(self.G[start : start + _ROWS], dtype=np.float32)
                np.matmul(Q, part.T, out=S[:, start : start + _ROWS])
        return S if self.scale is None else S * self.scale


def raw_space(raw: np.ndarray) -> Space:
    """Cosine of the features as they came; the rows stay where they are, on disk if that is where they are."""
    return Space("raw", 0, raw, raw, _inverse_norms(raw))


def learned_space(index: Any, version: int = 0) -> Space:
    """The similarity of an index; an approximate one is searched by its own engine where nothing is filtered."""
    model, G = index.model, np.ascontiguousarray(index.vectors, dtype=np.float32)
    # A taught cosine has its own query side, equal to its gallery side.
    one_sided = type(model)._query_side is SimilarityModel._query_side or getattr(model, "cosine_", False)
    Q = G if one_sided else in_pieces(model.transform_query, index.raw)
    return Space("learned", version, Q, G, None, model, index.search_vectors if index.approximate else None)


def in_pieces(side: Any, raw: np.ndarray) -> np.ndarray:
    """A side of a model for all rows, some at a time."""
    steps = range(0, len(raw), 8192)
    parts = [np.asarray(side(np.asarray(raw[i : i + 8192], dtype=np.float32)), dtype=np.float32) for i in steps]
    return np.ascontiguousarray(np.concatenate(parts))


def best(scores: np.ndarray, k: int) -> np.ndarray:
    """Places of the k highest scores of each row, best first, equal ones by number; -inf is never chosen."""
    n = scores.shape[1]
    k = min(k, n)
    top = np.argpartition(scores, n - k, axis=1)[:, n - k :] if k < n else np.tile(np.arange(n), (len(scores), 1))
    values = np.take_along_axis(scores, top, axis=1)
    order = np.lexsort((top, -values), axis=1)
    return np.take_along_axis(top, order, axis=1)


def _inverse_norms(X: np.ndarray) -> np.ndarray:
    norms = np.empty(len(X), dtype=np.float32)
    for i in range(0, len(X), 8192):
        norms[i : i + 8192] = np.linalg.norm(np.asarray(X[i : i + 8192], dtype=np.float32), axis=1)
    return 1 / np.maximum(norms, np.finfo(np.float32).tiny)
