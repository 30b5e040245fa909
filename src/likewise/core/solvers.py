"""The iterations of the paper in whitened coordinates: M = W K Wᵀ, K = A Bᵀ, B orthonormal.

A step solves one regression in closed form: A ← Uᵀ clamp(U A (U B)ᵀ) U B. For the whole matrix B is the identity and a
step is an iteration (Alg. 1); for low rank the two sides take turns (Alg. 3). A step majorises the squared hinge by the
regression and minimises that, so the objective never rises.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np
import scipy.linalg

from likewise.core.engine import Columns, Engine
from likewise.core.targets import LabelTarget
from likewise.core.whitening import Whitening

__all__ = ["AllPairs", "FixedTarget", "Iterate", "Problem", "Step", "accelerated", "alternating", "balanced", "whole"]


class Step(NamedTuple):
    """One closed-form solution: the new A, the objective before the step, and how far it falls at least."""

    A: np.ndarray
    objective: float
    decrease: float


class Iterate(NamedTuple):
    """Factors after an iteration, the objective before it, and a bound on the objective after it."""

    A: np.ndarray
    B: np.ndarray
    objective: float
    bound: float


class Problem(Protocol):
    """A regression that knows its own closed-form step."""

    def step(self, A: np.ndarray, B: np.ndarray) -> Step:
        """A ← Uᵀ clamp(U A (U B)ᵀ) U B, or an estimate of it."""


class AllPairs:
    """The regression on all pairs of rows, exact."""

    def __init__(self, engine: Engine, whitening: Whitening, target: LabelTarget) -> None:
        self.engine, self.whitening, self.target = engine, whitening, target
        self._gallery: tuple[np.ndarray, Columns] | None = None  # the last B, and U B

    def step(self, A: np.ndarray, B: np.ndarray) -> Step:
        """One exact step, written with the residual E = S - clamp(S): UᵀYUB = D A (BᵀDB) - Uᵀ E U B, D = UᵀU."""
        W, D = self.whitening.W, self.whitening.keep[:, None]
        UA, self._gallery = self._rows(A), None  # one gallery at a time
        gallery = self.engine.gallery(W @ B)
        E, loss = self.engine.sweep(W @ A if UA is None else UA, gallery, self.target, projected=UA is not None)
        self._gallery = (B, gallery)
        new = D * A @ (B.T @ (D * B)) - W.T @ E
        return Step(new, loss + penalty(A, B, self.whitening), float(np.sum((new - A) ** 2)))

    def _rows(self, A: np.ndarray) -> np.ndarray | None:
        """U A without a product with X, where A is a mixture of the last B: after a turn of the factors it is."""
        if self._gallery is None:
            return None
        B, gallery = self._gallery
        T = B.T @ A
        if not np.allclose(B @ T, A, rtol=0.0, atol=1e-12 * max(float(np.abs(A).max()), 1e-300)):
            return None
        return self.engine.mixture(gallery, T)


class FixedTarget:
    """The regression on a fixed label target, K* = UᵀYU = F diag(w) Fᵀ: subspace iteration, no pair is visited."""

    def __init__(self, F: np.ndarray, weights: np.ndarray, sum_of_squares: float) -> None:
        self.F, self.weights, self.sum_of_squares = F, weights, sum_of_squares

    def step(self, A: np.ndarray, B: np.ndarray) -> Step:
        """A ← K* B; the objective is ‖Y‖² - 2 ⟨K, K*⟩ + ‖K‖², ridge included."""
        new = (self.F * self.weights) @ (self.F.T @ B)
        objective = self.sum_of_squares - 2 * float(np.sum(A * new)) + float(np.sum((A.T @ A) * (B.T @ B)))
        return Step(new, max(objective, 0.0), float(np.sum((new - A) ** 2)))


def penalty(A: np.ndarray, B: np.ndarray, whitening: Whitening) -> float:
    """The ridge α(‖XM‖² + ‖MXᵀ‖²) + α²‖M‖² in whitened coordinates: the sum of K_ij² (1 - D_i D_j)."""
    D = whitening.keep[:, None]
    if np.all(D == 1.0):
        return 0.0
    return float(np.sum((A.T @ A) * (B.T @ B)) - np.sum((A.T @ (D * A)) * (B.T @ (D * B))))


def whole(problem: Problem, K: np.ndarray, B: np.ndarray) -> Iterator[Iterate]:
    """Algorithm 1: K ← Uᵀ clamp(U K Uᵀ) U; B stays the identity."""
    while True:
        K, objective, decrease = problem.step(K, B)
        yield Iterate(K, B, objective, objective - decrease)


def alternating(problem: Problem, A: np.ndarray, B: np.ndarray, transposed: Problem | None = None) -> Iterator[Iterate]:
    """Algorithm 3: each side in turn is solved for while the other is held fixed.

    `transposed` is the problem with its sides exchanged, where they differ.
    """
    transposed = transposed or problem
    while True:
        A, objective, _ = problem.step(A, B)
        A, B = turn(A, B)
        A, halfway, decrease = transposed.step(A, B)
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


# ---------------------------------------------------------------------------------------------------------------------
# Anderson acceleration


def accelerated(problem: Problem, K: np.ndarray, B: np.ndarray, depth: int = 5) -> Iterator[Iterate]:
    """Algorithm 1 from Anderson's mixtures of the last iterates, where they are as good as a plain step must be.

    What is yielded is always a plain step from the best point so far. A mixture whose objective lies above the bound
    for the plain step is thrown away with the memory that led to it, and the plain iteration goes on. The whole matrix
    only: low rank is not convex, and mixtures of its iterates ended up to 12 % above the plain iteration.
    """
    best = next(whole(problem, K, B))
    memory = [(K, best.A)]
    yield best
    while True:
        start = _mixture(memory) if len(memory) > 1 else best.A
        trial = next(whole(problem, start, B))
        if len(memory) > 1 and not trial.objective <= best.bound:
            memory = []
        else:
            best = trial
            memory = [*memory[1 - depth :], (start, trial.A)]
        yield best


def _mixture(memory: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """The affine combination of the last results g(K) whose residuals g(K) - K combine to the smallest norm."""
    residuals = np.stack([(after - before).ravel() for before, after in memory])
    inner = residuals @ residuals.T
    inner += 1e-12 * np.trace(inner) * np.eye(len(inner))
    weights = np.linalg.solve(inner, np.ones(len(inner)))
    return np.tensordot(weights / weights.sum(), np.stack([after for _, after in memory]), axes=1)
