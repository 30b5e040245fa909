"""From what was taught to M: whiten both sides, take the moment, iterate; the ridge is towards zero or a prior."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg

from likewise.core.initialization import Start
from likewise.core.sampling import generator
from likewise.core.solvers import balanced
from likewise.core.targets import LabelTarget
from likewise.core.whitening import Whitening, whiten
from likewise.errors import LikewiseError
from likewise.supervision.learner import Learner
from likewise.supervision.lessons import Given, Lesson, lesson
from likewise.supervision.regression import PairRegression, Side, iterations, moment, started
from likewise.utils.threads import row_blocks

__all__ = ["Learned", "Prepared", "learn", "learn_from_prior", "problem_of"]

log = logging.getLogger("likewise")


@dataclass
class Learned:
    """M = scale · I + L Rᵀ, L and R of shapes (d_q, r) and (d_g, r); scale is 0 without a prior."""

    L: np.ndarray
    R: np.ndarray
    scale: float
    rank: int
    condition: float

    def matrix(self) -> np.ndarray:
        """M itself, (d_q, d_g)."""
        M = self.L @ self.R.T
        if self.scale:
            M[np.diag_indices_from(M)] += self.scale
        return M

    def factors(self) -> tuple[np.ndarray, np.ndarray]:
        """Two factors of M; with a prior those of its singular value decomposition, as wide as the data."""
        if not self.scale:
            return self.L, self.R
        P, s, Qt = scipy.linalg.svd(self.matrix(), check_finite=False)
        return P * np.sqrt(s), Qt.T * np.sqrt(s)


@dataclass
class _Watched:
    """What `SLR._run` asks of an engine: how many blocks a step has, and whom to tell."""

    n_blocks: int
    on_block: Callable[..., None]


@dataclass(frozen=True)
class Prepared:
    """What does not depend on the strength of a prior: pairs with their raw scores, whitenings, and the moment.

    The whitenings have next to no ridge; others follow from them by scaling their directions.
    """

    given: Given
    target: LabelTarget
    scale: float
    lesson: Lesson
    W_q: Whitening
    W_g: Whitening
    K: np.ndarray

    @classmethod
    def of(cls, given: Given, target: LabelTarget, W_g: Whitening | None = None) -> Prepared:
        """Whiten both sides, unless the gallery's whitening is known already, and take the gradient at the prior."""
        scale = prior_scale(given, target)
        known = lesson(given, target)
        W_q = whiten(given.X, given.weights, _NO_RIDGE)
        if W_g is None:
            W_g = W_q if given.one_set else whiten(given.gallery, None, _NO_RIDGE)
        problem = problem_of(given, known, W_q, W_g, scale)
        known = replace(known, pairs=problem.pairs)
        return cls(
            given, target, scale, known, W_q, W_g, moment(problem.queries, problem.gallery, problem.pairs, False)
        )

    def at(self, strength: float) -> tuple[PairRegression, np.ndarray]:
        """The regression with a ridge of this strength, and its moment."""
        (W_q, s_q), (W_g, s_g) = _ridged(self.W_q, strength), _ridged(self.W_g, strength)
        return problem_of(self.given, self.lesson, W_q, W_g, 0.0), s_q[:, None] * self.K * s_g


_NO_RIDGE = 1e-12  # enough for the directions of a whitening to stay the eigenvectors of the Gram matrix


def _ridged(base: Whitening, alpha: float) -> tuple[Whitening, np.ndarray]:
    """The whitening with another ridge, and by how much its directions are shorter."""
    lengths = np.linalg.norm(base.inverse, axis=1)
    values = lengths**2 * base.keep
    longer = np.sqrt(values + alpha * values.sum() / base.W.shape[0])
    shrink = lengths / longer
    keep = values / longer**2
    return Whitening(base.W * shrink, base.inverse / shrink[:, None], keep, base.condition), shrink


def learn(model: Learner, given: Given, target: LabelTarget) -> Learned:
    """Learn M from what was taught, with a ridge towards zero."""
    known = lesson(given, target)
    W_q = whiten(given.X, given.weights, model.alpha)
    W_g = W_q if given.one_set else whiten(given.gallery, None, model.alpha)
    problem = problem_of(given, known, W_q, W_g, 0.0)
    K = moment(problem.queries, problem.gallery, problem.pairs, from_target=True)
    return _solve(model, problem, K, known.fixed, 0.0)


def learn_from_prior(model: Learner, prepared: Prepared, strength: float) -> Learned:
    """Learn M from what was taught, with a ridge towards the prior; infinity is the prior itself."""
    model.history_, model.n_iter_ = [], 0
    if np.isinf(strength):
        nothing = np.zeros((prepared.given.X.shape[1], 0))
        return Learned(nothing, nothing, prepared.scale, 0, max(prepared.W_q.condition, prepared.W_g.condition))
    problem, K = prepared.at(strength)
    return _solve(model, problem, K, prepared.lesson.fixed, prepared.scale)


def _solve(model: Learner, problem: PairRegression, K: np.ndarray, fixed: bool, scale: float) -> Learned:
    """From the moment K to the factors of M; a fixed target with all pairs known needs no iteration."""
    model.history_, model.n_iter_ = [], 0
    W_q, W_g = problem.queries.whitening, problem.gallery.whitening
    rank = None if model.rank is None else _usable_rank(model.rank, W_q, W_g)
    start = started(K, problem, rank, generator(model.random_state))
    if not (fixed and problem.pairs.complete):
        start = _run(model, problem, start)
    A, B = start if rank is None else balanced(*start)
    return Learned(W_q.W @ A, W_g.W @ B, scale, B.shape[1], max(W_q.condition, W_g.condition))


def problem_of(given: Given, known: Lesson, W_q: Whitening, W_g: Whitening, scale: float) -> PairRegression:
    """The regression over the known pairs; `scale` adds the raw scores of a prior to theirs."""
    queries = Side(given.X[known.rows], W_q)
    gallery = queries if given.one_set and known.rows is known.columns else Side(given.gallery[known.columns], W_g)
    pairs = known.pairs.with_offset(queries.X, gallery.X, scale) if scale else known.pairs
    return PairRegression(queries, gallery, pairs, pairs.n_pairs / known.total)


def prior_scale(given: Given, target: LabelTarget) -> float:
    """c of the prior c · I: with it a row of average length scores δ1 with itself, so unit rows have c = δ1."""
    sides = [given.X] if given.one_set else [given.X, given.gallery]
    squares = [float((side.multiply(side) if hasattr(side, "multiply") else side * side).sum()) for side in sides]
    means = [total / side.shape[0] for total, side in zip(squares, sides, strict=True)]
    if not min(means) > 0:
        raise LikewiseError("X holds zeros alone: there is nothing to learn a similarity from")
    return abs(target.same or 1.0) / float(np.sqrt(means[0] * means[-1]))


def _usable_rank(asked: int, W_q: Whitening, W_g: Whitening) -> int:
    rank = min(asked, W_q.rank, W_g.rank)
    if rank < asked:
        log.info("rank=%d is lowered to %d, the rank of X", asked, rank)
    return rank


def _run(model: Learner, problem: PairRegression, start: Start) -> Start:
    watched = _Watched(len(row_blocks(problem.queries.X.shape[0])), lambda *_: None)
    problem.on_step = lambda: watched.on_block(watched.n_blocks)
    steps = iterations(problem, start, model.rank is not None)
    return model._run(watched, steps, start, pairs=problem.pairs.n_pairs)
