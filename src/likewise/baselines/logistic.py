"""The posterior of a logistic regression as an embedding: for galleries whose classes were all seen in training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize

from likewise.base import project
from likewise.baselines.common import AUTO, COUNT, POSITIVE, Baseline
from likewise.selection.grid import Params, Sides
from likewise.utils.onnx_graph import Graph

__all__ = ["LogisticPosterior"]


class LogisticPosterior(Baseline):
    """√softmax(scores / τ), a unit vector with one entry per class; the inner product is the similarity.

    The inner product of two such vectors is the Bhattacharyya coefficient of the two tempered posteriors. It cannot
    separate classes that were not in training.

    Parameters
    ----------
    C : float or "auto", default="auto"
        Inverse strength of the penalty, on rows scaled to a mean square of 1 per column. "auto" searches `grid`
        together with the temperature on held-out training rows.
    temperature : float or "auto", default="auto"
        τ above; "auto" searches `temperatures`.
    normalize : bool, default=True
        Scale rows to unit length first.
    grid, temperatures : sequence of float
        Values of C and temperatures to try.
    max_iter : int, default=200
        L-BFGS iterations of the regression, at most.
    random_state : int, RandomState or None, default=None
        Seed of the holdout.

    Attributes
    ----------
    C_, temperature_ : float
        Values used.
    cv_results_ : dict
        Settings tried and their scores, in scikit-learn's schema.
    """

    _grids: ClassVar[dict[str, str]] = {"C": "grid", "temperature": "temperatures"}
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
        rows = normalize(X) if self.normalize else X
        self.mean_ = rows.mean(axis=0)
        scale = float(np.sqrt(np.mean((rows - self.mean_) ** 2))) or 1.0
        rows = (rows - self.mean_) / rows.dtype.type(scale)
        best = self._best(self._candidates, rows, codes)
        self.C_, self.temperature_ = float(best["C"]), float(best["temperature"])
        weights, bias = self._regress(rows, codes, self.C_)
        self.components_, self.intercept_ = weights / rows.dtype.type(scale), bias
        return self

    def _candidates(self, X: np.ndarray, y: np.ndarray) -> Callable[[Params], Sides]:
        fits: dict[float, tuple[np.ndarray, np.ndarray]] = {}

        def candidate(params: Params) -> Sides:
            C, t = params["C"], params["temperature"]
            if C not in fits:
                fits[C] = self._regress(X, y, C)
            weights, bias = fits[C]
            return lambda rows: 2 * (posterior(rows @ weights.T + bias, t),)

        return candidate

    def _regress(self, X: np.ndarray, y: np.ndarray, C: float) -> tuple[np.ndarray, np.ndarray]:
        """Weights (k, d) and intercepts (k,), also for two classes."""
        # The penalty is per row, so that C means the same for a part of the rows and for all of them.
        model = LogisticRegression(C=C * 1000 / len(y), max_iter=self.max_iter, tol=1e-3).fit(X, y)
        self.n_iter_ = int(model.n_iter_.max())
        weights, bias = model.coef_, model.intercept_
        if len(weights) == 1:
            weights, bias = np.vstack([-weights, weights]) / 2, np.hstack([-bias, bias]) / 2
        return np.ascontiguousarray(weights, X.dtype), bias.astype(X.dtype)

    def _gallery_side(self, X: Any) -> np.ndarray:
        rows = normalize(X) if self.normalize else X
        return posterior(project(rows, self.components_) + self._bias().astype(rows.dtype), self.temperature_)

    def _bias(self) -> np.ndarray:
        """Intercepts for rows that are not centred."""
        return self.intercept_ - self.components_ @ self.mean_

    def _write_onnx(self, graph: Graph, rows: str) -> tuple[str, str]:
        rows = graph.unit(rows) if self.normalize else rows
        scores = graph.plus(graph.mapped(rows, self.components_.T), self._bias())
        return 2 * (graph.posterior(scores, self.temperature_),)


def posterior(scores: np.ndarray, temperature: float) -> np.ndarray:
    """√softmax(scores / temperature) of each row, in the precision of the scores."""
    return np.sqrt(softmax(scores / scores.dtype.type(temperature), axis=1))
