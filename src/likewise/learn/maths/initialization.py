"""Where the iterations start: the solution for the fixed label target, or the start of the paper."""

import numpy as np
import scipy.linalg
from numpy.random import Generator

from likewise.learn.maths.engine import Engine
from likewise.learn.maths.labels import LabelTarget
from likewise.learn.maths.steps import Factors
from likewise.learn.maths.whitening import WhiteningMap
from likewise.utils.arrays import dense


def label_factors(engine: Engine, whitening: WhiteningMap, target: LabelTarget) -> tuple[np.ndarray, np.ndarray]:
    """F and w with UᵀYU = F diag(w) Fᵀ for the label target Y = δ2 11ᵀ + (δ1 - δ2) ZZᵀ: class sums are all it takes."""
    F = engine.class_sums(whitening.W).T
    if target.other:
        F = np.hstack([F, F.sum(axis=1, keepdims=True)])
    weights = np.full(F.shape[1], target.same - target.other)
    weights[engine.n_classes :] = target.other
    return F, weights


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
