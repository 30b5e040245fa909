"""Ridge regression onto one-hot labels, compared by cosine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from likewise.baselines.common import AUTO, HOLDOUT, NOT_NEGATIVE
from likewise.baselines.scatter import Spectrum, scatter, spectrum
from likewise.baselines.searched import SearchedLinear, Solver

__all__ = ["RidgeOneHot"]

GRID = (0.1, 0.001, 0.01, 0.03, 0.3, 1.0, 3.0, 10.0)


class RidgeOneHot(SearchedLinear):
    """Regress one-hot labels on (unit) rows with a ridge; the predictions, compared by cosine, are the embedding.

    Parameters
    ----------
    alpha : float or "auto", default="auto"
        Ridge in units of the mean eigenvalue of the covariance. "auto" takes the best of `grid` on held-out training
        rows.
    normalize : bool, default=True
        Scale rows to unit length first.
    grid : sequence of float
        Ridges to try.
    random_state : int, RandomState or None, default=None
        Seed of the holdout.
    holdout : {"rows", "classes"}, default="rows"
        What is held out for the search; "classes" for galleries of classes that are not in training.

    Attributes
    ----------
    alpha_ : float
        Ridge used.
    cv_results_ : dict
        Settings tried and their scores, in scikit-learn's schema.
    """

    _grids: ClassVar[dict[str, str]] = {"alpha": "grid"}
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "alpha": [NOT_NEGATIVE, AUTO],
        "normalize": ["boolean"],
        "grid": ["array-like"],
        "random_state": ["random_state"],
        "holdout": [HOLDOUT],
    }

    def __init__(
        self,
        alpha: float | str = "auto",
        normalize: bool = True,
        grid: tuple[float, ...] = GRID,
        random_state: Any = None,
        holdout: str = "rows",
    ) -> None:
        self.alpha = alpha
        self.normalize = normalize
        self.grid = grid
        self.random_state = random_state
        self.holdout = holdout

    def _solver(self, X: np.ndarray, y: np.ndarray) -> Solver:
        return _RidgeProblem.of(X, y).solve


@dataclass(frozen=True)
class _RidgeProblem:
    """What the regression needs of the data, for any ridge."""

    mean: np.ndarray
    priors: np.ndarray
    covariance: Spectrum
    moments: np.ndarray  # (k, q): XᵀY / n of the centred rows, in the eigenbasis

    @classmethod
    def of(cls, X: np.ndarray, y: np.ndarray) -> _RidgeProblem:
        classes = scatter(X, y)
        covariance = spectrum(X - classes.mean.astype(X.dtype))
        priors = classes.sizes / len(y)
        moments = priors[:, None] * ((classes.centres - classes.mean) @ covariance.vectors)
        return cls(classes.mean, priors, covariance, moments)

    def solve(self, alpha: float) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients (k, d) of the ridge regression and its negative intercepts (k,)."""
        values = self.covariance.values
        least = np.finfo(np.float64).eps * len(values)
        damped = values + max(alpha, least) * values.mean() + np.finfo(np.float64).tiny
        coefficients = (self.moments / damped) @ self.covariance.vectors.T
        return coefficients, coefficients @ self.mean - self.priors
