"""The iterations of the paper in whitened coordinates, M = W K Wᵀ, K = A Bᵀ, B orthonormal, and their regressions.

A step solves one regression on the scores of pairs in closed form: A ← Uᵀ clamp(U A (U B)ᵀ) U B. It is on all pairs, or
on part of them: the Gaussian and sampled sketches of the paper, and landmarks. For the whole matrix B is the identity
and a step is an iteration (Alg. 1); for low rank the two sides take turns (Alg. 3). A step majorises the squared hinge
by the regression and minimises that, so the objective never rises.
"""

import logging
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import NamedTuple, Protocol

import numpy as np
import scipy.linalg
from numpy.random import Generator

from likewise.errors import LikewiseError
from likewise.learn.maths.engine import Columns, Engine, MemoryEngine
from likewise.learn.maths.labels import LabelTarget, draw_landmarks
from likewise.learn.maths.passes import PassColumns
from likewise.learn.maths.scatter import WhiteningMap
from likewise.utils.arrays import dense
from likewise.utils.progress import Advance, progress_bar
from likewise.utils.threads import single_threaded_blas

log = logging.getLogger("likewise")


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


class Step(NamedTuple):
    """The new A, and the objective before the step."""

    A: np.ndarray
    objective: float


class Iterate(NamedTuple):
    """Factors after an iteration, and the objective before it."""

    A: np.ndarray
    B: np.ndarray
    objective: float


class LeastSquares(Protocol):
    """A regression on the scores of pairs that knows its closed-form step."""

    def step(self, A: np.ndarray, B: np.ndarray) -> Step:
        """A ← Uᵀ clamp(U A (U B)ᵀ) U B, or an estimate of it."""


# -- All pairs ---------------------------------------------------------------------------------------------------------


class AllPairs:
    """The regression on all pairs of rows, exact; `symmetric` says that K is, as the whole matrix is from labels."""

    def __init__(self, engine: Engine, whitening: WhiteningMap, target: LabelTarget, symmetric: bool = False) -> None:
        self.engine, self.whitening, self.target, self.symmetric = engine, whitening, target, symmetric
        self._gallery: tuple[np.ndarray, Columns] | None = None  # the last B, and U B

    def step(self, A: np.ndarray, B: np.ndarray) -> Step:
        """One exact step, written with the residual E = S - clamp(S): UᵀYUB = D A (BᵀDB) - Uᵀ E U B, D = UᵀU."""
        W, D = self.whitening.W, self.whitening.shrinkage[:, None]
        UA, self._gallery = self._rows(A), None  # one gallery at a time
        gallery = self.engine.gallery(W @ B)
        L, is_projected = (W @ A, False) if UA is None else (UA, True)
        E, loss = self.engine.sweep(L, gallery, self.target, projected=is_projected, symmetric=self.symmetric)
        self._gallery = (B, gallery)
        new = D * A @ (B.T @ (D * B)) - W.T @ E
        return Step(new, loss + self.whitening.penalty(A, B))

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

    def step(self, A: np.ndarray, B: np.ndarray) -> Step:
        """A ← K* B; the objective is ‖Y‖² - 2 ⟨K, K*⟩ + ‖K‖², ridge included."""
        new = (self.F * self.weights) @ (self.F.T @ B)
        objective = self.sum_of_squares - 2 * float(np.sum(A * new)) + float(np.sum((A.T @ A) * (B.T @ B)))
        return Step(new, max(objective, 0.0))


# -- Part of the pairs -------------------------------------------------------------------------------------------------


@dataclass
class _Compressed:
    """What all sketches share: the rows, m = `size`, and whether both sides are compressed, for the whole matrix."""

    engine: Engine
    whitening: WhiteningMap
    target: LabelTarget
    size: int
    rng: Generator
    both_sides: bool = False


