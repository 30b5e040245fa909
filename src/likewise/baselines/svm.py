"""An RBF support vector machine as an embedding: a tempered softmax of its decision values."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.preprocessing import normalize
from sklearn.svm import SVC

from likewise.baselines.common import AUTO, POSITIVE, Baseline
from likewise.baselines.kernel import drawn_kernel
from likewise.baselines.logistic import posterior
from likewise.core.kernels import Features
from likewise.selection.grid import Params, Sides
from likewise.utils.onnx_graph import Graph

__all__ = ["SVMPosterior"]


class SVMPosterior(Baseline):
    """√softmax(f / τ) of the decision values f of one RBF support vector machine per class, on unit rows.

    The embedding is a unit vector with one entry per class; the inner product is the similarity. It cannot separate
    classes that were not in training. Cost and memory grow with n².

    Parameters
    ----------
    C, width, temperature : float or "auto", default="auto"
        Penalty; γ in units of 1 / mean squared distance; τ. "auto" searches `grid`, `widths` and `temperatures` on
        held-out training rows.
    grid, widths, temperatures : sequence of float
        Values of C, widths and temperatures to try.
    random_state : int, RandomState or None, default=None
        Seed of the holdout.

    Attributes
    ----------
    C_, width_, temperature_ : float
        Values used.
    cv_results_ : dict
        Settings tried and their scores, in scikit-learn's schema.
    """

    _grids: ClassVar[dict[str, str]] = {"width": "widths", "C": "grid", "temperature": "temperatures"}
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "C": [POSITIVE, AUTO],
        "width": [POSITIVE, AUTO],
        "temperature": [POSITIVE, AUTO],
        "grid": ["array-like"],
        "widths": ["array-like"],
        "temperatures": ["array-like"],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        C: float | str = "auto",
        width: float | str = "auto",
        temperature: float | str = "auto",
        grid: tuple[float, ...] = (10.0, 1.0, 100.0),
        widths: tuple[float, ...] = (1.0, 0.5, 2.0, 4.0),
        temperatures: tuple[float, ...] = (0.2, 0.02, 0.05, 0.1, 0.5),
        random_state: Any = None,
    ) -> None:
        self.C = C
        self.width = width
        self.temperature = temperature
        self.grid = grid
        self.widths = widths
        self.temperatures = temperatures
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Choose the settings and learn from all rows."""
        X, codes = self._training_data(X, y)
        rows = normalize(X)
        best = self._best(self._candidates, rows, codes)
        self.C_, self.width_, self.temperature_ = (float(best[name]) for name in ("C", "width", "temperature"))
        features = drawn_kernel(rows, self.width_, None, self.random_state)
        weights, bias = _machines(rows, codes, features, self.C_)
        support = np.any(weights, axis=0)
        self.landmarks_, self.gamma_ = rows[support], features.gamma
        self.components_, self.intercept_ = np.ascontiguousarray(weights[:, support]), bias
        return self

    def _candidates(self, X: np.ndarray, y: np.ndarray) -> Callable[[Params], Sides]:
        @lru_cache(maxsize=1)  # temperatures vary fastest and share the machines
        def machines(width: float, C: float) -> tuple[Features, np.ndarray, np.ndarray]:
            features = drawn_kernel(X, width, None, self.random_state)
            return features, *_machines(X, y, features, C)

        def candidate(params: Params) -> Sides:
            features, weights, bias = machines(params["width"], params["C"])
            return lambda rows: 2 * (posterior(features(rows) @ weights.T + bias, params["temperature"]),)

        return candidate

    def _gallery_side(self, X: Any) -> np.ndarray:
        rows = normalize(X)
        scores = Features(self.landmarks_, self.gamma_)(rows) @ self.components_.T.astype(rows.dtype, copy=False)
        return posterior(scores + self.intercept_.astype(rows.dtype, copy=False), self.temperature_)

    def _write_onnx(self, graph: Graph, rows: str) -> tuple[str, str]:
        features = graph.kernel(graph.unit(rows), self.landmarks_, self.gamma_)
        scores = graph.plus(graph.mapped(features, self.components_.T), self.intercept_)
        return 2 * (graph.posterior(scores, self.temperature_),)


def _machines(rows: np.ndarray, codes: np.ndarray, features: Features, C: float) -> tuple[np.ndarray, np.ndarray]:
    """Each class against the rest: weights (k, n) of the landmarks, which are all rows, and intercepts (k,)."""
    K = features(rows).astype(np.float64, copy=False)
    weights, bias = np.zeros((codes.max() + 1, len(codes))), np.zeros(codes.max() + 1)
    for code in range(len(bias)):
        machine = SVC(C=C, kernel="precomputed").fit(K, codes == code)
        weights[code, machine.support_], bias[code] = machine.dual_coef_[0], machine.intercept_[0]
    return weights.astype(rows.dtype), bias.astype(rows.dtype)
