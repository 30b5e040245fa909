"""Whitening by the covariance of all rows (PCA-whitening) or of rows within their class (RCA, WCCN)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils._param_validation import StrOptions

from likewise.baselines.common import AUTO, SHARE, LinearBaseline, linear_sides, unit_rows
from likewise.baselines.scatter import Spectrum, scatter, spectrum, within
from likewise.baselines.tuning import Setting, Sides, choose

__all__ = ["RCA", "Whitening"]

GRID = (0.1, 0.001, 0.01, 0.03, 0.3, 0.5, 0.7, 0.9, 1.0)


class _Whitener(LinearBaseline):
    """Map rows through a shrunk inverse square root of a covariance."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "shrinkage": [SHARE, AUTO],
        "normalize": ["boolean"],
        "metric": [StrOptions({"cosine", "distance"})],
        "grid": ["array-like"],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        shrinkage: float | str = "auto",
        normalize: bool = True,
        metric: str = "cosine",
        grid: tuple[float, ...] = GRID,
        random_state: Any = None,
    ) -> None:
        self.shrinkage = shrinkage
        self.normalize = normalize
        self.metric = metric
        self.grid = grid
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Whiten by the training rows; `shrinkage="auto"` takes the best of `grid` on held-out training rows."""
        X, codes = self._training_data(X, y)
        rows = unit_rows(X) if self.normalize else X
        settings = [{"shrinkage": a} for a in (self.grid if self.shrinkage == "auto" else [self.shrinkage])]
        best, self.cv_results_ = choose(settings, self._candidates, rows, codes, self.random_state)
        self.shrinkage_ = float(best["shrinkage"])
        mean, covariance = self._covariance(rows, codes)
        self.components_ = covariance.whitener(self.shrinkage_).astype(X.dtype)
        self.offset_ = (self.components_ @ mean).astype(X.dtype)
        self.metric_ = self.metric
        return self

    def _candidates(self, X: np.ndarray, y: np.ndarray) -> Callable[[Setting], Sides]:
        mean, covariance = self._covariance(X, y)

        def candidate(setting: Setting) -> Sides:
            T = covariance.whitener(setting["shrinkage"])
            return linear_sides(T, T @ mean, self.metric)

        return candidate

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
