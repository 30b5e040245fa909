"""Neighbourhood components analysis: scikit-learn's, as a similarity model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.neighbors import NeighborhoodComponentsAnalysis

from likewise.baselines.common import AUTO, COUNT, POSITIVE, LinearBaseline, linear_sides
from likewise.baselines.scaling import neighbour_scale
from likewise.baselines.scatter import principal_directions
from likewise.core.sampling import generator, sample_by_class
from likewise.selection.grid import Params, Sides

__all__ = ["NCA"]


class NCA(LinearBaseline):
    """Minus the squared distance after the map that makes nearest neighbours agree in class (Goldberger et al. 2004).

    Its cost grows with n²d, so it learns from at most `max_rows` training rows, drawn by class, and from their
    `n_inputs` leading principal components.

    Parameters
    ----------
    n_components : int or None, default=None
        Width of the map; None is the number of classes minus one, which lets it start from discriminant directions.
    scale : float or "auto", default="auto"
        Root mean square distance to the nearest other row at the start: it sets how far neighbourhoods reach. "auto"
        takes the best of `grid` on held-out training rows.
    n_inputs : int, default=200
        Principal components given to it.
    max_rows : int or None, default=4000
        Training rows, at most; None is all of them.
    max_iter : int, default=50
        L-BFGS iterations, at most.
    normalize : bool, default=True
        Scale rows to unit length first.
    grid : sequence of float
        Scales to try.
    random_state : int, RandomState or None, default=None
        Seed of the sample and of the holdout.

    Attributes
    ----------
    scale_ : float
        Scale used.
    cv_results_ : dict
        Settings tried and their scores, in scikit-learn's schema.
    """

    _grids: ClassVar[dict[str, str]] = {"scale": "grid"}
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
        rows = self._rows(X)
        mean = rows.mean(axis=0)
        directions = principal_directions(rows - mean, self.n_inputs)
        Z = (rows - mean) @ directions.T
        Z *= neighbour_scale(Z)
        subset = sample_by_class(codes, self.max_rows, generator(self.random_state))
        self.scale_ = float(self._best(self._candidates, Z[subset], codes[subset])["scale"])
        L = self._learn(Z[subset], codes[subset], self.scale_)
        self.components_ = (L @ directions).astype(X.dtype)
        self.offset_ = self.components_ @ mean
        self.metric_ = "distance"
        return self

    def _candidates(self, X: np.ndarray, y: np.ndarray) -> Callable[[Params], Sides]:
        def candidate(params: Params) -> Sides:
            L = self._learn(X, y, params["scale"])
            return linear_sides(L, np.zeros(len(L)), "distance")

        return candidate

    def _learn(self, Z: np.ndarray, y: np.ndarray, scale: float) -> np.ndarray:
        r = len(self.classes_) - 1 if self.n_components is None else self.n_components
        seed = int(generator(self.random_state).integers(2**31))
        init = "auto" if Z.any() else "identity"  # equal rows have no directions to start from
        model = NeighborhoodComponentsAnalysis(min(r, Z.shape[1]), init=init, max_iter=self.max_iter, random_state=seed)
        self.n_iter_ = int(model.fit(Z * Z.dtype.type(scale), y).n_iter_)
        return np.asarray(model.components_)
