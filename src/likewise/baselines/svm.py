"""An RBF support vector machine as an embedding: its decision values, one a class, tempered."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import product
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.svm import SVC

from likewise.baselines.common import AUTO, POSITIVE, Baseline, unit_rows
from likewise.baselines.kernel import drawn_kernel
from likewise.baselines.logistic import posterior
from likewise.core.kernels import Features
from likewise.selection.tuning import Setting, Sides, choose

__all__ = ["SVMPosterior"]


class SVMPosterior(Baseline):
    """√softmax(f / τ) of the decision values f of one RBF support vector machine a class, on unit rows.

    A unit vector as wide as there are classes; the inner product is the similarity. Classes that were not seen in
    training cannot be told apart by it. Cost and memory grow with n².

    Parameters
    ----------
    C, width, temperature : float or "auto"
        Penalty; γ in units of 1 / mean squared distance; τ. "auto" searches `grid`, `widths` and `temperatures` on
        held-out training rows.
    """

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
        rows = unit_rows(X)
        best, self.cv_results_ = choose(self._settings(), self._candidates, rows, codes, self.random_state)
        self.C_, self.width_, self.temperature_ = (float(best[name]) for name in ("C", "width", "temperature"))
        features = drawn_kernel(rows, self.width_, None, self.random_state)
        weights, bias = _machines(rows, codes, features, self.C_)
        support = np.any(weights, axis=0)
        self.landmarks_, self.gamma_ = rows[support], features.gamma
        self.components_, self.intercept_ = np.ascontiguousarray(weights[:, support]), bias
        return self

    def _settings(self) -> list[Setting]:
        asked = {"width": self.widths, "C": self.grid, "temperature": self.temperatures}
        options = [grid if getattr(self, name) == "auto" else (getattr(self, name),) for name, grid in asked.items()]
        return [dict(zip(asked, values, strict=True)) for values in product(*options)]

    def _candidates(self, X: np.ndarray, y: np.ndarray) -> Callable[[Setting], Sides]:
        @lru_cache(maxsize=1)  # temperatures vary fastest and share the machines
        def machines(width: float, C: float) -> tuple[Features, np.ndarray, np.ndarray]:
            features = drawn_kernel(X, width, None, self.random_state)
            return features, *_machines(X, y, features, C)

        def candidate(setting: Setting) -> Sides:
            features, weights, bias = machines(setting["width"], setting["C"])
            return lambda rows: 2 * (posterior(features(rows) @ weights.T + bias, setting["temperature"]),)

        return candidate

    def _gallery_side(self, X: Any) -> np.ndarray:
        rows = unit_rows(X)
        scores = Features(self.landmarks_, self.gamma_)(rows) @ self.components_.T.astype(rows.dtype, copy=False)
        return posterior(scores + self.intercept_.astype(rows.dtype, copy=False), self.temperature_)


def _machines(rows: np.ndarray, codes: np.ndarray, features: Features, C: float) -> tuple[np.ndarray, np.ndarray]:
    """Each class against the rest: weights (k, n) of the landmarks, which are all rows, and intercepts (k,)."""
    K = features(rows).astype(np.float64, copy=False)
    weights, bias = np.zeros((codes.max() + 1, len(codes))), np.zeros(codes.max() + 1)
    for code in range(len(bias)):
        machine = SVC(C=C, kernel="precomputed").fit(K, codes == code)
        weights[code, machine.support_], bias[code] = machine.dual_coef_[0], machine.intercept_[0]
    return weights.astype(rows.dtype), bias.astype(rows.dtype)
