"""The regressions on the scores of pairs, each with its closed-form step.

On all pairs, or on part of them: the Gaussian and sampled sketches of the paper, and landmarks. A step solves one
regression: A ← Uᵀ clamp(U A (U B)ᵀ) U B.
"""

import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import scipy.linalg
from numpy.random import Generator

from likewise.errors import LikewiseError
from likewise.learn.maths.engine import Columns, Engine, EngineInMemory
from likewise.learn.maths.labels import LabelTarget, draw_landmarks
from likewise.learn.maths.passes import PassColumns
from likewise.learn.maths.scatter import WhiteningMap


@dataclass(frozen=True)
class SolverOptions:
    """The parameters of `SLR` that its solver needs."""

    rank: int | None
    max_iter: int
    tol: float
    alpha: float
    compress: str | None
    compress_size: int | None
    init: str
    verbose: int


class Factors(NamedTuple):
    """Factors of K = A Bᵀ, B orthonormal."""

    A: np.ndarray
    B: np.ndarray


class ClosedFormStep(NamedTuple):
    """The new A, the objective before the step, and a lower bound on how far the step lowers it."""

    A: np.ndarray
    objective: float
    decrease: float


class Iterate(NamedTuple):
    """Factors after an iteration, the objective before it, and an upper bound on the objective after it."""

    A: np.ndarray
    B: np.ndarray
    objective: float
    bound: float


class LeastSquares(Protocol):
    """A regression on the scores of pairs that knows its closed-form step."""

    def step(self, A: np.ndarray, B: np.ndarray) -> ClosedFormStep:
        """A ← Uᵀ clamp(U A (U B)ᵀ) U B, or an estimate of it."""


# -- All pairs ---------------------------------------------------------------------------------------------------------


class AllPairs:
    """The regression on all pairs of rows, exact; `symmetric` says that K is, as the whole matrix is from labels."""

    def __init__(self, engine: Engine, whitening: WhiteningMap, target: LabelTarget, symmetric: bool = False) -> None:
        self.engine, self.whitening, self.target, self.symmetric = engine, whitening, target, symmetric
        self._gallery: tuple[np.ndarray, Columns] | None = None  # the last B, and U B

    def step(self, A: np.ndarray, B: np.ndarray) -> ClosedFormStep:
        """One exact step, written with the residual E = S - clamp(S): UᵀYUB = D A (BᵀDB) - Uᵀ E U B, D = UᵀU."""
        W, D = self.whitening.W, self.whitening.shrinkage[:, None]
        UA, self._gallery = self._rows(A), None  # one gallery at a time
        gallery = self.engine.gallery(W @ B)
        L, is_projected = (W @ A, False) if UA is None else (UA, True)
        E, loss = self.engine.sweep(L, gallery, self.target, projected=is_projected, symmetric=self.symmetric)
        self._gallery = (B, gallery)
        new = D * A @ (B.T @ (D * B)) - W.T @ E
        return ClosedFormStep(new, loss + self.whitening.penalty(A, B), float(np.sum((new - A) ** 2)))

    def _rows(self, A: np.ndarray) -> np.ndarray | None:
        """U A without a product with X, where A is a mixture of the last B: after a turn of the factors it is."""
        if self._gallery is None:
            return None
        B, gallery = self._gallery
        T = B.T @ A
        if not np.allclose(B @ T, A, rtol=0.0, atol=1e-12 * max(float(np.abs(A).max()), 1e-300)):
            return None
        return self.engine.reuse_projection(gallery, T)


class FixedTarget:
    """The regression on a fixed label target, K* = UᵀYU = F diag(w) Fᵀ: subspace iteration, no pair is visited."""

    def __init__(self, F: np.ndarray, weights: np.ndarray, sum_of_squares: float) -> None:
        self.F, self.weights, self.sum_of_squares = F, weights, sum_of_squares

    def step(self, A: np.ndarray, B: np.ndarray) -> ClosedFormStep:
        """A ← K* B; the objective is ‖Y‖² - 2 ⟨K, K*⟩ + ‖K‖², ridge included."""
        new = (self.F * self.weights) @ (self.F.T @ B)
        objective = self.sum_of_squares - 2 * float(np.sum(A * new)) + float(np.sum((A.T @ A) * (B.T @ B)))
        return ClosedFormStep(new, max(objective, 0.0), float(np.sum((new - A) ** 2)))


