"""The regression on known pairs of two sides: S = U_q K U_gᵀ, K = A Bᵀ, B orthonormal.

A step goes down the gradient: A ← A - η (U_qᵀ E U_g B + ridge), E the residual on the known pairs. Where all pairs are
known η = 1 and this is the paper's own step. Where few are known a unit step would move only by their share: the step
then is the best for the quadratic that bounds the loss along its direction, and directions are conjugate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from sklearn.utils.extmath import randomized_svd

from likewise.learn.maths.regressions import ClosedFormStep, Factors, Iterate
from likewise.learn.maths.scatter import WhiteningMap
from likewise.learn.maths.solvers import alternating, completed, whole
from likewise.learn.supervision.pairs import each
from likewise.utils.arrays import dense
from likewise.utils.threads import row_blocks

_LITTLE = 1 << 24  # multiplications that take less time than starting a thread
INNER = 3  # conjugate steps before the sides are exchanged, where not all pairs are known


class Pairs(Protocol):
    """Pairs of rows of two sides, with their targets."""

    @property
    def complete(self) -> bool: ...

    @property
    def n_pairs(self) -> float: ...

    def residual(self, P: np.ndarray, V: np.ndarray, back: np.ndarray) -> tuple[np.ndarray, float]: ...

    def curvature(self, P: np.ndarray, V: np.ndarray) -> float: ...

    def target_times(self, V: np.ndarray) -> np.ndarray: ...

    def with_offset(self, P: Any, V: Any, scale: float) -> Self: ...

    def transposed(self) -> Self: ...


@dataclass(frozen=True, eq=False)
class Side:
    """The rows of one side that are in some pair, and the whitening of all its rows."""

    X: Any
    whitening: WhiteningMap

    def project(self, A: np.ndarray) -> np.ndarray:
        """U A = X (W A), dense, in X's own precision."""
        L = (self.whitening.W @ A).astype(self.X.dtype)
        return np.concatenate(list(each(lambda rows: dense(self.X[rows] @ L), self._blocks(L.shape[1]))))

    def back(self, T: np.ndarray) -> np.ndarray:
        """UᵀT = Wᵀ (XᵀT), summed in float64."""
        T = T.astype(self.X.dtype, copy=False)
        total = np.zeros((self.X.shape[1], T.shape[1]))
        for part in each(lambda rows: dense(self.X[rows].T @ T[rows]), self._blocks(T.shape[1])):
            total += part
        return self.whitening.W.T @ total

    def _blocks(self, width: int) -> list[slice]:
        n, d = self.X.shape
        return [slice(0, n)] if n * d * width < _LITTLE else row_blocks(n)


