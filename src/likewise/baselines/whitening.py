"""Whitening by the covariance of all rows (PCA-whitening) or of rows within their class (RCA, WCCN)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import StrOptions

from likewise.baselines.common import AUTO, HOLDOUT, SHARE
from likewise.baselines.scatter import Spectrum, scatter, spectrum, within
from likewise.selection.searched import SearchedLinear, Solver

__all__ = ["RCA", "Whitening"]

GRID = (0.1, 0.001, 0.01, 0.03, 0.3, 0.5, 0.7, 0.9, 1.0)


class _Whitener(SearchedLinear):
    """Map rows through a shrunk inverse square root of a covariance."""

    _searched = "shrinkage"
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "shrinkage": [SHARE, AUTO],
        "normalize": ["boolean"],
        "metric": [StrOptions({"cosine", "distance"})],
        "grid": ["array-like"],
        "random_state": ["random_state"],
        "holdout": [HOLDOUT],
    }

    def __init__(
        self,
        shrinkage: float | str = "auto",
        normalize: bool = True,
        metric: str = "cosine",
        grid: tuple[float, ...] = GRID,
        random_state: Any = None,
        holdout: str = "rows",
    ) -> None:
        self.shrinkage = shrinkage
        self.normalize = normalize
        self.metric = metric
        self.grid = grid
        self.random_state = random_state
        self.holdout = holdout

    def _metric(self) -> str:
        return self.metric

    def _solver(self, X: np.ndarray, y: np.ndarray) -> Solver:
        mean, covariance = self._covariance(X, y)

        def solve(shrinkage: float) -> tuple[np.ndarray, np.ndarray]:
            T = covariance.whitener(shrinkage)
            return T, T @ mean

        return solve

    def _covariance(self, X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, Spectrum]:
        raise NotImplementedError


class Whitening(_Whitener):
    """PCA-whitening of (unit) rows, then the cosine; `shrinkage` a mixes in a·mean(eigenvalue)·I."""

    def _covariance(self, X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, Spectrum]:
        mean = X.mean(axis=0, dtype=np.float64)
        return mean, spectrum(X - mean.astype(X.dtype))


class RCA(_Whitener):
    """Relevant component analysis: whitening by the covariance within classes.

    With the cosine, its default here, it is known as within-class covariance normalisation (WCCN); with
    `metric="distance"` it is the Mahalanobis distance of Bar-Hillel et al. 2003.
    """

    def _covariance(self, X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, Spectrum]:
        classes = scatter(X, y)
        return classes.mean, within(X, y, classes)