# -- Part of the pairs -------------------------------------------------------------------------------------------------


@dataclass
class _Compressed:
    """What all sketches share: the rows, m = `size`, and whether both sides are compressed (the whole matrix)."""

    engine: Engine
    whitening: WhiteningMap
    target: LabelTarget
    size: int
    rng: Generator
    both_sides: bool = False


class SampledPairs(_Compressed):
    """SLR-C: m rows drawn again for each step represent all rows (Algs. 2 and 3 with Remark 3's sampling matrix)."""

    def step(self, A: np.ndarray, B: np.ndarray) -> ClosedFormStep:
        """Least squares on sampled rows; for the whole matrix the columns are sampled too."""
        rows, scale = self._draw()
        W = self.whitening.W
        H, _ = _normal_matrix(rows, self.whitening, scale)
        if self.both_sides:
            columns, column_scale = self._draw()
            normal, U = _normal_matrix(columns, self.whitening, column_scale)
            gallery: Columns = PassColumns(U, columns.starts)
            mix = column_scale * _solve(normal, np.eye(len(normal)), self.size)
        else:
            gallery, column_scale = self.engine.gallery(W @ B), 1.0
            mix = np.eye(B.shape[1])
        E, loss = rows.sweep(W @ A, gallery, self.target)
        fitted = (H - _ridge(self.whitening)) @ A @ gallery.linear[0]
        new = _solve(H, (fitted - scale * (W.T @ E)) @ mix, self.size)
        return ClosedFormStep(new, scale * column_scale * loss + self.whitening.penalty(A, B), 0.0)

    def _draw(self) -> tuple[EngineInMemory, float]:
        """m rows drawn uniformly (by weight) with replacement, and the weight that each represents."""
        n, weights = self.engine.shape[0], self.engine.weights
        total = float(n if weights is None else weights.sum())
        chosen = self.rng.choice(n, self.size, p=None if weights is None else weights / total)
        rows = self.engine.take(chosen)
        rows.weights = None  # the draw accounts for them
        return rows, total / self.size


