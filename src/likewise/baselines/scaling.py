"""The scale of the data, on which distance learners depend."""

from __future__ import annotations

import numpy as np

from likewise.baselines.common import squared_distances

__all__ = ["neighbour_scale"]

SAMPLE = 2000
"""Rows whose nearest neighbours are searched: their mean is within a few per cent of the mean over all rows."""


def neighbour_scale(X: np.ndarray) -> float:
    """The factor that makes the mean squared distance to the nearest other row 1."""
    some = np.unique(np.linspace(0, len(X) - 1, min(SAMPLE, len(X))).astype(int))
    D = squared_distances(X[some], X)
    D[np.arange(len(some)), some] = np.inf
    mean = float(D.min(axis=1).mean())
    return mean**-0.5 if mean > 0 else 1.0
