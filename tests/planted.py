"""Labelled rows made to order, and the dense formulae that everything is held to."""

from __future__ import annotations

import numpy as np


def planted(
    n: int, d: int, n_classes: int, seed: int = 0, condition: float = 10.0, dtype: type = np.float64
) -> tuple[np.ndarray, np.ndarray]:
    """Rows of `n_classes` overlapping classes, every class present, with about the given condition number."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.concatenate([np.arange(n_classes), rng.integers(0, n_classes, n - n_classes)]))
    X = rng.standard_normal((n_classes, d))[y] + rng.standard_normal((n, d))
    U, s, Vt = np.linalg.svd(X, full_matrices=False)
    return ((U * np.geomspace(condition, 1.0, len(s))) @ Vt).astype(dtype), y


def same_label(y: np.ndarray) -> np.ndarray:
    return y[:, None] == y[None, :]


def clamp(S: np.ndarray, y: np.ndarray, margins: tuple[float, float] = (1.0, 0.0)) -> np.ndarray:
    """Line 5 of Algorithm 1."""
    return np.where(same_label(y), np.maximum(S, margins[0]), np.minimum(S, margins[1]))


def hinge(M: np.ndarray, X: np.ndarray, y: np.ndarray, margins: tuple[float, float] = (1.0, 0.0)) -> float:
    """The squared hinge loss (Eqn. 4) over all pairs, by brute force."""
    S = X @ M @ X.T
    return float(np.sum((S - clamp(S, y, margins)) ** 2))


def regress(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Eqn. 3 by the pseudo-inverse."""
    pinv = np.linalg.pinv(X)
    return pinv @ Y @ pinv.T


def algorithm_1(
    X: np.ndarray, y: np.ndarray, M: np.ndarray, max_iter: int, margins: tuple[float, float] = (1.0, 0.0)
) -> np.ndarray:
    """Algorithm 1, as it is printed."""
    for _ in range(max_iter):
        M = regress(X, clamp(X @ M @ X.T, y, margins))
    return M


def algorithm_3(X: np.ndarray, y: np.ndarray, L: np.ndarray, R: np.ndarray, max_iter: int) -> np.ndarray:
    """Algorithm 3 without compression, as it is printed: pseudo-inverses and all."""
    pinv = np.linalg.pinv(X)
    for _ in range(max_iter):
        L = pinv @ clamp(X @ L @ R.T @ X.T, y) @ np.linalg.pinv(X @ R).T
        R = pinv @ clamp(X @ L @ R.T @ X.T, y).T @ np.linalg.pinv(X @ L).T
    return L @ R.T
