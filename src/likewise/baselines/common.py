"""What the baselines share: checked training data, unit rows, and a distance written as an inner product."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils._param_validation import Interval, StrOptions

from likewise.base import SimilarityModel, project
from likewise.data.labels import encode_labels
from likewise.errors import LikewiseError
from likewise.selection.tuning import Sides
from likewise.utils.arrays import unit_rows

__all__ = [
    "Baseline",
    "LinearBaseline",
    "compare",
    "distance_sides",
    "linear_sides",
    "squared_distances",
    "unit_rows",
]

AUTO = StrOptions({"auto"})
HOLDOUT = StrOptions({"rows", "classes"})
COUNT = Interval(Integral, 1, None, closed="left")
POSITIVE = Interval(Real, 0, None, closed="neither")
SHARE = Interval(Real, 0, 1, closed="both")

DENSE_LIMIT = 4 * 2**30
"""A sparse matrix whose dense form takes more bytes than this is refused by the models that need it dense."""


def distance_sides(Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Query and gallery sides whose inner product is −‖a − b‖² = [2a, −‖a‖², −1] · [b, 1, ‖b‖²]."""
    squares = np.einsum("ij,ij->i", Z, Z)[:, None]
    ones = np.ones_like(squares)
    return np.hstack([2 * Z, -squares, -ones]), np.hstack([Z, ones, squares])


def squared_distances(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """‖a − b‖² for every row of A and of B, never below zero."""
    D = A @ B.T
    D *= -2
    D += np.einsum("ij,ij->i", A, A)[:, None]
    D += np.einsum("ij,ij->i", B, B)[None, :]
    return np.maximum(D, 0, out=D)


class Baseline(SimilarityModel):
    """A rival: checks its training data in one place."""

    def _training_data(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """Dense rows and class codes 0 … k − 1; sets `classes_` and `n_samples_`."""
        self._validate_params()
        X, y = self._validated_for_fit(X, y)
        self.classes_, codes = encode_labels(y)
        self.n_samples_ = X.shape[0]
        return _dense(X), codes


class LinearBaseline(Baseline):
    """A linear map `components_` of (unit) rows, less `offset_`, compared by cosine or by Euclidean distance."""

    normalize: bool
    components_: np.ndarray
    offset_: np.ndarray
    metric_: str

    def _sides(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        rows = unit_rows(X) if self.normalize else X
        return linear_sides(self.components_, self.offset_, self.metric_)(rows)

    def _gallery_side(self, X: Any) -> np.ndarray:
        return self._sides(X)[1]

    def _query_side(self, X: Any) -> np.ndarray:
        return self._sides(X)[0]


def linear_sides(components: np.ndarray, offset: np.ndarray, metric: str) -> Sides:
    """Rows to the two sides of x ↦ components·x − offset, in the precision of the rows."""

    def sides(X: Any) -> tuple[np.ndarray, np.ndarray]:
        Z = project(X, components)
        Z -= offset.astype(Z.dtype, copy=False)
        return compare(Z, metric)

    return sides


def compare(Z: np.ndarray, metric: str) -> tuple[np.ndarray, np.ndarray]:
    """Query and gallery sides of embedded rows under "cosine" or "distance"."""
    if metric == "distance":
        return distance_sides(Z)
    Z = unit_rows(Z)
    return Z, Z


def _dense(X: Any) -> np.ndarray:
    if not sp.issparse(X):
        return np.asarray(X)
    size = X.shape[0] * X.shape[1] * X.dtype.itemsize
    if size > DENSE_LIMIT:
        raise LikewiseError(
            f"X is sparse and its {X.shape[0]} × {X.shape[1]} values would take {size / 2**30:.1f} GiB dense: "
            "reduce it first, for example with TruncatedSVD"
        )
    return X.toarray()
