"""Whitening in the leading directions of wide or sparse rows, which are never made dense."""

import logging
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.preprocessing import normalize

from likewise.errors import LikewiseError
from likewise.learn.maths.scatter import leading_directions, product
from likewise.learn.maths.whitening import WhiteningMap, fixed_signs, physical_memory

log = logging.getLogger("likewise")

EXACT_WIDTH = 4096  # of the smaller Gram matrix of sparse rows: up to this size all directions take seconds
AUTOMATIC_WIDTH = 1000
_ARRAYS = 5  # of d x width in float32 that are held at a time


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
    """As `whitening.whiten`, in the `width` leading directions alone; the ridge has the same unit."""
    values, V = leading_directions(X, weights, width)
    if not values[0] > 0:
        raise LikewiseError("X holds zeros alone: there is nothing to learn a similarity from")
    significant = values > values[0] * max(X.shape) * float(np.finfo(X.dtype).eps) ** 2
    values, W = values[significant], V if significant.all() else V[:, significant]
    shifted = values + alpha * _total_variance(X, weights) / X.shape[1]
    W *= fixed_signs(W) / np.sqrt(shifted).astype(W.dtype)
    inverse = shifted.astype(W.dtype)[:, None] * W.T
    return WhiteningMap(W, inverse, values / shifted, float(np.sqrt(values[0] / values[-1])))


def _total_variance(X: Any, weights: np.ndarray | None) -> float:
    """The trace of XᵀX, the sum of all its eigenvalues."""
    squares = X.multiply(X).sum(axis=1) if sp.issparse(X) else np.einsum("ij,ij->i", X, X, dtype=np.float64)
    squares = np.asarray(squares, dtype=np.float64).ravel()
    return float(squares.sum() if weights is None else weights @ squares)
