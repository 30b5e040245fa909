"""Whitening through the Gram matrix: U = X W is orthonormal, and neither U's n x n products nor X⁺ is ever formed."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import psutil
import scipy.linalg
import scipy.sparse as sp

from likewise.errors import LikewiseError
from likewise.utils.arrays import dense

_BLOCK = 2048  # rows brought to float64 at a time
Eigen = tuple[np.ndarray, np.ndarray]  # values and vectors, largest first


@dataclass(frozen=True)
class WhiteningMap:
    """W = V (Σ² + αI)^(-1/2) for X = U Σ Vᵀ, and related quantities."""

    W: np.ndarray  # (d, k) whitening map; k is the numerical rank of X
    inverse: np.ndarray  # (k, d) its left inverse (Σ² + αI)^(1/2) Vᵀ: the coordinates of a direction of the input space
    shrinkage: np.ndarray  # (k,) diagonal D of UᵀU, 1 without ridge, σ² / (σ² + α) with it
    condition: float  # of X over the directions kept

    @property
    def rank(self) -> int:
        return self.W.shape[1]

    def leading(self, width: int | None) -> "WhiteningMap":
        """The same in the `width` directions of the largest eigenvalues, which come first; None is all of them."""
        if width is None:
            return self
        first = slice(width)
        values = self.shrinkage * np.einsum("ij,ij->i", self.inverse, self.inverse)
        condition = float(np.sqrt(values[0] / values[first][-1]))
        return WhiteningMap(self.W[:, first], self.inverse[first], self.shrinkage[first], condition)

    def penalty(self, A: np.ndarray, B: np.ndarray) -> float:
        """The ridge α(‖XM‖² + ‖MXᵀ‖²) + α²‖M‖² of K = A Bᵀ: the sum of K_ij² (1 - D_i D_j)."""
        D = self.shrinkage[:, None]
        if np.all(D == 1.0):
            return 0.0
        return float(np.sum((A.T @ A) * (B.T @ B)) - np.sum((A.T @ (D * A)) * (B.T @ (D * B))))


def whiten(X: Any, weights: np.ndarray | None = None, alpha: float = 0.0) -> WhiteningMap:
    """Whitening of the rows of X (each repeated `weights` times), through the smaller of its two Gram matrices.

    `alpha` is a ridge in units of the mean eigenvalue of XᵀX. Directions below the accuracy of the Gram matrix, or of
    X's own precision, are dropped. Squaring X squares its condition number, so float64 data without ridge is whitened
    a second time, which brings UᵀU back to the identity (CholeskyQR2).
    """
    check_room(min(X.shape), X.shape)
    return _whitening(_eigenvectors(X, weights), X.shape, X.dtype, alpha, lambda W: _gram_of_projected(X, weights, W))


def whiten_gram(
    G: np.ndarray, shape: tuple[int, int], dtype: np.dtype, alpha: float, projected: Callable[[np.ndarray], np.ndarray]
) -> WhiteningMap:
    """The same from XᵀX; `projected(W)` returns (XW)ᵀ(XW), which takes a second pass over X."""
    return _whitening(decomposed(G), shape, dtype, alpha, projected)


def _whitening(
    eigen: Eigen, shape: tuple[int, int], dtype: np.dtype, alpha: float, projected: Callable[[np.ndarray], np.ndarray]
) -> WhiteningMap:
    values, V = eigen
    if not values[0] > 0:
        raise LikewiseError("X holds zeros alone: there is nothing to learn a similarity from")
    ridge = alpha * values.sum() / shape[1]
    # Directions that are rounding of the Gram matrix, or of X's own entries, are dropped.
    floor = max(max(shape) * np.finfo(np.float64).eps, float(8 * np.finfo(dtype).eps) ** 2)
    kept = values > values[0] * floor
    values, V = values[kept], V[:, kept]
    V *= fixed_signs(V)
    W, inverse = V / np.sqrt(values + ridge), np.sqrt(values + ridge)[:, None] * V.T
    if ridge == 0.0 and dtype == np.float64:
        R = np.linalg.cholesky(projected(W)).T  # of the actual UᵀU
        W, inverse = scipy.linalg.solve_triangular(R, W.T, trans="T").T, R @ inverse
    return WhiteningMap(W, inverse, values / (values + ridge), float(np.sqrt(values[0] / values[-1])))


def gram(X: Any, weights: np.ndarray | None = None) -> np.ndarray:
    """XᵀX with row weights, summed in float64 over blocks of rows."""
    d = X.shape[1]
    total = add_gram(np.zeros((d, d), order="F"), X, weights)
    return total if sp.issparse(X) else mirrored(total)


def add_gram(total: np.ndarray, X: Any, weights: np.ndarray | None = None) -> np.ndarray:
    """XᵀX added to `total`, in Fortran order; of dense rows the lower triangle alone."""
    for first in range(0, X.shape[0], _BLOCK):
        part = slice(first, first + _BLOCK)
        rows = weighted(X[part].astype(np.float64), None if weights is None else weights[part])
        if sp.issparse(rows):
            total += (rows.T @ rows).toarray()
        else:  # one triangle is half the work; the other is its mirror
            total = scipy.linalg.blas.dsyrk(1.0, rows.T, beta=1.0, c=total, overwrite_c=True, lower=True)
    return total


def mirrored(total: np.ndarray) -> np.ndarray:
    """A symmetric matrix from its lower triangle."""
    return np.tril(total) + np.tril(total, -1).T


def _eigenvectors(X: Any, weights: np.ndarray | None) -> Eigen:
    """Eigenvalues of XᵀX, largest first, with their eigenvectors; by XXᵀ where that is smaller."""
    n, d = X.shape
    if d <= n:
        return decomposed(gram(X, weights))
    rows = weighted(X.astype(np.float64), weights)
    values, U = decomposed(dense(rows @ rows.T))
    return values, dense(rows.T @ U) / np.sqrt(np.maximum(values, np.finfo(float).tiny))


def decomposed(G: np.ndarray) -> Eigen:
    """Eigenvalues of a Gram matrix, which is overwritten, and eigenvectors, largest first."""
    values, V = scipy.linalg.eigh(G, driver="evd", overwrite_a=True, check_finite=False)
    return np.maximum(values[::-1], 0.0), V[:, ::-1]


def _gram_of_projected(X: Any, weights: np.ndarray | None, W: np.ndarray) -> np.ndarray:
    """(XW)ᵀ(XW), in float64."""
    total = np.zeros((W.shape[1], W.shape[1]))
    for first in range(0, X.shape[0], _BLOCK):
        part = slice(first, first + _BLOCK)
        U = np.asarray(weighted(X[part].astype(np.float64), None if weights is None else weights[part]) @ W)
        total += U.T @ U
    return total


def weighted(rows: Any, weights: np.ndarray | None) -> Any:
    """Rows whose Gram matrix counts each of them `weights` times."""
    if weights is None:
        return rows
    root = np.sqrt(weights).astype(rows.dtype)[:, None]
    return rows.multiply(root).tocsr() if sp.issparse(rows) else rows * root


def fixed_signs(V: np.ndarray) -> np.ndarray:
    """Signs that make the largest entry of each column positive: eigenvectors are defined up to sign."""
    return np.where(V.max(axis=0) < -V.min(axis=0), -1.0, 1.0).astype(V.dtype)


def check_room(size: int, shape: tuple[int, int]) -> None:
    """Raise before allocating a Gram matrix that cannot fit in memory."""
    needed, there = 4 * 8 * size**2, physical_memory()
    if needed > there:
        raise LikewiseError(
            f"X is {shape[0]} x {shape[1]}: whitening it needs a {size} x {size} Gram matrix and its eigenvectors, "
            f"about {needed / 1e9:.0f} GB of {there / 1e9:.0f} GB; set whitening_width, 1000 for instance"
        )


def physical_memory() -> int:
    """Bytes of memory of this machine."""
    return int(psutil.virtual_memory().total)
