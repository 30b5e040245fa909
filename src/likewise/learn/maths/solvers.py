"""The iterations of the paper in whitened coordinates: M = W K Wᵀ, K = A Bᵀ, B orthonormal.

A step solves one regression in closed form: A ← Uᵀ clamp(U A (U B)ᵀ) U B. For the whole matrix B is the identity and a
step is an iteration (Alg. 1); for low rank the two sides take turns (Alg. 3). A step majorises the squared hinge by the
regression and minimises that, so the objective never rises.
"""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Protocol

import numpy as np
import scipy.linalg
from numpy.random import Generator

from likewise.errors import LikewiseError
from likewise.learn.maths.engine import Engine
from likewise.learn.maths.labels import LabelTarget
from likewise.learn.maths.regressions import (
    AllPairs,
    Factors,
    FixedTarget,
    Iterate,
    LeastSquares,
    SolverOptions,
    make_sketch,
)  # fmt: skip
from likewise.learn.maths.scatter import WhiteningMap
from likewise.utils.arrays import dense
from likewise.utils.progress import Advance, progress_bar
from likewise.utils.threads import single_threaded_blas

log = logging.getLogger("likewise")


# -- The iterations ---------------------------------------------------------------------------------------------------


def whole(problem: LeastSquares, K: np.ndarray, B: np.ndarray) -> Iterator[Iterate]:
    """Algorithm 1: K ← Uᵀ clamp(U K Uᵀ) U; B stays the identity."""
    while True:
        K, objective, decrease = problem.step(K, B)
        yield Iterate(K, B, objective, objective - decrease)


def alternating(problem: LeastSquares, A: np.ndarray, B: np.ndarray) -> Iterator[Iterate]:
    """Algorithm 3: each side in turn is solved for while the other is held fixed."""
    while True:
        A, objective, _ = problem.step(A, B)
        A, B = turn(A, B)
        A, halfway, decrease = problem.step(A, B)
        A, B = turn(A, B)
        yield Iterate(A, B, objective, halfway - decrease)


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
    start: Factors,
    max_iter: int,
    *,
    tol: float = 0.0,
    n_pairs: float = 1.0,
    history: Sequence[dict[str, float]] = (),
    on_iteration: Callable[[Result], object] = lambda result: None,
) -> Result:
    """Iterate until `history` has `max_iter` entries, the loss falls by no more than the share `tol`, or Ctrl-C.

    `start` is where the iterations begin, `history` what a run before has done, and `n_pairs` what makes an objective
    a loss per pair. `on_iteration` is called with the result so far after each iteration.
    """
    result, began = Result(start, list(history)), time.perf_counter()
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


@contextmanager
def learning_bar(steps: int, enabled: bool) -> Iterator[tuple[Advance, Callable[[Result], None]]]:
    """A progress bar of `steps` blocks, if enabled: what advances it, and what shows the loss after an iteration."""
    if not enabled:
        yield lambda steps=1, text=None: None, lambda result: None
        return
    with progress_bar("learning", steps) as advance:
        yield advance, lambda result: advance(0, f"learning, loss {result.history[-1]['loss']:.4g}")


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
    size = np.bincount(engine.codes, engine.weights, minlength=engine.n_classes)
    same = float(size @ size)
    return target.same**2 * same + target.other**2 * (float(size.sum()) ** 2 - same)


def fixed_start(
    F: np.ndarray, weights: np.ndarray, whitening: WhiteningMap, rank: int | None, rng: Generator
) -> Factors:
    """K = F diag(w) Fᵀ, the solution for the label target (Eqn. 3).

    For low rank its leading eigenvectors, completed at random if it has fewer than `rank`.
    """
    if rank is None:
        return Factors((F * weights) @ F.T, np.eye(whitening.rank))
    B = completed(_leading(F, weights, rank), whitening, rank, rng)
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


def _leading(F: np.ndarray, weights: np.ndarray, rank: int) -> np.ndarray:
    """Eigenvectors of F diag(weights) Fᵀ that belong to its largest eigenvalues in size, through a thin QR of F."""
    Q, T = np.linalg.qr(F)
    values, vectors = scipy.linalg.eigh((T * weights) @ T.T)
    largest = np.argsort(-np.abs(values), kind="stable")[:rank]
    there = np.abs(values[largest]) > np.abs(values).max() * 1e-12
    return Q @ vectors[:, largest[there]]


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
    usable = lowered_rank(options.rank, whitening.rank)
    rank = None if options.rank is None else usable
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
    iterations = whole if options.rank is None else alternating
    steps = (options.max_iter - result.n_iter) * engine.n_blocks * (1 if options.rank is None else 2)
    rows = float(engine.shape[0] if engine.weights is None else engine.weights.sum())
    with learning_bar(steps, bool(options.verbose)) as (engine.on_block, show):

        def note(result: Result) -> None:
            if saved is not None:
                saved.save(result)
            show(result)

        return run(
            iterations(problem, *result.factors),
            result.factors,
            options.max_iter,
            tol=options.tol,
            n_pairs=rows**2,
            history=result.history,
            on_iteration=note,
        )


def lowered_rank(rank: int | None, available: int) -> int:
    """`rank`, at most that of X, which is `available`; None is that of X."""
    if rank is None:
        return available
    if available < rank:
        log.info("rank=%d is lowered to %d, the rank of X", rank, available)
    return min(rank, available)
