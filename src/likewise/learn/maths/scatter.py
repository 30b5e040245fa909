"""Scatter of rows: leading directions, and whitening by a covariance that is shrunk to its mean.

Everything here is about RᵀR of some rows R: its leading eigenvectors, by the Gram matrix or by subspace iteration where
that would be large, and maps by which rows with a shrunk covariance become white.
"""

from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from likewise.learn.maths.whitening import decomposed, fixed_signs, gram, weighted
from likewise.utils.threads import added, ordered_map, row_blocks

EXACT_DIRECTIONS = 512  # columns
_POWER = 3  # power iterations, two sparse products each; a fourth changes mAP by less than .001
_SEED = 0  # fixed, so that a fit can be repeated; the subspace hardly depends on it


# -- Shrunk covariances -----------------------------------------------------------------------------------------------


def shrunk(values: np.ndarray, width: int, shrink: float) -> tuple[np.ndarray, float]:
    """Eigenvalues of a covariance over `width` directions, shrunk to their mean: these, and that of all others."""
    mean = float(values.sum()) / width or 1.0
    return (1 - shrink) * values + shrink * mean, shrink * mean


def shrunk_whitener(R: np.ndarray, shrink: float) -> np.ndarray:
    """W (d, d), upper triangular, with W Wᵀ the inverse of the shrunk covariance of centred rows R."""
    S = (R.T @ R).astype(np.float64) / len(R)
    mean = max(float(np.trace(S)) / len(S), 1e-12)
    L = scipy.linalg.cholesky((1 - shrink) * S + shrink * mean * np.eye(len(S)), lower=True)
    return np.asarray(scipy.linalg.solve_triangular(L, np.eye(len(S)), lower=True).T)


def half_whitened(squares: np.ndarray, V: np.ndarray) -> np.ndarray:
    """Eigenvectors V of a Gram matrix divided by the roots of their deviations, without those that hardly vary."""
    values = np.sqrt(np.maximum(squares, 0.0))
    wide = values >= 1e-3 * values[0]
    V, values = V[:, wide], np.maximum(values[wide] / max(values[0], 1e-300), 1e-3)
    return np.asarray(V * fixed_signs(V) / np.sqrt(values))


# -- Leading directions -----------------------------------------------------------------------------------------------


def leading_directions(X: Any, weights: np.ndarray | None, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Largest eigenvalues of XᵀX and an orthonormal V (d, width) in float32 or X's precision, largest first.

    Of dense rows with few columns they are those of the Gram matrix. Else subspace iteration V ← orth(XᵀX V) from a
    Gaussian start, a tenth wider than asked for, then Rayleigh-Ritz: X V has exactly the Gram matrix diag(values), so
    whatever is computed in these directions is exact in them; only their choice is approximate. Weights count as
    repetition of rows.
    """
    if not sp.issparse(X) and X.shape[1] <= EXACT_DIRECTIONS:
        values, V = decomposed(gram(X, weights))
        return values[:width], V[:, :width].astype(X.dtype)
    X = weighted(X, weights)
    transposed = X.T.tocsr() if sp.issparse(X) else X.T
    n, d = X.shape
    wider = min(width + max(10, width // 10), n, d)
    V = np.random.default_rng(_SEED).standard_normal((d, wider), dtype=np.float32).astype(X.dtype)
    for _ in range(_POWER):
        V = _orthonormal(product(transposed, product(X, V)))
    # Twice is enough for orthogonality to rounding; a column that is short the second time was rounding the first.
    V = _orthonormal(V, float(np.finfo(V.dtype).eps) ** 0.5)
    values, E = _eigenvectors(product(X, V))
    return values[:width], product(V, E[:, :width].astype(V.dtype))


def _orthonormal(V: np.ndarray, least: float = 0.0) -> np.ndarray:
    """An orthonormal basis of the columns, through their Gram matrix; directions that are rounding are dropped."""
    values, E = _eigenvectors(V)
    significant = values > values[0] * max(64 * max(V.shape) * float(np.finfo(V.dtype).eps) ** 2, least)
    significant[0] = True  # even if all are zero
    scale = np.sqrt(np.maximum(values[significant], np.finfo(np.float32).tiny))
    return product(V, (E[:, significant] / scale).astype(V.dtype))


def _eigenvectors(V: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues and eigenvectors of VᵀV, largest first; summed in float64 over blocks of rows."""
    (total,) = added(ordered_map(lambda block: (V[block].T @ V[block],), row_blocks(len(V))))
    return decomposed(total)


def product(X: Any, V: np.ndarray) -> np.ndarray:
    """X V by blocks of rows in threads: SciPy's sparse product is single-threaded, and needs V in C order."""
    blocks, V = row_blocks(X.shape[0]), np.ascontiguousarray(V)
    product = np.empty((X.shape[0], V.shape[1]), dtype=V.dtype)
    for block, rows in zip(blocks, ordered_map(lambda block: X[block] @ V, blocks), strict=True):
        product[block] = rows
    return product
