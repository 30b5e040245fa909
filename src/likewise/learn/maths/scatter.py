"""Scatter of rows: Gram matrices, leading directions, whitening by a covariance that is shrunk to its mean, novelty.

Everything here is about RᵀR of some rows R: its sum over blocks of rows, its leading eigenvectors, by the Gram matrix
or by subspace iteration where that would be large, maps by which rows with a shrunk covariance become white, and how
far rows are from all classes by such maps.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import psutil
import scipy.linalg
import scipy.sparse as sp
from sklearn.preprocessing import normalize

from likewise.errors import LikewiseError
from likewise.learn.maths.labels import sample_by_class, stratified_holdout
from likewise.utils.arrays import Array, dense, is_foreign, like, to_host, wide
from likewise.utils.threads import added, ordered_map, row_blocks

log = logging.getLogger("likewise")

EXACT_WIDTH = 4096  # of the smaller Gram matrix of sparse rows: up to this size all directions take seconds
AUTOMATIC_WIDTH = 1000
_ARRAYS = 5  # of d x width in float32 that are held at a time
EXACT_DIRECTIONS = 512  # columns
_POWER = 3  # power iterations, two sparse products each; a fourth changes mAP by less than .001
_SEED = 0  # fixed, so that a fit can be repeated; the subspace hardly depends on it
_BLOCK = 2048  # rows brought to float64 at a time
NOVELTY_ROWS, NOVELTY_DIRECTIONS = 5_000, 256  # more cost time and space, and tell unknown rows no better
NOVELTY_SHRINKAGE = 0.3  # of both covariances to their mean eigenvalue
HELD_SHARE, KNOWN_SHARE = 0.2, 0.95  # this share of held-out known rows is within the limit

Eigen = tuple[np.ndarray, np.ndarray]  # values and vectors, largest first


# -- Gram matrices ----------------------------------------------------------------------------------------------------


def gram(X: Array, weights: np.ndarray | None = None) -> np.ndarray:
    """XᵀX with row weights, summed in float64 over blocks of rows; on the device of X, where it has one."""
    if is_foreign(X):
        return np.asarray(to_host(weighted_product(wide(X), weights)))
    d = X.shape[1]
    total = add_gram(np.zeros((d, d), order="F"), X, weights)
    return total if sp.issparse(X) else mirrored(total)


def add_gram(total: np.ndarray, X: Array, weights: np.ndarray | None = None) -> np.ndarray:
    """XᵀX added to `total`, in Fortran order; of dense rows the lower triangle alone."""
    for first in range(0, X.shape[0], _BLOCK):
        part = slice(first, first + _BLOCK)
        rows = weighted(X[part].astype(np.float64), None if weights is None else weights[part])
        if sp.issparse(rows):
            total += (rows.T @ rows).toarray()
        else:  # one triangle is half the work; the other is its mirror
            total = scipy.linalg.blas.dsyrk(1.0, rows.T, beta=1.0, c=total, overwrite_c=True, lower=True)
    return total


def weighted_product(U: Array, weights: np.ndarray | None) -> Array:
    """UᵀU with row weights, in one product, on the device of U."""
    return U.T @ (U if weights is None else U * like(weights, U)[:, None])


def mirrored(total: np.ndarray) -> np.ndarray:
    """A symmetric matrix from its lower triangle."""
    return np.tril(total) + np.tril(total, -1).T


def projected_gram(X: Array, weights: np.ndarray | None, W: np.ndarray) -> np.ndarray:
    """(XW)ᵀ(XW), in float64."""
    total = np.zeros((W.shape[1], W.shape[1]))
    for first in range(0, X.shape[0], _BLOCK):
        part = slice(first, first + _BLOCK)
        U = np.asarray(weighted(X[part].astype(np.float64), None if weights is None else weights[part]) @ W)
        total += U.T @ U
    return total


def gram_eigenvectors(X: Array, weights: np.ndarray | None) -> Eigen:
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


def weighted(rows: Array, weights: np.ndarray | None) -> Array:
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
            f"about {needed / 1e9:.0f} GB of {there / 1e9:.0f} GB; reduce its columns first, by PCA for "
            "instance, or learn with SimilarityLearner(settings={'whitening_width': 1000})"
        )


def physical_memory() -> int:
    """Bytes of memory of this machine."""
    return int(psutil.virtual_memory().total)


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


# -- Cholesky factors of matrices that rounding may have made indefinite -------------------------------------------


def upper_factor(A: np.ndarray) -> np.ndarray | None:
    """The upper Cholesky factor, in place of a symmetric matrix; None if rounding has left it indefinite."""
    try:
        return np.asarray(scipy.linalg.cholesky(A.T, overwrite_a=True, check_finite=False))  # Aᵀ is in LAPACK's order
    except scipy.linalg.LinAlgError:
        return None


def raised_ridge(ridge: float, diagonal: float) -> float:
    """The next larger ridge; raises if even the size of the diagonal was not enough."""
    if not ridge <= diagonal:
        raise LikewiseError("the kernel of these rows cannot be factored in floating point: pass kernel='linear'")
    return 4 * ridge


def factor_raised(A: np.ndarray, ridge: float) -> tuple[np.ndarray, float]:
    """The upper Cholesky factor of A + λI and λ: the given one, or the smallest larger one that rounding needs."""
    while True:
        shifted = A.copy()
        shifted[np.diag_indices(len(A))] += ridge
        factor = upper_factor(shifted)
        if factor is not None:
            return factor, ridge
        diagonal = float(A.diagonal().max())
        ridge = raised_ridge(max(ridge, 1e-9 * diagonal), diagonal)


# -- Leading directions -----------------------------------------------------------------------------------------------


def leading_directions(
    X: Array, weights: np.ndarray | None, width: int, centre: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Largest eigenvalues of XᵀX and an orthonormal V (d, width) in float32 or X's precision, largest first.

    Of dense rows with few columns they are those of the Gram matrix. Else subspace iteration V ← orth(XᵀX V) from a
    Gaussian start, a tenth wider than asked for, then Rayleigh-Ritz: X V has exactly the Gram matrix diag(values), so
    whatever is computed in these directions is exact in them; only their choice is approximate. Weights count as
    repetition of rows. With a `centre` they are those of the rows less it, which sparse rows take off their products.
    """
    if centre is not None and not sp.issparse(X):
        X, centre = X - centre, None
    if not sp.issparse(X) and X.shape[1] <= EXACT_DIRECTIONS:
        values, V = decomposed(gram(X, weights))
        return values[:width], V[:, :width].astype(X.dtype)
    n, d = X.shape
    root = np.ones(n, X.dtype) if weights is None else np.sqrt(weights).astype(X.dtype)
    X = weighted(X, weights)
    transposed = X.T.tocsr() if sp.issparse(X) else X.T

    def images(V: np.ndarray) -> np.ndarray:
        return product(X, V) if centre is None else product(X, V) - np.outer(root, centre @ V)

    def sums(U: np.ndarray) -> np.ndarray:
        return product(transposed, U) if centre is None else product(transposed, U) - np.outer(centre, root @ U)

    wider = min(width + max(10, width // 10), n, d)
    V = np.random.default_rng(_SEED).standard_normal((d, wider), dtype=np.float32).astype(X.dtype)
    for _ in range(_POWER):
        V = _orthonormal(sums(images(V)))
    # Twice is enough for orthogonality to rounding; a column that is short the second time was rounding the first.
    V = _orthonormal(V, float(np.finfo(V.dtype).eps) ** 0.5)
    values, E = _eigenvectors(images(V))
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


def product(X: Array, V: np.ndarray) -> np.ndarray:
    """X V by blocks of rows in threads: SciPy's sparse product is single-threaded, and needs V in C order."""
    blocks, V = row_blocks(X.shape[0]), np.ascontiguousarray(V)
    product = np.empty((X.shape[0], V.shape[1]), dtype=V.dtype)
    for block, rows in zip(blocks, ordered_map(lambda block: X[block] @ V, blocks), strict=True):
        product[block] = rows
    return product


# -- Whitening, after which UᵀU of U = X W is the identity -------------------------------------------------------------


@dataclass(frozen=True)
class WhiteningMap:
    """W = V (Σ² + αI)^(-1/2) for X = U Σ Vᵀ, and related quantities."""

    W: np.ndarray  # (d, k) whitening map; k is the numerical rank of X
    inverse: np.ndarray  # (k, d) its left inverse (Σ² + αI)^(1/2) Vᵀ: the coordinates of a direction of the input space
    shrinkage: np.ndarray  # (k,) diagonal D of UᵀU, 1 without ridge, σ² / (σ² + α) with it
    condition: float  # of X over these directions

    @property
    def rank(self) -> int:
        return self.W.shape[1]

    def penalty(self, A: np.ndarray, B: np.ndarray) -> float:
        """The ridge α(‖XM‖² + ‖MXᵀ‖²) + α²‖M‖² of K = A Bᵀ: the sum of K_ij² (1 - D_i D_j)."""
        D = self.shrinkage[:, None]
        if np.all(D == 1.0):
            return 0.0
        return float(np.sum((A.T @ A) * (B.T @ B)) - np.sum((A.T @ (D * A)) * (B.T @ (D * B))))


def whiten(X: Array, weights: np.ndarray | None = None, alpha: float = 0.0) -> WhiteningMap:
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
    significant = values > values[0] * floor
    values, V = values[significant], V[:, significant]
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
                f"settings={{'whitening_width': {requested}}}: {_ARRAYS} arrays of {shape[1]} x {requested} do not fit "
                f"in memory; expected at most {4 * room}"
            )
        return min(requested, *shape)
    if not sparse or min(shape) <= EXACT_WIDTH:
        return None
    chosen = max(1, min(AUTOMATIC_WIDTH, room))
    log.info("X is sparse, %d x %d: it is reduced to its %d leading directions", *shape, chosen)
    return chosen


def reduced_rows(X: Array, weights: np.ndarray | None, requested: int | None) -> tuple[Array, np.ndarray | None]:
    """Unit rows in their leading directions, scaled to unit length again, and those directions (width, d).

    Rows that need no reduction are returned unchanged, with None.
    """
    width = width_for(X.shape, sp.issparse(X), requested)
    if width is None or width >= min(X.shape):
        return X, None
    _, V = leading_directions(X, weights, width)
    return normalize(product(X, V)), np.ascontiguousarray(V.T)


def truncated_whitening(X: Array, weights: np.ndarray | None, alpha: float, width: int) -> WhiteningMap:
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


# -- Novelty -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NoveltyModel:
    """Rows unlike anything known: the distance to the nearest class, relative to the distance to all rows.

    The relative Mahalanobis distance (Ren et al., 2021) of unit rows in their leading directions: with the covariance S
    within classes and T of all rows, min_k |z - m_k|_S² - |z - m|_T². Without the second term, rows that are far from
    all others, as short texts are, would count as unknown.

    Attributes
    ----------
    map, means : a map (d, q) that whitens rows within classes, and the class means (k, q) after it.
    background : (q + 1, q) mean of all rows after the map, followed by a map that whitens them.
    scale : (2,) relative distances of known rows that were held out: their median, and that below which 95 % are.
    """

    map: np.ndarray
    means: np.ndarray
    background: np.ndarray
    scale: np.ndarray

    @classmethod
    def of(cls, X: Array, codes: np.ndarray, rng: np.random.Generator) -> Self | None:
        """From labelled rows; None for sparse ones, whose map would be large, and where nothing can be held out."""
        if sp.issparse(X):
            return None
        some = sample_by_class(codes, NOVELTY_ROWS, rng)
        X, codes = _unit(np.asarray(X)[some]), np.unique(codes[some], return_inverse=True)[1]
        seen, held = stratified_holdout(codes, HELD_SHARE, rng)
        if not len(held) or len(seen) <= codes.max() + 1:
            return None
        d = X.shape[1]
        V = np.eye(d, dtype=X.dtype)
        if d > NOVELTY_DIRECTIONS:
            V = leading_directions(X[seen], None, NOVELTY_DIRECTIONS)[1]
        model = cls(*_measures(X[seen] @ V, codes[seen], V), np.array([0.0, 1.0]))
        scale = np.quantile(model._distances(X[held]), (0.5, KNOWN_SHARE))
        return replace(model, scale=scale) if np.isfinite(scale).all() and scale[1] > scale[0] else None

    def novelty(self, X: Array) -> np.ndarray:
        """Relative distance of each row to the nearest class: 0 at the median of known rows, unknown above 1."""
        middle, limit = self.scale
        return (self._distances(_unit(X)) - middle) / (limit - middle)

    def _distances(self, X: np.ndarray) -> np.ndarray:
        Z = (X @ self.map.astype(X.dtype)).astype(np.float64)
        M, (mean, *whitener) = self.means.astype(np.float64), self.background.astype(np.float64)
        to_class = np.einsum("nq,nq->n", Z, Z)[:, None] + np.einsum("kq,kq->k", M, M) - 2 * Z @ M.T
        to_all = (Z - mean) @ np.asarray(whitener)
        return np.asarray(to_class.min(axis=1) - np.einsum("nq,nq->n", to_all, to_all))


def _unit(X: Array) -> np.ndarray:
    X = np.asarray(dense(X))
    return np.asarray(normalize(X if X.dtype.kind == "f" else X.astype(np.float32)))


def _measures(Z: np.ndarray, codes: np.ndarray, V: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Map, class means and background from rows Z in the directions V."""
    means = np.stack([Z[codes == code].mean(axis=0, dtype=np.float64) for code in np.unique(codes)])
    W = shrunk_whitener(Z - means[codes], NOVELTY_SHRINKAGE)
    A = Z @ W
    mean = A.mean(axis=0)
    # Shrunk in the units of the rows, as the covariance within classes is, then brought into whitened coordinates.
    T = np.linalg.solve(W, shrunk_whitener(Z - Z.mean(axis=0), NOVELTY_SHRINKAGE))
    parts = (V @ W, means @ W, np.vstack([mean, T]))
    return tuple(np.asarray(part, dtype=np.float32) for part in parts)  # type: ignore[return-value]
