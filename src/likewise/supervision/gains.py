"""nDCG of scores against a sparse matrix of gains, of which some may be unknown."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["ndcg"]


def ndcg(Q: np.ndarray, G: np.ndarray, R: Any, k: int = 10, itself: bool = False, only_known: bool = False) -> float:
    """Mean nDCG@k of the scores Q Gᵀ; gains are the positive entries of the sparse R, all else gains nothing.

    `itself` leaves out the item that is the query, `only_known` the items that R does not store. Queries without a
    gain are left out.
    """
    discount = 1.0 / np.log2(np.arange(2, k + 2))
    values = []
    for first in range(0, len(Q), 256):
        S = Q[first : first + 256] @ G.T
        if itself:
            S[np.arange(len(S)), first + np.arange(len(S))] = -np.inf
        if only_known:
            S = np.where(_stored(R[first : first + 256]), S, -np.inf)
        gains = np.maximum(R[first : first + 256].toarray(), 0.0)
        top = _top(S, k)
        ideal = -np.sort(-gains, axis=1)[:, :k] @ discount[: gains.shape[1]]
        found = np.take_along_axis(gains, top, axis=1) @ discount[: gains.shape[1]]
        values.append(found[ideal > 0] / ideal[ideal > 0])
    return float(np.concatenate(values).mean())


def _stored(R: Any) -> np.ndarray:
    """True where a sparse matrix stores something, a zero too."""
    stored = R.copy()
    stored.data = np.ones(len(stored.data), dtype=bool)
    return np.asarray(stored.toarray())


def _top(S: np.ndarray, k: int) -> np.ndarray:
    """Columns of the k largest entries of each row, largest first."""
    if S.shape[1] > k:
        some = np.sort(np.argpartition(-S, k, axis=1)[:, :k], axis=1)
        return np.take_along_axis(some, np.argsort(-np.take_along_axis(S, some, axis=1), axis=1, kind="stable"), axis=1)
    return np.argsort(-S, axis=1, kind="stable")
