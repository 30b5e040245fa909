"""Whitening by the covariance of all rows (PCA-whitening) or of rows within their class (RCA, WCCN)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from likewise.baselines.common import AUTO, HOLDOUT, SHARE
from likewise.baselines.scatter import Spectrum, scatter, spectrum, within
from likewise.baselines.searched import SearchedLinear, Solver
from likewise.utils.validation import StrOptions

__all__ = ["RCA", "Whitening"]

GRID = (0.1, 0.001, 0.01, 0.03, 0.3, 0.5, 0.7, 0.9, 1.0)


class _Whitener(SearchedLinear):
    """Map rows through a shrunk inverse square root of a covariance."""

    _grids: ClassVar[dict[str, str]] = {"shrinkage": "grid"}
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
    """PCA-whitening of (unit) rows, compared by cosine.

    Parameters
    ----------
    shrinkage : float or "auto", default="auto"
        a in (1 − a)S + a·mean(S)·I, where S are the eigenvalues of the covariance. "auto" takes the best of `grid` on
        held-out training rows.
    normalize : bool, default=True
        Scale rows to unit length first.
    metric : {"cosine", "distance"}, default="cosine"
        How whitened rows are compared.
    grid : sequence of float
        Shrinkages to try.
    random_state : int, RandomState or None, default=None
        Seed of the holdout.
    holdout : {"rows", "classes"}, default="rows"
        What is held out for the search; "classes" for galleries of classes that are not in training.
    """

    def _covariance(self, X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, Spectrum]:
        mean = X.mean(axis=0, dtype=np.float64)
        return mean, spectrum(X - mean.astype(X.dtype))


class RCA(_Whitener):
    """Relevant component analysis: whitening by the covariance within classes.

    With the cosine, the default here, it is known as within-class covariance normalisation (WCCN); with
    `metric="distance"` it is the Mahalanobis distance of Bar-Hillel et al. 2003. Its parameters are those of
    `Whitening`.
    """

    def _covariance(self, X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, Spectrum]:
        classes = scatter(X, y)
        return classes.mean, within(X, y, classes)
