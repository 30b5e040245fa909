"""Scales that the distance learners depend on."""

from __future__ import annotations

import numpy as np

from likewise.baselines.common import squared_distances

__all__ = ["neighbour_scale"]

SAMPLE = 2000
"""Rows whose nearest neighbours are looked up: a mean over them is within a few per cent of that over all."""


def neighbour_scale(X: np.ndarray) -> float:
    """The factor that brings the mean squared distance to the nearest other row to 1."""
    some = np.unique(np.linspace(0, len(X) - 1, min(SAMPLE, len(X))).astype(int))
    D = squared_distances(X[some], X)
    D[np.arange(len(some)), some] = np.inf
    mean = float(D.min(axis=1).mean())
    return mean**-0.5 if mean > 0 else 1.0