class SampledPairs(_Compressed):
    """SLR-C: m rows drawn again for each step represent all rows (Algs. 2 and 3 with Remark 3's sampling matrix)."""

    def step(self, A: np.ndarray, B: np.ndarray) -> Step:
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
        return Step(new, scale * column_scale * loss + self.whitening.penalty(A, B))

    def _draw(self) -> tuple[MemoryEngine, float]:
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

    engine: MemoryEngine

    def step(self, A: np.ndarray, B: np.ndarray) -> Step:
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
        return Step(new, loss + self.whitening.penalty(A, B))

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

    def step(self, A: np.ndarray, B: np.ndarray) -> Step:
        """A = UᵀY D V (VᵀDV)⁻¹ (BᵀKB), V the landmarks' rows of U B, D their weights, K = UᵀU; as a residual step."""
        W, D = self.whitening.W, self.whitening.shrinkage[:, None]
        V = self.landmarks.project(W @ B)
        gallery = PassColumns(V, self.landmarks.starts, self.weights)
        BKB = B.T @ (D * B)
        mix = _solve(gallery.linear[0], BKB, len(V))
        E, loss = self.engine.sweep(W @ A, gallery, self.target)
        new = D * A @ BKB - W.T @ E @ mix
        return Step(new, loss + self.whitening.penalty(A, B))


_SINGULAR = 1e-6  # relative eigenvalue below which UᵀU is rounding in float32


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
    if name == "gaussian" and not engine.in_memory:
        raise LikewiseError(
            "compress='gaussian' mixes all rows by a random n x m matrix and needs them in memory: "
            "compress='landmarks' runs from disk and on a cluster"
        )
    sketches: dict[str, Callable[..., LeastSquares]]
    sketches = {"gaussian": GaussianSketch, "sample": SampledPairs, "landmarks": LandmarkPairs}
    return sketches[name](engine, whitening, target, size, rng, options.rank is None)


def landmark_weights(engine: Engine, chosen: np.ndarray) -> np.ndarray:
    """The weight that each landmark represents: that of its class, divided among the landmarks of the class."""
    weights = np.ones(engine.shape[0]) if engine.weights is None else engine.weights
    chosen = np.sort(chosen)
    classes = engine.codes[chosen]
    part = np.bincount(classes, weights[chosen], minlength=engine.n_classes)
    return weights[chosen] * (engine.class_sizes()[classes] / part[classes])


def _normal_matrix(rows: MemoryEngine, whitening: WhiteningMap, scale: float) -> tuple[np.ndarray, np.ndarray]:
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


# -- The iterations ---------------------------------------------------------------------------------------------------


def whole(problem: LeastSquares, K: np.ndarray, B: np.ndarray) -> Iterator[Iterate]:
    """Algorithm 1: K ← Uᵀ clamp(U K Uᵀ) U; B stays the identity."""
    while True:
        K, objective = problem.step(K, B)
        yield Iterate(K, B, objective)


def alternating(problem: LeastSquares, A: np.ndarray, B: np.ndarray) -> Iterator[Iterate]:
    """Algorithm 3: each side in turn is solved for while the other is held fixed."""
    while True:
        A, objective = problem.step(A, B)
        A, B = turn(A, B)
        A, B = turn(problem.step(A, B).A, B)
        yield Iterate(A, B, objective)


