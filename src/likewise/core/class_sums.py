"""Sums over the rows of each class: all that a fixed label target needs of the rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from likewise.core.targets import indicator
from likewise.utils.arrays import dense

__all__ = ["class_sums"]


def class_sums(V: Any, codes: np.ndarray, weights: np.ndarray | None, n_classes: int) -> np.ndarray:
    """Weighted sum of the rows of V in each class, (n_classes, r), in float64."""
    return np.asarray(dense(indicator(codes, weights, n_classes).T @ V.astype(np.float64)))
