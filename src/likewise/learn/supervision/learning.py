"""From known pairs to M: whiten both sides, take the moment, iterate; the ridge is towards zero or a prior."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from likewise.errors import LikewiseError
from likewise.learn.maths.labels import LabelTarget, generator
from likewise.learn.maths.regressions import Factors
from likewise.learn.maths.scatter import WhiteningMap, whiten
from likewise.learn.maths.solvers import Result, Solution, balanced, learning_bar, lowered_rank, run
from likewise.learn.supervision.reading import PairTargets, Supervision, pair_targets
from likewise.learn.supervision.regression import PairRegression, Side, iterations, moment, started
from likewise.utils.threads import row_blocks


@dataclass(frozen=True)
class PairOptions:
    """The parameters of `PairSLR` that learning from pairs needs."""

    rank: int | None
    max_iter: int
    tol: float
    alpha: float
    prior_strength: float | None
    random_state: Any
    verbose: int


@dataclass(frozen=True)
class Prepared:
    """All that does not depend on the strength of a prior: pairs with their raw scores, whitenings, the moment.

    The whitenings have next to no ridge; others follow from them by scaling their directions.
    """

    given: Supervision
    target: LabelTarget
    scale: float
    targets: PairTargets
    W_q: WhiteningMap
    W_g: WhiteningMap
    K: np.ndarray

    @classmethod
    def of(cls, given: Supervision, target: LabelTarget, W_g: WhiteningMap | None = None) -> Prepared:
        """Whiten both sides, unless the gallery's whitening is known already, and take the gradient at the prior."""
        scale = prior_scale(given, target)
        known = pair_targets(given, target)
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
        return problem_of(self.given, self.targets, W_q, W_g, 0.0), s_q[:, None] * self.K * s_g


_NO_RIDGE = 1e-12  # enough to keep the directions of a whitening the eigenvectors of the Gram matrix


def _ridged(base: WhiteningMap, alpha: float) -> tuple[WhiteningMap, np.ndarray]:
    """The whitening with another ridge, and the factors by which its directions shrink."""
    lengths = np.linalg.norm(base.inverse, axis=1)
    values = lengths**2 * base.shrinkage
    longer = np.sqrt(values + alpha * values.sum() / base.W.shape[0])
    shrink = lengths / longer
    return WhiteningMap(base.W * shrink, base.inverse / shrink[:, None], values / longer**2, base.condition), shrink


def learn(given: Supervision, target: LabelTarget, options: PairOptions) -> Solution:
    """M with a ridge towards zero."""
    known = pair_targets(given, target)
    W_q = whiten(given.X, given.weights, options.alpha)
    W_g = W_q if given.one_set else whiten(given.gallery, None, options.alpha)
    problem = problem_of(given, known, W_q, W_g, 0.0)
    K = moment(problem.queries, problem.gallery, problem.pairs, from_target=True)
    return _solve(problem, K, known.fixed, 0.0, options)


def learn_from_prior(prepared: Prepared, strength: float, options: PairOptions) -> Solution:
    """M with a ridge towards the prior; a strength of infinity is the prior itself."""
    if np.isinf(strength):
        nothing = np.zeros((prepared.given.X.shape[1], 0))
        condition = max(prepared.W_q.condition, prepared.W_g.condition)
        return Solution(nothing, nothing, 0, condition, Result(Factors(nothing, nothing)), prepared.scale)
    problem, K = prepared.at(strength)
    return _solve(problem, K, prepared.targets.fixed, prepared.scale, options)


def _solve(problem: PairRegression, K: np.ndarray, fixed: bool, scale: float, options: PairOptions) -> Solution:
    """From the moment K to the factors of M; a fixed target with all pairs known needs no iteration."""
    W_q, W_g = problem.queries.whitening, problem.gallery.whitening
    rank = None if options.rank is None else lowered_rank(options.rank, min(W_q.rank, W_g.rank))
    result = Result(started(K, problem, rank, generator(options.random_state)))
    if not (fixed and problem.pairs.complete):
        result = _iterated(problem, result.factors, options)
    A, B = result.factors if rank is None else balanced(*result.factors)
    return Solution(W_q.W @ A, W_g.W @ B, B.shape[1], max(W_q.condition, W_g.condition), result, scale)


def _iterated(problem: PairRegression, start: Factors, options: PairOptions) -> Result:
    low_rank, n_blocks = options.rank is not None, len(row_blocks(problem.queries.X.shape[0]))
    with learning_bar(options.max_iter * n_blocks * (2 if low_rank else 1), bool(options.verbose)) as (advance, show):
        problem.on_step = lambda: advance(n_blocks)
        steps = iterations(problem, start, low_rank)
        return run(steps, start, options.max_iter, tol=options.tol, n_pairs=problem.pairs.n_pairs, on_iteration=show)


def problem_of(
    given: Supervision, known: PairTargets, W_q: WhiteningMap, W_g: WhiteningMap, scale: float
) -> PairRegression:
    """The regression over the known pairs; `scale` adds the raw scores of a prior to theirs."""
    queries = Side(given.X[known.rows], W_q)
    gallery = queries if given.one_set and known.rows is known.columns else Side(given.gallery[known.columns], W_g)
    pairs = known.pairs.with_offset(queries.X, gallery.X, scale) if scale else known.pairs
    return PairRegression(queries, gallery, pairs, pairs.n_pairs / known.total)


def prior_scale(given: Supervision, target: LabelTarget) -> float:
    """c of the prior c · I: with it a row of average length scores δ1 with itself, so unit rows have c = δ1."""
    sides = [given.X] if given.one_set else [given.X, given.gallery]
    squares = [float((side.multiply(side) if sp.issparse(side) else side * side).sum()) for side in sides]
    means = [total / side.shape[0] for total, side in zip(squares, sides, strict=True)]
    if not min(means) > 0:
        raise LikewiseError("X holds zeros alone: there is nothing to learn a similarity from")
    return abs(target.same or 1.0) / float(np.sqrt(means[0] * means[-1]))