@dataclass
class GaussianSketch(_Compressed):
    """SLR-G: targets of all pairs, compressed to m rows by a Gaussian matrix drawn again for each step.

    It saves no time: the targets of all pairs must be clamped before they are mixed.
    """

    engine: EngineInMemory

    def step(self, A: np.ndarray, B: np.ndarray) -> ClosedFormStep:
        """Least squares on m random mixtures of the rows; for the whole matrix the columns are mixed too."""
        W, ridge = self.whitening.W, _ridge(self.whitening)
        gallery = self.engine.gallery(W @ B)
        if self.both_sides:
            _, S2, S2U = self._draw()
            back = S2 @ _solve(S2U.T @ S2U + ridge, S2U.T, self.size).T
            gallery = PassColumns(gallery.G, gallery.starts, gallery.weights, back)
        root, S, SU = self._draw()
        wanted = slice(B.shape[1], None) if self.both_sides else slice(None)
        E, loss = self.engine.sweep(
            W @ A, gallery, self.target, lambda _, T, block: S[block].T @ (T[:, wanted] / root[block] ** 2)
        )
        fitted = SU @ A @ gallery.linear[0][:, wanted]
        new = _solve(SU.T @ SU + ridge, SU.T @ (fitted - E), self.size)
        return ClosedFormStep(new, loss + self.whitening.penalty(A, B), 0.0)

    def _draw(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Square roots of the row weights, a normalised Gaussian n x m matrix with them on its rows, and SᵀU."""
        n, weights = self.engine.shape[0], self.engine.weights
        root = np.ones((n, 1)) if weights is None else np.sqrt(weights)[:, None]
        S = self.rng.standard_normal((n, self.size), dtype=np.float64) / np.sqrt(self.size)
        S = (S * root).astype(self.engine.dtype)
        U = self.engine.project(self.whitening.W)
        return root, S, (S.T @ U).astype(np.float64)


@dataclass
class LandmarkPairs(_Compressed):
    """Every row against m gallery items, drawn once and by class, each of class c representing n_c / m_c of them."""

    def __post_init__(self) -> None:
        engine = self.engine
        chosen = draw_landmarks(engine.codes, engine.n_classes, self.size, self.rng)
        self.landmarks = engine.take(chosen)
        self.weights = landmark_weights(engine, chosen)
        self.landmarks.weights = None

    def step(self, A: np.ndarray, B: np.ndarray) -> ClosedFormStep:
        """A = UᵀY D V (VᵀDV)⁻¹ (BᵀKB), V the landmarks' rows of U B, D their weights, K = UᵀU; as a residual step."""
        W, D = self.whitening.W, self.whitening.shrinkage[:, None]
        V = self.landmarks.project(W @ B)
        gallery = PassColumns(V, self.landmarks.starts, self.weights)
        BKB = B.T @ (D * B)
        mix = _solve(gallery.linear[0], BKB, len(V))
        E, loss = self.engine.sweep(W @ A, gallery, self.target)
        new = D * A @ BKB - W.T @ E @ mix
        return ClosedFormStep(new, loss + self.whitening.penalty(A, B), 0.0)


_SINGULAR = 1e-6  # relative eigenvalue below which UᵀU is rounding in float32

_SKETCHES: dict[str, Callable[..., LeastSquares]] = {
    "gaussian": GaussianSketch,
    "sample": SampledPairs,
    "landmarks": LandmarkPairs,
}


def make_sketch(
    options: SolverOptions, rank: int, engine: Engine, whitening: WhiteningMap, target: LabelTarget, rng: Generator
) -> LeastSquares:
    """The regression compressed to `compress_size` rows, on both sides for the whole matrix."""
    name, size = str(options.compress), int(options.compress_size or 0)
    if size < rank:
        raise LikewiseError(
            f"compress_size={size} is below rank={rank}: a sample must have at least as many items as the rank"
        )
    size = min(size, engine.shape[0])
    if name == "sample" and size < whitening.rank:
        warnings.warn(
            f"compress_size={size} is below the rank of X, {whitening.rank}: each step interpolates its sample of rows",
            stacklevel=6,
        )
    if name == "gaussian" and not hasattr(engine, "project"):
        raise LikewiseError(
            "compress='gaussian' mixes all rows by a random n x m matrix and needs them in memory: "
            "compress='landmarks' runs from disk and on a cluster"
        )
    return _SKETCHES[name](engine, whitening, target, size, rng, options.rank is None)


def landmark_weights(engine: Engine, chosen: np.ndarray) -> np.ndarray:
    """The weight that each landmark represents: that of its class, divided among the landmarks of the class."""
    weights = np.ones(engine.shape[0]) if engine.weights is None else engine.weights
    chosen = np.sort(chosen)
    classes = engine.codes[chosen]
    whole = np.bincount(engine.codes, weights, minlength=engine.n_classes)
    part = np.bincount(classes, weights[chosen], minlength=engine.n_classes)
    return weights[chosen] * (whole[classes] / part[classes])


def _normal_matrix(rows: EngineInMemory, whitening: WhiteningMap, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """UᵀU of sampled rows, scaled up, with the ridge; and those rows of U."""
    U = rows.project(whitening.W)
    return scale * (U.T.astype(np.float64) @ U) + _ridge(whitening), U


def _ridge(whitening: WhiteningMap) -> np.ndarray:
    """α WᵀW = I - D."""
    return np.diag(1.0 - whitening.shrinkage)


def _solve(H: np.ndarray, right: np.ndarray, size: int) -> np.ndarray:
    """H⁺ right for a positive semi-definite H, which is singular when its rows are too few or miss a direction."""
    if size >= len(H):
        with suppress(np.linalg.LinAlgError):
            factor = scipy.linalg.cholesky(H, check_finite=False)
            pivots = np.diagonal(factor)
            if pivots.min() ** 2 > _SINGULAR * pivots.max() ** 2:
                return scipy.linalg.cho_solve((factor, False), right, check_finite=False)
    values, vectors = scipy.linalg.eigh(H, driver="evd", check_finite=False)
    significant = values > values[-1] * _SINGULAR
    values, vectors = values[significant], vectors[:, significant]
    return (vectors / values) @ (vectors.T @ right)
