"""Whitening in the leading directions of wide or sparse rows, which are never made dense."""

import logging
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.preprocessing import normalize

from likewise.errors import LikewiseError
from likewise.learn.maths.whitening import WhiteningMap, decomposed, fixed_signs, physical_memory, weighted
from likewise.utils.threads import added, ordered_map, row_blocks

log = logging.getLogger("likewise")

EXACT_WIDTH = 4096  # of the smaller Gram matrix of sparse rows: up to this size all directions take seconds
AUTOMATIC_WIDTH = 1000
_ARRAYS = 5  # of d x width in float32 that are held at a time
_POWER = 3  # power iterations, two sparse products each; a fourth changes mAP by less than .001
_SEED = 0  # fixed, so that a fit can be repeated; the subspace hardly depends on it


def width_for(shape: tuple[int, int], sparse: bool, asked: int | None) -> int | None:
    """Number of directions to keep: the one asked for; else None for all, but for large sparse rows what fits."""
    room = int(physical_memory() / 4 / (4 * _ARRAYS * shape[1]))
    if asked is not None:
        if min(shape) > EXACT_WIDTH and min(asked, *shape) > 4 * room:
            raise LikewiseError(
                f"whitening_width={asked}: {_ARRAYS} arrays of {shape[1]} x {asked} do not fit in memory; "
                f"expected at most {4 * room}"
            )
        return min(asked, *shape)
    if not sparse or min(shape) <= EXACT_WIDTH:
        return None
    chosen = max(1, min(AUTOMATIC_WIDTH, room))
    log.info("X is sparse, %d x %d: it is whitened in its %d leading directions (whitening_width)", *shape, chosen)
    return chosen


def reduced_rows(X: Any, weights: np.ndarray | None, asked: int | None) -> tuple[Any, np.ndarray | None]:
    """Unit rows in their leading directions, scaled to unit length again, and those directions (width, d).

    Rows that need no reduction are returned unchanged, with None.
    """
    width = width_for(X.shape, sp.issparse(X), asked)
    if width is None or width >= min(X.shape):
        return X, None
    _, V = leading_directions(X, weights, width)
    return normalize(_product(X, V)), np.ascontiguousarray(V.T)


def truncated_whitening(X: Any, weights: np.ndarray | None, alpha: float, width: int) -> WhiteningMap:
    """As `whitening.whiten`, in the `width` leading directions alone; the ridge has the same unit."""
    values, V = leading_directions(X, weights, width)
    if not values[0] > 0:
        raise LikewiseError("X holds zeros alone: there is nothing to learn a similarity from")
    kept = values > values[0] * max(X.shape) * float(np.finfo(X.dtype).eps) ** 2
    values, W = values[kept], V if kept.all() else V[:, kept]
    shifted = values + alpha * _total_variance(X, weights) / X.shape[1]
    W *= fixed_signs(W) / np.sqrt(shifted).astype(W.dtype)
    inverse = shifted.astype(W.dtype)[:, None] * W.T
    return WhiteningMap(W, inverse, values / shifted, float(np.sqrt(values[0] / values[-1])))


def leading_directions(X: Any, weights: np.ndarray | None, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Largest eigenvalues of XᵀX and an orthonormal V (d, width) in float32 or X's precision, largest first.

    Subspace iteration V ← orth(XᵀX V) from a Gaussian start, a tenth wider than asked for, then Rayleigh-Ritz: X V has
    exactly the Gram matrix diag(values), so whatever is computed in these directions is exact in them; only their
    choice is approximate. Weights count as repetition of rows.
    """
    X = weighted(X, weights)
    transposed = X.T.tocsr() if sp.issparse(X) else X.T
    n, d = X.shape
    wider = min(width + max(10, width // 10), n, d)
    V = np.random.default_rng(_SEED).standard_normal((d, wider), dtype=np.float32).astype(X.dtype)
    for _ in range(_POWER):
        V = _orthonormal(_product(transposed, _product(X, V)))
    # Twice is enough for orthogonality to rounding; a column that is short the second time was rounding the first.
    V = _orthonormal(V, float(np.finfo(V.dtype).eps) ** 0.5)
    values, E = _eigenvectors(_product(X, V))
    return values[:width], _product(V, E[:, :width].astype(V.dtype))


def _total_variance(X: Any, weights: np.ndarray | None) -> float:
    """The trace of XᵀX, the sum of all its eigenvalues."""
    squares = X.multiply(X).sum(axis=1) if sp.issparse(X) else np.einsum("ij,ij->i", X, X, dtype=np.float64)
    squares = np.asarray(squares, dtype=np.float64).ravel()
    return float(squares.sum() if weights is None else weights @ squares)


def _orthonormal(V: np.ndarray, least: float = 0.0) -> np.ndarray:
    """An orthonormal basis of the columns, through their Gram matrix; directions that are rounding are dropped."""
    values, E = _eigenvectors(V)
    kept = values > values[0] * max(64 * max(V.shape) * float(np.finfo(V.dtype).eps) ** 2, least)
    kept[0] = True  # even if all are zero
    scale = np.sqrt(np.maximum(values[kept], np.finfo(np.float32).tiny))
    return _product(V, (E[:, kept] / scale).astype(V.dtype))


def _eigenvectors(V: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues and eigenvectors of VᵀV, largest first; summed in float64 over blocks of rows."""
    (total,) = added(ordered_map(lambda block: (V[block].T @ V[block],), row_blocks(len(V))))
    return decomposed(total)


def _product(X: Any, V: np.ndarray) -> np.ndarray:
    """X V by blocks of rows in threads: SciPy's sparse product is single-threaded, and needs V in C order."""
    blocks, V = row_blocks(X.shape[0]), np.ascontiguousarray(V)
    product = np.empty((X.shape[0], V.shape[1]), dtype=V.dtype)
    for block, rows in zip(blocks, ordered_map(lambda block: X[block] @ V, blocks), strict=True):
        product[block] = rows
    return product
