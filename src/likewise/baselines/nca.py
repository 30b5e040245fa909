"""Neighbourhood components analysis: scikit-learn's, under the contract of the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.neighbors import NeighborhoodComponentsAnalysis

from likewise.baselines.common import AUTO, COUNT, POSITIVE, LinearBaseline, linear_sides, unit_rows
from likewise.baselines.scaling import neighbour_scale
from likewise.baselines.scatter import principal_directions
from likewise.selection.tuning import Setting, Sides, choose, stratified_subset
from likewise.utils.random import generator

__all__ = ["NCA"]


class NCA(LinearBaseline):
    """Minus the squared distance after the map that makes nearest neighbours agree in class (Goldberger et al. 2004).

    Its cost grows with n²d, so at most `max_rows` training rows, drawn by class, on their `n_inputs` leading principal
    components are given to it.

    Parameters
    ----------
    n_components : int or None
        Width of the map; None is the number of classes less one, which lets it start from discriminant directions.
    scale : float or "auto"
        Root mean square distance to the nearest other row at the start: it sets how far neighbourhoods reach. "auto"
        takes the best of `grid` on held-out training rows.
    normalize : bool
        Scale rows to length 1 first.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_components": [COUNT, None],
        "scale": [POSITIVE, AUTO],
        "n_inputs": [COUNT],
        "max_rows": [COUNT, None],
        "max_iter": [COUNT],
        "normalize": ["boolean"],
        "grid": ["array-like"],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_components: int | None = None,
        scale: float | str = "auto",
        n_inputs: int = 200,
        max_rows: int | None = 4000,
        max_iter: int = 50,
        normalize: bool = True,
        grid: tuple[float, ...] = (0.3, 0.1, 1.0),
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.scale = scale
        self.n_inputs = n_inputs
        self.max_rows = max_rows
        self.max_iter = max_iter
        self.normalize = normalize
        self.grid = grid
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Learn the map from rows X and labels y."""
        X, codes = self._training_data(X, y)
        rows = unit_rows(X) if self.normalize else X
        mean = rows.mean(axis=0)
        directions = principal_directions(rows - mean, self.n_inputs)
        Z = (rows - mean) @ directions.T
        Z *= neighbour_scale(Z)
        subset = stratified_subset(codes, self.max_rows, self.random_state)
        settings = [{"scale": s} for s in (self.grid if self.scale == "auto" else [self.scale])]
        best, self.cv_results_ = choose(settings, self._candidates, Z[subset], codes[subset], self.random_state)
        self.scale_ = float(best["scale"])
        L = self._learn(Z[subset], codes[subset], self.scale_)
        self.components_ = (L @ directions).astype(X.dtype)
        self.offset_ = self.components_ @ mean
        self.metric_ = "distance"
        return self

    def _candidates(self, X: np.ndarray, y: np.ndarray) -> Callable[[Setting], Sides]:
        def candidate(setting: Setting) -> Sides:
            L = self._learn(X, y, setting["scale"])
            return linear_sides(L, np.zeros(len(L)), "distance")

        return candidate

    def _learn(self, Z: np.ndarray, y: np.ndarray, scale: float) -> np.ndarray:
        r = len(self.classes_) - 1 if self.n_components is None else self.n_components
        seed = int(generator(self.random_state).integers(2**31))
        init = "auto" if Z.any() else "identity"  # rows that do not differ have no directions to start from
        model = NeighborhoodComponentsAnalysis(min(r, Z.shape[1]), init=init, max_iter=self.max_iter, random_state=seed)
        self.n_iter_ = int(model.fit(Z * Z.dtype.type(scale), y).n_iter_)
        return np.asarray(model.components_)
