"""Sums over the rows of each class: all that a fixed label target needs of the rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from likewise.core.targets import indicator
from likewise.utils.arrays import dense, is_foreign, like, to_host, wide

__all__ = ["class_sums"]

_SUMMED = 1024  # rows of a tensor summed by one product: rows times their classes are held


def class_sums(
    V: Any, codes: np.ndarray, weights: np.ndarray | None, n_classes: int, L: np.ndarray | None = None
) -> np.ndarray:
    """Weighted sum of the rows of V, or of V L, in each class, (n_classes, r), in float64 on the host."""
    count = np.ones(len(codes)) if weights is None else weights
    if is_foreign(V):
        return _tensor_sums(V, codes, count, n_classes)
    sums = indicator(codes, count, n_classes).T @ (V.astype(np.float64, copy=False) if sp.issparse(V) else V)
    return np.asarray(dense(sums if L is None else sums @ L))


def _tensor_sums(V: Any, codes: np.ndarray, count: np.ndarray, n_classes: int) -> np.ndarray:
    """The same on the device of V, by products with the indicators of the classes that are present."""
    total = np.zeros((n_classes, V.shape[1]))
    for first in range(0, len(codes), _SUMMED):
        rows = slice(first, min(first + _SUMMED, len(codes)))
        present, places = np.unique(codes[rows], return_inverse=True)
        onehot = np.zeros((len(present), len(places)))
        onehot[places, np.arange(len(places))] = count[rows]
        part = wide(V[rows, :])
        total[present] += to_host(like(onehot, part) @ part)
    return total