def turn(A: np.ndarray, B: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Exchange the sides without changing K: A = Q T makes K = Q (B Tᵀ)ᵀ, so Kᵀ has the factors (B Tᵀ, Q)."""
    Q, T = scipy.linalg.qr(A, mode="economic", check_finite=False)
    return B @ T.T, Q


def balanced(A: np.ndarray, B: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The factors P √s and Q √s of K = A Bᵀ = P s Qᵀ: the ones that depend on K alone, but for their signs."""
    Q, R = scipy.linalg.qr(A, mode="economic", check_finite=False)
    U, s, Vt = scipy.linalg.svd(R, check_finite=False)
    s[s < s[0] * len(A) * np.finfo(float).eps] = 0.0
    return Q @ (U * np.sqrt(s)), B @ (Vt.T * np.sqrt(s))


# -- The loop ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Result:
    """Factors after the last full iteration, and for each iteration the loss it started from and its seconds."""

    factors: Factors
    history: list[dict[str, float]] = field(default_factory=list)
    interrupted: bool = False

    @property
    def n_iter(self) -> int:
        return len(self.history)

    def converged(self, tol: float) -> bool:
        """Whether the last iteration lowered the loss by no more than the share `tol`; never for tol = 0."""
        if not tol or self.n_iter < 2:
            return False
        before, after = self.history[-2]["loss"], self.history[-1]["loss"]
        return before - after <= tol * before


def run(
    iterations: Iterator[Iterate],
    result: Result,
    max_iter: int,
    *,
    tol: float = 0.0,
    n_pairs: float = 1.0,
    on_iteration: Callable[[Result], object] = lambda result: None,
) -> Result:
    """Go on from a result up to `max_iter` iterations, until the loss falls by no more than the share `tol`, or Ctrl-C.

    `n_pairs` makes an objective a loss per pair. `on_iteration` is called with the result after each iteration.
    """
    began = time.perf_counter()
    left = 0 if result.converged(tol) else max_iter - result.n_iter
    # One BLAS thread between passes too: after a threaded product its workers spin on and slow the next pass.
    with single_threaded_blas():
        try:
            for iterate in islice(iterations, left):
                now = time.perf_counter()
                entry = {"loss": iterate.objective / n_pairs, "seconds": now - began}
                result, began = Result(Factors(iterate.A, iterate.B), [*result.history, entry]), now
                on_iteration(result)
                if result.converged(tol):
                    break
        except KeyboardInterrupt:
            result = replace(result, interrupted=True)
    return result


# -- Where the iterations start ----------------------------------------------------------------------------------------


def label_factors(engine: Engine, whitening: WhiteningMap, target: LabelTarget) -> tuple[np.ndarray, np.ndarray]:
    """F and w with UᵀYU = F diag(w) Fᵀ for the label target Y = δ2 11ᵀ + (δ1 - δ2) ZZᵀ: class sums are all it takes."""
    F = engine.class_sums(whitening.W).T
    if target.other:
        F = np.hstack([F, F.sum(axis=1, keepdims=True)])
    weights = np.full(F.shape[1], target.same - target.other)
    weights[engine.n_classes :] = target.other
    return F, weights


def squares_of_target(engine: Engine, target: LabelTarget) -> float:
    """‖Y‖² of the label target, by the sizes of the classes."""
    size = engine.class_sizes()
    same = float(size @ size)
    return target.same**2 * same + target.other**2 * (float(size.sum()) ** 2 - same)


def fixed_start(
    F: np.ndarray, weights: np.ndarray, whitening: WhiteningMap, rank: int | None, rng: Generator
) -> Factors:
    """K = F diag(w) Fᵀ, the solution for the label target (Eqn. 3).

    For low rank its leading eigenvectors, through a thin QR of F, completed at random if it has fewer than `rank`.
    """
    if rank is None:
        return Factors((F * weights) @ F.T, np.eye(whitening.rank))
    Q, T = np.linalg.qr(F)
    values, vectors = scipy.linalg.eigh((T * weights) @ T.T)
    largest = np.argsort(-np.abs(values), kind="stable")[:rank]
    there = np.abs(values[largest]) > np.abs(values).max() * 1e-12
    B = completed(Q @ vectors[:, largest[there]], whitening, rank, rng)
    return Factors((F * weights) @ (F.T @ B), B)


def paper_start(engine: Engine, whitening: WhiteningMap, rank: int | None, rng: Generator) -> Factors:
    """M = I for the whole matrix (Alg. 1); a random subset of the rows on both sides for low rank (Alg. 3)."""
    if rank is None:
        return Factors(whitening.inverse @ whitening.inverse.T, np.eye(whitening.rank))
    chosen = rng.choice(engine.shape[0], min(rank, engine.shape[0]), replace=False)
    rows = engine.take(chosen).rows(slice(None))
    L = whitening.inverse @ np.asarray(dense(rows).T, dtype=np.float64)
    B, T = np.linalg.qr(np.hstack([L, rng.standard_normal((whitening.rank, rank - L.shape[1]))]))
    return Factors(np.hstack([L, np.zeros((whitening.rank, rank - L.shape[1]))]) @ T.T, B)


def completed(B: np.ndarray, whitening: WhiteningMap, rank: int, rng: Generator) -> np.ndarray:
    """B with random columns added up to `rank`, orthonormal.

    They are drawn in the input space, so that they do not depend on the choice of eigenvectors in the whitening.
    """
    if B.shape[1] == rank:
        return B
    drawn = whitening.inverse @ rng.standard_normal((whitening.W.shape[0], rank - B.shape[1]))
    for _ in range(2):  # twice is enough for orthogonality to rounding
        drawn, _ = np.linalg.qr(drawn - B @ (B.T @ drawn))
    return np.hstack([B, drawn])


# -- From labelled rows to M ------------------------------------------------------------------------------------------


class SavedIterations(Protocol):
    """Stored iterations, so that a fit that was stopped can be resumed."""

    def begin(self, whitening: WhiteningMap) -> None:
        """The rows are whitened, and nothing is drawn but the start."""

    def resume(self, start: Factors) -> Result:
        """The iterations stored so far; `start` and none if there are none."""

    def save(self, result: Result) -> None:
        """Store the last iteration."""


@dataclass(frozen=True)
class Solution:
    """M = L Rᵀ, both (d, r)."""

    L: np.ndarray
    R: np.ndarray
    rank: int
    condition: float
    result: Result

    def components(self) -> tuple[np.ndarray, np.ndarray]:
        """Maps of the query and the gallery side, (r, d); each gallery component has its largest entry positive."""
        largest = np.take_along_axis(self.R, np.abs(self.R).argmax(axis=0)[None], axis=0)
        signs = np.where(largest < 0, -1.0, 1.0)
        return (self.L * signs).T, (self.R * signs).T


def solve(
    engine: Engine, target: LabelTarget, options: SolverOptions, rng: Generator, saved: SavedIterations | None = None
) -> Solution:
    """M from labelled rows. A fixed target on all pairs has its solution in closed form; all else iterates."""
    if options.compress is not None and options.compress_size is None:
        raise LikewiseError(f"compress={options.compress!r} needs compress_size, the number of rows to compress to")
    whitening = engine.whiten(options.alpha)
    usable, rank = whitening.rank, None
    if options.rank is not None:
        rank = usable = min(options.rank, whitening.rank)
        if rank < options.rank:
            log.info("rank=%d is lowered to %d, the rank of X", options.rank, rank)
    factors = label_factors(engine, whitening, target)
    closed_form = not target.adaptive and options.compress is None and (rank is None or options.init == "fixed")
    if closed_form or options.init == "fixed":
        start = fixed_start(*factors, whitening, rank, rng)
    else:
        start = paper_start(engine, whitening, rank, rng)
    result = Result(start)
    if not closed_form:
        if saved is not None:
            saved.begin(whitening)
        problem: LeastSquares = AllPairs(engine, whitening, target, symmetric=rank is None)
        if options.compress is not None:
            problem = make_sketch(options, usable, engine, whitening, target, rng)
        elif not target.adaptive:
            problem = FixedTarget(*factors, squares_of_target(engine, target))
        result = result if saved is None else saved.resume(start)  # with the generator as it was
        result = _iterated(engine, problem, options, result, saved)
    A, B = result.factors if rank is None else balanced(*result.factors)
    return Solution(whitening.W @ A, whitening.W @ B, usable, whitening.condition, result)


def _iterated(
    engine: Engine, problem: LeastSquares, options: SolverOptions, result: Result, saved: SavedIterations | None
) -> Result:
    iterations, n_steps = (whole, 1) if options.rank is None else (alternating, 2)
    total = (options.max_iter - result.n_iter) * engine.n_blocks * n_steps
    rows = float(engine.shape[0] if engine.weights is None else engine.weights.sum())
    silent: Advance = lambda steps=1, text=None: None  # noqa: E731
    with progress_bar("learning", total) if options.verbose else nullcontext(silent) as advance:
        engine.on_block = advance

        def note(result: Result) -> None:
            if saved is not None:
                saved.save(result)
            advance(0, f"learning, loss {result.history[-1]['loss']:.4g}")

        steps = iterations(problem, *result.factors)
        return run(steps, result, options.max_iter, tol=options.tol, n_pairs=rows**2, on_iteration=note)