class PairRegression:
    """The regression on known pairs; a step solves for the query side while B, the gallery's, is held fixed."""

    def __init__(self, queries: Side, gallery: Side, pairs: Pairs, share: float, inner: int = INNER) -> None:
        self.queries, self.gallery, self.pairs, self.share = queries, gallery, pairs, share
        self.inner = 1 if pairs.complete else inner
        self.on_step: Callable[[], None] = lambda: None

    def step(self, A: np.ndarray, B: np.ndarray) -> ClosedFormStep:
        """One unit step where all pairs are known, a few conjugate ones elsewhere; the objective never rises."""
        P, V = self.queries.project(A), self.gallery.project(B)
        G, first = self._gradient(A, B, P, V)
        if self.pairs.complete:
            self.on_step()
            return ClosedFormStep(A - G, first, float(np.sum(G * G)))
        direction, decrease = G, 0.0
        for remaining in reversed(range(self.inner)):
            PD = self.queries.project(direction)
            slope = float(np.sum(G * direction))
            eta = slope / max(self._curvature(direction, B, PD, V), np.finfo(float).tiny)
            A, decrease = A - eta * direction, decrease + eta * slope
            if remaining:
                P = P - P.dtype.type(eta) * PD
                before, (G, _) = G, self._gradient(A, B, P, V)
                direction = G + _conjugacy(G, before) * direction
        self.on_step()
        return ClosedFormStep(A, first, decrease)

    def transposed(self) -> PairRegression:
        """The same regression, solving for the gallery side."""
        other = PairRegression(self.gallery, self.queries, self.pairs.transposed(), self.share, self.inner)
        other.on_step = lambda: self.on_step()
        return other

    def _gradient(self, A: np.ndarray, B: np.ndarray, P: np.ndarray, V: np.ndarray) -> tuple[np.ndarray, float]:
        """Half the gradient with respect to A, and the objective."""
        T, loss = self.pairs.residual(P, V, V)
        ridge = self._ridge(A, B)
        return self.queries.back(T) + ridge, loss + float(np.sum(A * ridge))

    def _ridge(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        """The share of pairs known times K_ij (1 - D_i D_j), times B: nothing without ridge."""
        D_q, D_g = self.queries.whitening.shrinkage, self.gallery.whitening.shrinkage
        if np.all(D_q == 1.0) and np.all(D_g == 1.0):
            return np.zeros_like(A)
        return self.share * (A @ (B.T @ B) - D_q[:, None] * A @ (B.T @ (D_g[:, None] * B)))

    def _curvature(self, direction: np.ndarray, B: np.ndarray, PD: np.ndarray, V: np.ndarray) -> float:
        """Second derivative along a direction if every known pair were outside its interval: never less than it is."""
        return self.pairs.curvature(PD, V) + float(np.sum(direction * self._ridge(direction, B)))


def _conjugacy(G: np.ndarray, before: np.ndarray) -> float:
    """Polak and Ribière's factor, zero where it would be negative."""
    return max(float(np.sum(G * (G - before))) / max(float(np.sum(before * before)), np.finfo(float).tiny), 0.0)


def iterations(problem: PairRegression, start: Factors, low_rank: bool) -> Iterator[Iterate]:
    """Algorithm 1 for the whole matrix, Algorithm 3 with two different sides for low rank."""
    return alternating(problem, *start, problem.transposed()) if low_rank else whole(problem, *start)


# ---------------------------------------------------------------------------------------------------------------------
# Where it starts


def moment(queries: Side, gallery: Side, pairs: Pairs, from_target: bool) -> np.ndarray:
    """U_qᵀ Y U_g for the target Y that does not adapt; or minus the gradient at K = 0, where a prior scores already."""
    rows, W = _narrower(gallery)
    if from_target:
        return queries.back(pairs.target_times(rows)) @ W
    nothing = np.zeros((queries.X.shape[0], 1), rows.dtype), np.zeros((gallery.X.shape[0], 1), rows.dtype)
    return -queries.back(pairs.residual(*nothing, rows)[0]) @ W


def _narrower(side: Side) -> tuple[np.ndarray, np.ndarray]:
    """Dense rows and a matrix whose product is U: X and W as they are, if X is dense already."""
    if sp.issparse(side.X):
        return side.project(np.eye(side.whitening.rank)), np.eye(side.whitening.rank)
    return side.X, side.whitening.W


def started(K: np.ndarray, problem: PairRegression, rank: int | None, rng: np.random.Generator) -> Factors:
    """From the moment K: scaled as the known pairs ask, and for low rank its leading singular vectors."""
    whitening = problem.gallery.whitening
    if rank is None:
        B, A = np.eye(whitening.rank), K
    else:
        B = completed(_leading(K, rank, exact=problem.pairs.complete), whitening, rank, rng)
        A = K @ B
    if problem.pairs.complete:
        return Factors(A, B)
    curvature = problem._curvature(A, B, problem.queries.project(A), problem.gallery.project(B))
    return Factors(A * (float(np.sum(A * A)) / max(curvature, np.finfo(float).tiny)), B)


def _leading(K: np.ndarray, rank: int, exact: bool) -> np.ndarray:
    """Right singular vectors of the largest singular values, without those that are rounding.

    A few subspace iterations are enough where the iterations that follow improve on them anyway.
    """
    if exact or 3 * rank > min(K.shape):
        _, s, Vt = scipy.linalg.svd(K, full_matrices=False, check_finite=False)
    else:
        _, s, Vt = randomized_svd(K, rank, n_iter=4, random_state=0)
    there = s[:rank] > s[0] * 1e-12
    return Vt[:rank][there].T
