"""What one has before learning anything: Euclidean distance and cosine."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import validate_data

from likewise.base import SimilarityModel
from likewise.baselines.common import distance_sides, unit_rows

__all__ = ["Cosine", "Euclid"]


class _Unlearned(SimilarityModel):
    """Takes no more from the training rows than their mean; labels are ignored."""

    mean_: np.ndarray

    def fit(self, X: Any, y: Any = None) -> Self:
        """Remember the width and the mean of X; y is not used."""
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32])
        self.n_samples_ = X.shape[0]
        self.mean_ = np.asarray(X.mean(axis=0)).ravel()
        return self

    def _centred(self, X: Any) -> np.ndarray:
        X = X.toarray() if sp.issparse(X) else X
        return np.asarray(X - self.mean_.astype(X.dtype, copy=False))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        return tags


class Euclid(_Unlearned):
    """Minus the squared Euclidean distance.

    Rows are centred first: distances do not change, and float32 loses fewer digits.
    """

    def _gallery_side(self, X: Any) -> np.ndarray:
        return distance_sides(self._centred(X))[1]

    def _query_side(self, X: Any) -> np.ndarray:
        return distance_sides(self._centred(X))[0]


class Cosine(_Unlearned):
    """Cosine of the rows, or with `centre=True` of the rows less the training mean."""

    def __init__(self, centre: bool = False) -> None:
        self.centre = centre

    def _gallery_side(self, X: Any) -> np.ndarray:
        Z = unit_rows(self._centred(X) if self.centre else X)
        return Z.toarray() if sp.issparse(Z) else Z
