"""nDCG of scores against a sparse matrix of graded gains, some of which may be unknown."""

from __future__ import annotations

from typing import Any

import numpy as np

from likewise.utils.top_k import top_k

__all__ = ["graded_ndcg"]

_BLOCK = 256  # queries scored at a time


def graded_ndcg(
    Q: np.ndarray, G: np.ndarray, R: Any, k: int = 10, itself: bool = False, only_known: bool = False
) -> float:
    """Mean nDCG@k of the scores Q Gᵀ; the gains are the positive entries of the sparse R, anything else gains 0.

    `itself` excludes each query from its own ranking, `only_known` the items that R does not store. Queries without
    any gain are not counted.
    """
    values = []
    for first in range(0, len(Q), _BLOCK):
        S, gains = Q[first : first + _BLOCK] @ G.T, R[first : first + _BLOCK]
        if itself:
            S[np.arange(len(S)), first + np.arange(len(S))] = -np.inf
        if only_known:
            S = np.where(_stored(gains), S, -np.inf)
        values.append(_ndcg(S, np.maximum(gains.toarray(), 0.0), k))
    return float(np.concatenate(values).mean())


def _ndcg(S: np.ndarray, gains: np.ndarray, k: int) -> np.ndarray:
    """nDCG@k of each row that has a gain."""
    discount = 1.0 / np.log2(np.arange(2, min(k, gains.shape[1]) + 2))
    ideal = -np.sort(-gains, axis=1)[:, :k] @ discount
    found = np.take_along_axis(gains, top_k(S, k), axis=1) @ discount
    return np.asarray(found[ideal > 0] / ideal[ideal > 0])


def _stored(R: Any) -> np.ndarray:
    """True where a sparse matrix stores an entry, explicit zeros included."""
    stored = R.copy()
    stored.data = np.ones(len(stored.data), dtype=bool)
    return np.asarray(stored.toarray())
