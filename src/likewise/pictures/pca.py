"""PCA of few, very wide rows, in memory or on disk."""

from typing import Any, Self

import numpy as np
import scipy.linalg
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.extmath import randomized_range_finder
from sklearn.utils.validation import check_is_fitted

from likewise.errors import LikewiseError

_COLUMNS = 2048  # read at a time: one page per row of a memory-mapped float16 file
_ROWS = 512
_EXACT = 2000  # rows; a full eigendecomposition takes seconds


class DualPCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Principal components from the n × n Gram matrix, for rows too wide for a covariance matrix.

    Rows may be float16 and memory-mapped; they are read in blocks. Components are stored as float16, whose rounding
    changes a projection by about 1e-4 of its length.

    Parameters
    ----------
    n_components : number of components; lowered to the largest possible rank
    random_state : seed of the randomised range finder, used above 2,000 rows
    """

    def __init__(self, n_components: int = 1000, random_state: int = 0) -> None:
        self.n_components = n_components
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, numbers: np.ndarray | None = None) -> Self:
        """Learn from the rows of X, or from the rows with the given numbers."""
        X = _rows(X)
        numbers = np.arange(len(X)) if numbers is None else np.asarray(numbers)
        if not isinstance(self.n_components, int | np.integer) or self.n_components < 1:
            raise LikewiseError(f"n_components={self.n_components!r} is not a number of components; expected 1 or more")
        if len(numbers) < 2:
            raise LikewiseError(f"PCA got {len(numbers)} row; expected at least 2")
        self.mean_, gram = _centred_gram(X, numbers)
        values, vectors = _leading(gram, min(self.n_components, len(numbers) - 1, X.shape[1]), self.random_state)
        self.explained_variance_ = values / (len(numbers) - 1)
        self.components_ = _components(X, numbers, self.mean_, vectors / np.sqrt(values)).astype(np.float16)
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        X = _rows(X)
        if X.shape[1] != self.n_features_in_:
            raise LikewiseError(f"X has {X.shape[1]} features; expected {self.n_features_in_}, as in fit")
        return project(X, self.mean_, self.components_.astype(np.float32))

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)


def project(X: np.ndarray, mean: np.ndarray, components: np.ndarray) -> np.ndarray:
    """(X − mean) · componentsᵀ, in blocks."""
    out = np.empty((len(X), len(components)), np.float32)
    for i in range(0, len(X), _ROWS):
        out[i : i + _ROWS] = (X[i : i + _ROWS].astype(np.float32) - mean) @ components.T
    return out


def _rows(X: Any) -> np.ndarray:
    X = X if isinstance(X, np.ndarray) else np.asarray(X)
    if X.ndim != 2 or X.dtype.kind not in "biuf":
        raise LikewiseError(f"X has shape {X.shape} and dtype {X.dtype}; expected rows of numbers")
    return X


def _centred_gram(X: np.ndarray, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Column means, and the Gram matrix of the centred rows, by blocks of columns."""
    mean = np.empty(X.shape[1], np.float32)
    gram = np.zeros((len(numbers), len(numbers)), np.float32)
    for j in range(0, X.shape[1], _COLUMNS):
        block = X[:, j : j + _COLUMNS][numbers].astype(np.float32)
        mean[j : j + _COLUMNS] = block.mean(axis=0, dtype=np.float64)
        block -= mean[j : j + _COLUMNS]
        gram += block @ block.T
    return mean, gram


def _components(X: np.ndarray, numbers: np.ndarray, mean: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """weightsᵀ · centred rows, shape (k, d)."""
    out = np.empty((weights.shape[1], X.shape[1]), np.float32)
    weights = weights.astype(np.float32)
    for j in range(0, X.shape[1], _COLUMNS):
        block = X[:, j : j + _COLUMNS][numbers].astype(np.float32)
        out[:, j : j + _COLUMNS] = weights.T @ (block - mean[j : j + _COLUMNS])
    return out


def _leading(gram: np.ndarray, k: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The k largest eigenvalues, in descending order, and their eigenvectors, without those below rounding."""
    if len(gram) <= _EXACT:
        values, vectors = scipy.linalg.eigh(gram.astype(np.float64), subset_by_index=(len(gram) - k, len(gram) - 1))
    else:
        basis = randomized_range_finder(gram, size=min(len(gram), k + k // 5 + 10), n_iter=3, random_state=seed)
        values, inner = scipy.linalg.eigh((basis.T @ (gram @ basis)).astype(np.float64))
        values, vectors = values[-k:], basis @ inner[:, -k:]
    keep = values > max(values[-1], 0) * 1e-6
    if not keep.any():
        raise LikewiseError("all rows are equal; expected at least two different ones")
    return values[keep][::-1], vectors[:, keep][:, ::-1]
