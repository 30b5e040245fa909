"""What passes between a regression, the iterations that solve it, and those who ask for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

if TYPE_CHECKING:
    from likewise.learn.maths.solvers import Result
    from likewise.learn.maths.whitening import WhiteningMap


@dataclass(frozen=True)
class SolverOptions:
    """The parameters of `SLR` that its solver needs."""

    rank: int | None
    n_iter: int
    tol: float
    alpha: float
    whitening_width: int | None
    compress: str | None
    compress_size: int | None
    init: str
    acceleration: str | None
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


class SavedIterations(Protocol):
    """Where iterations are kept, so that a fit that was stopped can be resumed."""

    def begin(self, whitening: WhiteningMap) -> None:
        """The rows are whitened, and nothing is drawn but the start."""

    def resume(self, start: Factors) -> Result:
        """The iterations kept so far; `start` and none if there are none."""

    def save(self, result: Result) -> None:
        """Keep the last iteration."""
