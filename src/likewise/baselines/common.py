"""What the baselines share: checked training data, the settings to try, and a distance written as an inner product."""

from __future__ import annotations

from itertools import product
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.preprocessing import normalize

from likewise.base import SimilarityModel, project
from likewise.data.labels import encode_labels
from likewise.errors import LikewiseError
from likewise.selection.grid import Params, Prepare, Sides, search_grid
from likewise.utils.arrays import dense
from likewise.utils.onnx_graph import Graph
from likewise.utils.validation import Interval, StrOptions

__all__ = [
    "Baseline",
    "LinearBaseline",
    "compare",
    "distance_sides",
    "linear_sides",
    "squared_distances",
]

AUTO = StrOptions({"auto"})
HOLDOUT = StrOptions({"rows", "classes"})
COUNT = Interval(Integral, 1, None, closed="left")
POSITIVE = Interval(Real, 0, None, closed="neither")
NOT_NEGATIVE = Interval(Real, 0, None, closed="left")
SHARE = Interval(Real, 0, 1, closed="both")

DENSE_LIMIT = 4 * 2**30
"""Models that need dense rows refuse a sparse matrix that would take more bytes than this."""


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
    """Checks the training data and searches the settings that are "auto", the same way for all baselines."""

    _grids: ClassVar[dict[str, str]] = {}
    """A parameter that may be "auto", and the parameter that holds the values to try; the last one varies fastest."""

    random_state: Any
    cv_results_: dict[str, Any]

    def _training_data(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """Dense rows and class codes 0 … k − 1; sets `classes_` and `n_samples_`."""
        self._validate_params()
        X, y = self._validated_for_fit(X, y)
        self.classes_, codes = encode_labels(y)
        self.n_samples_ = X.shape[0]
        return _checked_dense(X), codes

    def _best(self, prepare: Prepare, X: np.ndarray, codes: np.ndarray, holdout: str = "rows") -> Params:
        """The best setting by held-out training rows; sets `cv_results_`."""
        results = search_grid(self._settings(), prepare, X, codes, self.random_state, holdout)
        self.cv_results_ = results.as_dict()
        return results.best_params

    def _settings(self) -> list[Params]:
        """Every combination of the values to try."""
        values = [self._values(name) for name in self._grids]
        return [dict(zip(self._grids, chosen, strict=True)) for chosen in product(*values)]

    def _values(self, name: str) -> list[Any]:
        """The value that was given, or the grid if that is "auto"."""
        given, grid = getattr(self, name), self._grids[name]
        if not isinstance(given, str):
            return [given]
        values = getattr(self, grid)
        values = values.tolist() if isinstance(values, np.ndarray) else list(values)
        if not values:
            raise LikewiseError(f"{grid} is empty: expected at least one value of {name} to try")
        allowed = self._parameter_constraints[name][0]
        for value in values:
            if not allowed.is_satisfied_by(value):
                raise LikewiseError(f"{grid} holds {value!r}: expected values of {name}, each {allowed}")
        return values


class LinearBaseline(Baseline):
    """A linear map `components_` of (unit) rows, minus `offset_`, compared by cosine or by Euclidean distance."""

    normalize: bool
    components_: np.ndarray
    offset_: np.ndarray
    metric_: str

    @property
    def symmetric(self) -> bool:
        """Whether the query side of a row equals its gallery side: under the cosine."""
        return self.metric_ == "cosine"

    def _rows(self, X: Any) -> Any:
        return normalize(X) if self.normalize else X

    def _sides(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        return linear_sides(self.components_, self.offset_, self.metric_)(self._rows(X))

    def _gallery_side(self, X: Any) -> np.ndarray:
        return self._sides(X)[1]

    def _query_side(self, X: Any) -> np.ndarray:
        return self._sides(X)[0]

    def _write_onnx(self, graph: Graph, rows: str) -> tuple[str, str]:
        rows = graph.unit(rows) if self.normalize else rows
        return graph.compared(graph.plus(graph.mapped(rows, self.components_.T), -self.offset_), self.metric_)


def linear_sides(components: np.ndarray, offset: np.ndarray, metric: str) -> Sides:
    """Rows to the two sides of x ↦ components·x − offset, in the precision of the rows."""

    def sides(X: Any) -> tuple[np.ndarray, np.ndarray]:
        Z = project(X, components)
        Z -= offset.astype(Z.dtype, copy=False)
        return compare(Z, metric)

    return sides


def compare(Z: np.ndarray, metric: str) -> tuple[np.ndarray, np.ndarray]:
    """Query and gallery sides of embedded rows under "cosine" or "distance"."""
    return distance_sides(Z) if metric == "distance" else 2 * (normalize(Z),)


def _checked_dense(X: Any) -> np.ndarray:
    size = X.shape[0] * X.shape[1] * X.dtype.itemsize
    if sp.issparse(X) and size > DENSE_LIMIT:
        raise LikewiseError(
            f"X is sparse and its {X.shape[0]} × {X.shape[1]} values would take {size / 2**30:.1f} GiB dense: "
            "reduce it first, for example with TruncatedSVD"
        )
    return dense(X)
