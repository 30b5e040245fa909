"""The posterior of linear discriminant analysis as an embedding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.preprocessing import normalize

from likewise.base import project
from likewise.baselines.common import AUTO, POSITIVE, SHARE, Baseline
from likewise.baselines.lda import discriminants
from likewise.baselines.logistic import posterior
from likewise.baselines.scatter import Scatter, scatter, within
from likewise.selection.grid import Params, Sides
from likewise.utils.onnx_graph import Graph

__all__ = ["LDAPosterior"]


class LDAPosterior(Baseline):
    """√softmax(score / τ), score_k = z·μ_k − ½|μ_k|² + log(n_k / n): one Gaussian per class with a shared covariance.

    z are the discriminant directions of unit rows, in which the classes' covariance is the identity. The embedding is
    a unit vector with one entry per class; it cannot separate classes that were not in training.

    Parameters
    ----------
    shrinkage, temperature : float or "auto", default="auto"
        a in (1 − a)S_w + a·mean(S_w)·I, and τ. "auto" searches `grid` and `temperatures` on held-out training rows.
    normalize : bool, default=True
        Scale rows to unit length first.
    grid, temperatures : sequence of float
        Shrinkages and temperatures to try.
    random_state : int, RandomState or None, default=None
        Seed of the holdout.

    Attributes
    ----------
    shrinkage_, temperature_ : float
        Values used.
    cv_results_ : dict
        Settings tried and their scores, in scikit-learn's schema.
    """

    _grids: ClassVar[dict[str, str]] = {"shrinkage": "grid", "temperature": "temperatures"}
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "shrinkage": [SHARE, AUTO],
        "temperature": [POSITIVE, AUTO],
        "normalize": ["boolean"],
        "grid": ["array-like"],
        "temperatures": ["array-like"],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        shrinkage: float | str = "auto",
        temperature: float | str = "auto",
        normalize: bool = True,
        grid: tuple[float, ...] = (0.1, 0.001, 0.01, 0.03, 0.3, 0.5, 0.7),
        temperatures: tuple[float, ...] = (1.0, 0.5, 2.0, 4.0, 8.0),
        random_state: Any = None,
    ) -> None:
        self.shrinkage = shrinkage
        self.temperature = temperature
        self.normalize = normalize
        self.grid = grid
        self.temperatures = temperatures
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Learn the classes' means and their covariance from rows X and labels y."""
        X, codes = self._training_data(X, y)
        rows = normalize(X) if self.normalize else X
        best = self._best(self._candidates, rows, codes)
        self.shrinkage_, self.temperature_ = float(best["shrinkage"]), float(best["temperature"])
        classes = scatter(rows, codes)
        weights, bias = _scores(classes, discriminants(classes, within(rows, codes, classes), self.shrinkage_))
        self.components_, self.intercept_ = weights.astype(X.dtype), bias.astype(X.dtype)
        return self

    def _candidates(self, X: np.ndarray, y: np.ndarray) -> Callable[[Params], Sides]:
        classes = scatter(X, y)
        covariance = within(X, y, classes)

        def candidate(params: Params) -> Sides:
            weights, bias = _scores(classes, discriminants(classes, covariance, params["shrinkage"]))
            weights, bias = weights.astype(X.dtype), bias.astype(X.dtype)
            return lambda rows: 2 * (posterior(project(rows, weights) + bias, params["temperature"]),)

        return candidate

    def _gallery_side(self, X: Any) -> np.ndarray:
        rows = normalize(X) if self.normalize else X
        return posterior(project(rows, self.components_) + self.intercept_.astype(rows.dtype), self.temperature_)

    def _write_onnx(self, graph: Graph, rows: str) -> tuple[str, str]:
        rows = graph.unit(rows) if self.normalize else rows
        scores = graph.plus(graph.mapped(rows, self.components_.T), self.intercept_)
        return 2 * (graph.posterior(scores, self.temperature_),)


def _scores(classes: Scatter, directions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights (k, d) and intercepts (k,) of the classes' scores as linear functions of the rows."""
    means = (classes.centres - classes.mean) @ directions.T
    weights = means @ directions
    bias = np.log(classes.sizes / classes.sizes.sum()) - np.einsum("ij,ij->i", means, means) / 2
    return weights, bias - weights @ classes.mean
