"""What an anchored map is given: rows scaled to length one, or their RBF kernel with landmarks, in an eigenbasis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from sklearn.preprocessing import normalize

from likewise.core.whitening import check_room, fixed_signs, gram
from likewise.errors import LikewiseError

__all__ = [
    "AS_IT_IS",
    "Basis",
    "Features",
    "Scaling",
    "basis",
    "gram_basis",
    "kernel_centre",
    "mean_square_distance",
    "unit_rows",
]


@dataclass(frozen=True)
class Scaling:
    """How rows come to length one: as they are, or standardised first (`shift` and `factor` of each column).

    Standardised columns are followed by a constant one that weighs as much as all of them together, so that a row at
    length one still tells how far from the mean it was, and a linear map of it has a bias.
    """

    shift: np.ndarray | None = None
    factor: np.ndarray | None = None

    @classmethod
    def standard(cls, mean: np.ndarray, variance: np.ndarray) -> Scaling:
        """From the moments of the columns; one that does not vary beyond the rounding of float32 counts for nothing."""
        varies = variance > (np.finfo(np.float32).eps * mean) ** 2
        deviation = np.sqrt(np.where(varies, variance, 1.0))
        return cls(mean, np.where(varies, 1 / (deviation * np.sqrt(len(mean))), 0.0))

    @property
    def name(self) -> str:
        return "unit" if self.shift is None else "standard"

    def __call__(self, X: Any) -> Any:
        """Rows of length one; sparse rows stay sparse where they are not standardised."""
        if self.shift is None or self.factor is None:
            return unit_rows(X)
        rows = np.ones((X.shape[0], X.shape[1] + 1), dtype=X.dtype)
        np.subtract(X.toarray() if sp.issparse(X) else X, self.shift.astype(X.dtype), out=rows[:, :-1])
        rows[:, :-1] *= self.factor.astype(X.dtype)
        return unit_rows(rows)


AS_IT_IS = Scaling()


@dataclass(frozen=True)
class Features:
    """Unit rows as they are (landmarks None), or exp(-γ ‖x - l‖²) for each landmark l."""

    landmarks: np.ndarray | None = None
    gamma: float = 0.0
    scaling: Scaling = AS_IT_IS

    def of(self, rows: Any) -> Any:
        """Features of rows that have not been scaled."""
        return self(self.scaling(rows))

    def __call__(self, X: Any) -> Any:
        """Features of unit rows, (n, q); sparse rows stay sparse where there is no kernel."""
        return X if self.landmarks is None else _rbf(X, self.landmarks, self.gamma)

    def metric(self) -> np.ndarray | None:
        """The inner products of the features' coefficients: the landmarks' own kernel matrix (Nyström), or I."""
        if self.landmarks is None:
            return None
        K = _rbf(self.landmarks, self.landmarks, self.gamma).astype(np.float64)
        K[np.diag_indices_from(K)] += 1e-6  # float32 kernels: below this there is only rounding
        return K


@dataclass(frozen=True)
class Basis:
    """Eigenvectors V of the centred Gram matrix of some features: F = features V - offset has FᵀF = diag(g)."""

    V: np.ndarray
    g: np.ndarray
    offset: np.ndarray
    unit: float

    def rows(self, features: Any) -> np.ndarray:
        """F, in the precision of the features."""
        return np.asarray(features @ self.V.astype(features.dtype)) - self.offset.astype(features.dtype)


def basis(features: Any, weights: np.ndarray | None, metric: np.ndarray | None) -> Basis:
    """Eigenbasis of the centred features; with a metric K the eigenvectors satisfy VᵀKV = I."""
    n, q = features.shape
    check_room(min(n, q) if metric is None else q, (n, q))
    w = np.ones(n) if weights is None else weights
    mean = np.asarray(w @ features, dtype=np.float64) / w.sum()
    if metric is None and n < q:
        return _kept(*_dual(features, mean, w), mean, q)
    return gram_basis(gram(features, weights), mean, float(w.sum()), metric)


def gram_basis(G: np.ndarray, mean: np.ndarray, total: float, metric: np.ndarray | None) -> Basis:
    """The same from the Gram matrix of the features, their mean and the weight of all rows."""
    values, vectors = _eigenvectors(G - total * np.outer(mean, mean), metric)
    return _kept(vectors[:, ::-1], values[::-1], mean, len(mean) if metric is None else 0)


def _eigenvectors(A: np.ndarray, metric: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """A v = a K v, or A v = a v without a metric K; one that rounding has left indefinite is raised until it is not."""
    if metric is None:
        return scipy.linalg.eigh(A, driver="evd", overwrite_a=True, check_finite=False)
    for raised in (0.0, 1e-5, 1e-4, 1e-3):
        K = metric + raised * np.eye(len(metric)) if raised else metric
        try:
            return scipy.linalg.eigh(A, K, driver="gvd", check_finite=False)
        except scipy.linalg.LinAlgError:
            continue
    raise LikewiseError("the kernel of these rows has no Cholesky factor: pass kernel='linear'")


def _kept(V: np.ndarray, g: np.ndarray, mean: np.ndarray, width: int) -> Basis:
    """Without the directions that are rounding; λ is in units of the mean over `width` directions, or those kept."""
    kept = g > max(g[0], 0.0) * 1e-10
    V, g = V[:, kept], g[kept]
    V = V * fixed_signs(V)  # a checkpoint holds coordinates
    return Basis(V, g, mean @ V, float(g.sum() / max(width or len(g), 1)))


def _dual(features: Any, mean: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same through the n x n inner products, where rows are fewer than columns."""
    dense = features.toarray() if sp.issparse(features) else features
    rows = (dense.astype(np.float64) - mean) * np.sqrt(w)[:, None]
    values, U = scipy.linalg.eigh(rows @ rows.T, driver="evd", overwrite_a=True, check_finite=False)
    g = np.maximum(values[::-1], 0.0)
    return rows.T @ U[:, ::-1] / np.sqrt(np.maximum(g, np.finfo(float).tiny)), g


