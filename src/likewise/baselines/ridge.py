"""Ridge regression onto one-hot labels, compared by cosine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils._param_validation import Interval

from likewise.baselines.common import AUTO, LinearBaseline, linear_sides, unit_rows
from likewise.baselines.scatter import Spectrum, scatter, spectrum
from likewise.baselines.tuning import Setting, Sides, choose

__all__ = ["RidgeOneHot"]

GRID = (0.1, 0.001, 0.01, 0.03, 0.3, 1.0, 3.0, 10.0)


class RidgeOneHot(LinearBaseline):
    """Regress one-hot labels on (unit) rows with a ridge; the predictions, compared by cosine, are the embedding.

    Parameters
    ----------
    alpha : float or "auto"
        Ridge in units of the mean eigenvalue of the covariance. "auto" takes the best of `grid` on held-out training
        rows.
    normalize : bool
        Scale rows to length 1 first.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "alpha": [Interval(Real, 0, None, closed="left"), AUTO],
        "normalize": ["boolean"],
        "grid": ["array-like"],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        alpha: float | str = "auto",
        normalize: bool = True,
        grid: tuple[float, ...] = GRID,
        random_state: Any = None,
    ) -> None:
        self.alpha = alpha
        self.normalize = normalize
        self.grid = grid
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Learn the regression from rows X and labels y."""
        X, codes = self._training_data(X, y)
        rows = unit_rows(X) if self.normalize else X
        settings = [{"alpha": a} for a in (self.grid if self.alpha == "auto" else [self.alpha])]
        best, self.cv_results_ = choose(settings, self._candidates, rows, codes, self.random_state)
        self.alpha_ = float(best["alpha"])
        coefficients, offset = _Problem.of(rows, codes).solve(self.alpha_)
        self.components_, self.offset_ = coefficients.astype(X.dtype), offset.astype(X.dtype)
        self.metric_ = "cosine"
        return self

    def _candidates(self, X: np.ndarray, y: np.ndarray) -> Callable[[Setting], Sides]:
        problem = _Problem.of(X, y)

        def candidate(setting: Setting) -> Sides:
            return linear_sides(*problem.solve(setting["alpha"]), "cosine")

        return candidate


@dataclass(frozen=True)
class _Problem:
    """All that the regression needs of the data, whatever the ridge."""

    mean: np.ndarray
    priors: np.ndarray
    covariance: Spectrum
    moments: np.ndarray  # (k, q): XᵀY / n of the centred rows, in the eigenbasis

    @classmethod
    def of(cls, X: np.ndarray, y: np.ndarray) -> _Problem:
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
