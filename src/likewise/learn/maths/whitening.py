"""Whitening through the Gram matrix: U = X W is orthonormal, and neither U's n x n products nor X⁺ is ever formed."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from sklearn.preprocessing import normalize

from likewise.errors import LikewiseError
from likewise.learn.maths.scatter import (
    Eigen,
    check_room,
    decomposed,
    fixed_signs,
    gram_eigenvectors,
    leading_directions,
    physical_memory,
    product,
    projected_gram,
)

log = logging.getLogger("likewise")

EXACT_WIDTH = 4096  # of the smaller Gram matrix of sparse rows: up to this size all directions take seconds
AUTOMATIC_WIDTH = 1000
_ARRAYS = 5  # of d x width in float32 that are held at a time


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
    return _whitening(gram_eigenvectors(X, weights), X.shape, X.dtype, alpha, lambda W: projected_gram(X, weights, W))


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


# -- Wide or sparse rows, which are never made dense, in their leading directions -------------------------------------


def width_for(shape: tuple[int, int], sparse: bool, requested: int | None) -> int | None:
    """Number of directions to keep: the one requested for; else None for all, but for large sparse rows what fits."""
    room = int(physical_memory() / 4 / (4 * _ARRAYS * shape[1]))
    if requested is not None:
        if min(shape) > EXACT_WIDTH and min(requested, *shape) > 4 * room:
            raise LikewiseError(
                f"whitening_width={requested}: {_ARRAYS} arrays of {shape[1]} x {requested} do not fit in memory; "
                f"expected at most {4 * room}"
            )
        return min(requested, *shape)
    if not sparse or min(shape) <= EXACT_WIDTH:
        return None
    chosen = max(1, min(AUTOMATIC_WIDTH, room))
    log.info("X is sparse, %d x %d: it is whitened in its %d leading directions (whitening_width)", *shape, chosen)
    return chosen


def reduced_rows(X: Any, weights: np.ndarray | None, requested: int | None) -> tuple[Any, np.ndarray | None]:
    """Unit rows in their leading directions, scaled to unit length again, and those directions (width, d).

    Rows that need no reduction are returned unchanged, with None.
    """
    width = width_for(X.shape, sp.issparse(X), requested)
    if width is None or width >= min(X.shape):
        return X, None
    _, V = leading_directions(X, weights, width)
    return normalize(product(X, V)), np.ascontiguousarray(V.T)


def truncated_whitening(X: Any, weights: np.ndarray | None, alpha: float, width: int) -> WhiteningMap:
    """As `whiten`, in the `width` leading directions alone; the ridge has the same unit."""
    values, V = leading_directions(X, weights, width)
    if not values[0] > 0:
        raise LikewiseError("X holds zeros alone: there is nothing to learn a similarity from")
    significant = values > values[0] * max(X.shape) * float(np.finfo(X.dtype).eps) ** 2
    values, W = values[significant], V if significant.all() else V[:, significant]
    squares = X.multiply(X).sum(axis=1) if sp.issparse(X) else np.einsum("ij,ij->i", X, X, dtype=np.float64)
    squares = np.asarray(squares, dtype=np.float64).ravel()
    trace = float(squares.sum() if weights is None else weights @ squares)  # of XᵀX, the sum of all its eigenvalues
    shifted = values + alpha * trace / X.shape[1]
    W *= fixed_signs(W) / np.sqrt(shifted).astype(W.dtype)
    inverse = shifted.astype(W.dtype)[:, None] * W.T
    return WhiteningMap(W, inverse, values / shifted, float(np.sqrt(values[0] / values[-1])))
