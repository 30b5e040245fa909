"""The cosine of the rows themselves: the similarity before anything is learned."""

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import Tags

from likewise.errors import LikewiseError
from likewise.learn.base import SimilarityModel, finite_fit
from likewise.utils.arrays import Array, check_magnitude, dense, unit_rows
from likewise.utils.onnx_graph import Graph
from likewise.utils.validation import validate_data


class Unlearned(SimilarityModel):
    """Takes only the mean from the training rows; labels are ignored."""

    mean_: np.ndarray

    @finite_fit
    def fit(self, X: Array, y: ArrayLike | None = None) -> Self:
        """Remember the width and the mean of X; y is not used."""
        self._validate_params()
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32])
        check_magnitude(X)
        self.n_samples_ = X.shape[0]
        self.mean_ = np.asarray(X.mean(axis=0)).ravel()
        return self

    def _centred(self, X: Array) -> np.ndarray:
        return dense(X) - self.mean_.astype(X.dtype, copy=False)

    def _check_loaded(self) -> None:
        if np.shape(self.mean_) != (self.n_features_in_,):  # one row of one column would go with any mean
            raise LikewiseError(
                f"mean_ has shape {np.shape(self.mean_)}, but n_features_in_ is {self.n_features_in_!r}"
            )
        super()._check_loaded()

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        return tags


class Cosine(Unlearned):
    """Cosine of the rows.

    Parameters
    ----------
    centre : bool, default=False
        Subtract the mean of the training rows first.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {"centre": ["boolean"]}

    def __init__(self, centre: bool = False) -> None:
        self.centre = centre

    def fit(self, X: Array, y: ArrayLike | None = None) -> Self:
        """Remember the width of X, and the mean if `centre` needs it."""
        super().fit(X)
        if not self.centre:
            self.mean_ = np.zeros(len(self.mean_))  # models that rank equally have one identity
        return self

    def _gallery_side(self, X: Array) -> np.ndarray:
        return np.asarray(dense(unit_rows(self._centred(X) if self.centre else X)))

    def _write_onnx(self, graph: Graph, rows: str) -> tuple[str, str]:
        return graph.compared(graph.plus(rows, -self.mean_) if self.centre else rows, "cosine")
