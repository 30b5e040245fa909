"""Sums over the rows of each class: all that a fixed label target needs of the rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

__all__ = ["class_sums"]


def class_sums(V: Any, codes: np.ndarray, weights: np.ndarray | None, n_classes: int) -> np.ndarray:
    """Weighted sum of the rows of V in each class, (n_classes, r), in float64."""
    count = np.ones(len(codes)) if weights is None else weights
    onehot = sp.csr_array((count, codes, range(len(codes) + 1)), shape=(len(codes), n_classes))
    sums = onehot.T @ V.astype(np.float64)
    return sums.toarray() if sp.issparse(sums) else np.asarray(sums)
