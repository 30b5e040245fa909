"""The posterior of a logistic regression as an embedding: for galleries whose classes were all seen in training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression

from likewise.base import project
from likewise.baselines.common import AUTO, COUNT, POSITIVE, Baseline, unit_rows
from likewise.selection.tuning import Setting, Sides, choose

__all__ = ["LogisticPosterior"]


class LogisticPosterior(Baseline):
    """√softmax(scores / τ), a unit vector as wide as there are classes; the inner product is the similarity.

    The inner product of two such vectors is the Bhattacharyya coefficient of the two tempered posteriors. Classes
    that were not seen in training cannot be told apart by it.

    Parameters
    ----------
    C : float or "auto"
        Inverse strength of the penalty, on rows scaled to a mean square of 1 a column. "auto" searches `grid` together
        with the temperature on held-out training rows.
    temperature : float or "auto"
        τ above.
    normalize : bool
        Scale rows to length 1 first.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "C": [POSITIVE, AUTO],
        "temperature": [POSITIVE, AUTO],
        "normalize": ["boolean"],
        "grid": ["array-like"],
        "temperatures": ["array-like"],
        "max_iter": [COUNT],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        C: float | str = "auto",
        temperature: float | str = "auto",
        normalize: bool = True,
        grid: tuple[float, ...] = (0.1, 0.001, 0.01, 1.0),
        temperatures: tuple[float, ...] = (1.0, 0.1, 0.25, 0.5, 2.0, 4.0),
        max_iter: int = 200,
        random_state: Any = None,
    ) -> None:
        self.C = C
        self.temperature = temperature
        self.normalize = normalize
        self.grid = grid
        self.temperatures = temperatures
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Learn the regression from rows X and labels y."""
        X, codes = self._training_data(X, y)
        rows = unit_rows(X) if self.normalize else X
        self.mean_ = rows.mean(axis=0)
        scale = float(np.sqrt(np.mean((rows - self.mean_) ** 2))) or 1.0
        rows = (rows - self.mean_) / rows.dtype.type(scale)
        best, self.cv_results_ = choose(self._settings(), self._candidates, rows, codes, self.random_state)
        self.C_, self.temperature_ = float(best["C"]), float(best["temperature"])
        weights, bias = self._regress(rows, codes, self.C_)
        self.components_, self.intercept_ = weights / rows.dtype.type(scale), bias
        return self

    def _settings(self) -> list[Setting]:
        grid = self.grid if self.C == "auto" else (self.C,)
        temperatures = self.temperatures if self.temperature == "auto" else (self.temperature,)
        return [{"C": C, "temperature": t} for C in grid for t in temperatures]

    def _candidates(self, X: np.ndarray, y: np.ndarray) -> Callable[[Setting], Sides]:
        fits: dict[float, tuple[np.ndarray, np.ndarray]] = {}

        def candidate(setting: Setting) -> Sides:
            C, t = setting["C"], setting["temperature"]
            if C not in fits:
                fits[C] = self._regress(X, y, C)
            weights, bias = fits[C]
            return lambda rows: 2 * (posterior(rows @ weights.T + bias, t),)

        return candidate

    def _regress(self, X: np.ndarray, y: np.ndarray, C: float) -> tuple[np.ndarray, np.ndarray]:
        """Weights (k, d) and intercepts (k,); two classes are written as two rows like any other number."""
        # The penalty is per row so that C means the same for the held-in part and for all rows.
        model = LogisticRegression(C=C * 1000 / len(y), max_iter=self.max_iter, tol=1e-3).fit(X, y)
        self.n_iter_ = int(model.n_iter_.max())
        weights, bias = model.coef_, model.intercept_
        if len(weights) == 1:
            weights, bias = np.vstack([-weights, weights]) / 2, np.hstack([-bias, bias]) / 2
        return np.ascontiguousarray(weights, X.dtype), bias.astype(X.dtype)

    def _gallery_side(self, X: Any) -> np.ndarray:
        rows = unit_rows(X) if self.normalize else X
        offset = self.intercept_ - self.components_ @ self.mean_
        return posterior(project(rows, self.components_) + offset.astype(rows.dtype), self.temperature_)


def posterior(scores: np.ndarray, temperature: float) -> np.ndarray:
    """√softmax(scores / temperature) of each row, in the precision of the scores."""
    return np.sqrt(softmax(scores / scores.dtype.type(temperature), axis=1))