def unit_rows(X: Any) -> Any:
    """Rows of length one; a zero row stays zero."""
    return normalize(X)


def mean_square_distance(X: Any, weights: np.ndarray | None) -> float:
    """Mean of ‖x_i - x_j‖² over all pairs, no pair visited: 2 (mean ‖x‖² - ‖mean x‖²), about the mean if dense."""
    w = np.ones(X.shape[0]) if weights is None else weights
    mean = np.asarray(w @ X, dtype=np.float64) / w.sum()
    if not sp.issparse(X):
        return float(2 * (w @ _squares(X - mean.astype(X.dtype))) / w.sum())
    return float(2 * (w @ _squares(X) / w.sum() - mean @ mean))


def kernel_centre(landmarks: np.ndarray) -> np.ndarray:
    """What is subtracted from rows and landmarks before their distances are computed."""
    return landmarks.mean(axis=0)


def _squares(X: Any) -> np.ndarray:
    """Squared lengths of the rows."""
    return np.asarray(X.multiply(X).sum(axis=1) if sp.issparse(X) else np.einsum("ij,ij->i", X, X)).ravel()


def _rbf(X: Any, landmarks: np.ndarray, gamma: float) -> np.ndarray:
    """exp(-γ ‖x - l‖²) through one matrix product, in the precision of X.

    Dense rows are taken about the landmarks' mean: where all rows are close together γ is large, and products of whole
    rows would leave nothing but rounding of their distances.
    """
    landmarks = landmarks.astype(X.dtype)
    if not sp.issparse(X):
        centre = kernel_centre(landmarks)
        X, landmarks = X - centre, landmarks - centre
    K = np.asarray(X @ landmarks.T)
    K *= 2
    K -= _squares(X)[:, None]
    K -= _squares(landmarks)
    np.minimum(K, 0, out=K)
    K *= K.dtype.type(gamma)
    return np.exp(K, out=K)
