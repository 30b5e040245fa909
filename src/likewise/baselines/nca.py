"""Neighbourhood components analysis: scikit-learn's, under the contract of the others."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.decomposition import PCA
from sklearn.neighbors import NeighborhoodComponentsAnalysis

from likewise.baselines.common import LinearBaseline, unit_rows
from likewise.baselines.scaling import neighbour_scale
from likewise.baselines.tuning import generator, stratified_subset

__all__ = ["NCA"]


class NCA(LinearBaseline):
    """Minus the squared distance after the map that makes nearest neighbours agree in class (Goldberger et al. 2004).

    Its cost grows with n²d, so at most `max_rows` training rows, drawn by class, on their `n_inputs` leading principal
    components are given to it. Rows are scaled to a mean squared nearest-neighbour distance of 1.
    """

    def __init__(
        self,
        n_components: int = 100,
        n_inputs: int = 200,
        max_rows: int | None = 4000,
        scale: float = 1.0,
        max_iter: int = 50,
        normalize: bool = True,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.n_inputs = n_inputs
        self.max_rows = max_rows
        self.scale = scale
        self.max_iter = max_iter
        self.normalize = normalize
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Learn the map from rows X and labels y."""
        X, codes = self._training_data(X, y)
        rows = unit_rows(X) if self.normalize else X
        seed = int(generator(self.random_state).integers(2**31))
        pca = PCA(min(self.n_inputs, *rows.shape), svd_solver="full", random_state=seed).fit(rows)
        Z = pca.transform(rows)
        scale = neighbour_scale(Z) * self.scale
        subset = stratified_subset(codes, self.max_rows, seed)
        L = self._learn(Z[subset] * scale, codes[subset], seed) * scale
        self.components_ = (L @ pca.components_).astype(X.dtype)
        self.offset_ = (self.components_ @ pca.mean_).astype(X.dtype)
        self.metric_ = "distance"
        return self

    def _learn(self, Z: np.ndarray, y: np.ndarray, seed: int) -> np.ndarray:
        r = min(self.n_components, Z.shape[1])
        model = NeighborhoodComponentsAnalysis(r, init="pca", max_iter=self.max_iter, random_state=seed)
        return np.asarray(model.fit(Z, y).components_)
