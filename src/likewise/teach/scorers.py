"""A concept as a scorer: from some rows that belong to it, and some that do not, to a score for every row.

Three scorers are summed, each standardised over the gallery: (a) logistic regression and (b) kernel ridge, both against
a random background of the gallery, and (c) what the examples spread over a graph of nearest neighbours:

    score = 2 z(smooth(z(a) + z(b))) + 6 p² z(c),   p = |right| / (|right| + |wrong| + 1).

With u = [z, w] / √2, where z is a row, centred and of unit length, and w the same after whitening, (a) has the kernel
u·u' and is linear in u, and (b) has the kernel exp(u·u' - 1). The smoothing takes a part of the scores of a row's
neighbours on the graph. What depends only on the gallery is computed once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.special import expit
from sklearn.preprocessing import normalize

from likewise.search.rank import Exact
from likewise.utils.arrays import top_k

# Measured by `python -m benchmarks teaching_concepts`: results hardly change around these values.
WIDTH = 512  # leading directions of the rows, if they have more
SHRINKAGE = 10.0  # added to the eigenvalues before whitening, in units of their mean
BACKGROUND = 300  # random rows that stand for what does not belong
OFFSET, C = 10.0, 10.0  # of the logistic regression: a constant in its kernel, and the inverse of the penalty
STEPS = 8  # of Newton's method
RIDGE, LIGHT = 0.1, 0.02  # of the kernel ridge, and the weight of a background row in it
DEGREE, DAMPING, ROUNDS = 10, 0.98, 30  # of the graph, and of spreading over it
SMOOTHING, SMOOTHINGS = 0.5, 5  # damping and rounds of the smoothing of (a) and (b)
GRAPH = 6.0  # weight of (c) if p is 1
AGAINST = 0.6  # weight of wrong examples in the graph; half of it for the first mark of a query
LEAST_SHARE = 0.7  # p where only wrong ones were marked: what was left unmarked among the results is not wrong
MOST_EXAMPLES = 200  # right ones, and wrong ones, that a concept learns from: of more, these are taken evenly
_BLOCK = 1 << 23  # cosines computed at a time


class Space(NamedTuple):
    """Maps rows to u: centred, in the leading directions, of unit length, next to the same after whitening."""

    centre: np.ndarray
    directions: np.ndarray
    spreads: np.ndarray

    @classmethod
    def of(cls, V: np.ndarray) -> Self:
        """From the mean and the covariance of rows."""
        centre = V.mean(axis=0, dtype=np.float64).astype(np.float32)
        Z = normalize(V - centre)
        eigenvalues, vectors = np.linalg.eigh((Z.T @ Z / len(Z)).astype(np.float64))
        leading = np.argsort(-eigenvalues)[:WIDTH]
        floor = SHRINKAGE * max(float(eigenvalues.mean()), 1e-12)
        spreads = np.sqrt(np.maximum(eigenvalues[leading], 0) + floor)
        return cls(centre, vectors[:, leading].astype(np.float32), spreads.astype(np.float32))

    def __call__(self, V: np.ndarray) -> np.ndarray:
        """u of rows, (n, 2r)."""
        Z = normalize((np.asarray(V, np.float32) - self.centre) @ self.directions)
        return np.hstack([Z, normalize(Z / self.spreads)]) * np.float32(np.sqrt(0.5))


@dataclass(frozen=True)
class Examples:
    """Unit rows u that belong to a concept or do not, and which rows of the gallery they are, -1 for none of them."""

    U: np.ndarray
    right: np.ndarray
    rows: np.ndarray

    def __len__(self) -> int:
        return len(self.U)

    def take(self, which: np.ndarray) -> Self:
        """Some of the examples."""
        return type(self)(self.U[which], self.right[which], self.rows[which])

    def share(self) -> float:
        """p: how much the graph counts."""
        n_right, n_wrong = int(self.right.sum()), int((~self.right).sum())
        share = n_right / (n_right + n_wrong + 1)
        return max(share, LEAST_SHARE) if n_right <= 1 else share


class Scorers:
    """All that the concepts of a gallery share: its rows u, a background, and a graph of nearest neighbours."""

    def __init__(self, V: np.ndarray, space: Space | None = None, background: np.ndarray | None = None) -> None:
        """From the rows of a gallery; `space` and the background's rows u are those of a larger one."""
        self.space = Space.of(V) if space is None else space
        self.U = self.space(V)
        self._rows = np.sort(np.random.default_rng(0).permutation(len(V))[:BACKGROUND])
        if background is None:
            background = self.U[self._rows]
        else:
            self._rows = np.full(len(background), -1)
        self.background = background
        self._far = np.exp(self.U @ background.T - 1)  # (b)'s kernel with the background
        self.graph = nearest_graph(self.Z)

    def __len__(self) -> int:
        return len(self.U)

    @property
    def Z(self) -> np.ndarray:
        """The rows at unit length, before whitening."""
        return unwhitened(self.U)

    def examples(self, right: Sequence[int], wrong: Sequence[int] = ()) -> Examples:
        """Rows of the gallery that belong, and that do not."""
        rows = np.array([*right, *wrong], np.int64)
        return Examples(self.U[rows], np.arange(len(rows)) < len(right), rows)

    def scores(self, examples: Examples, parts: Sequence[np.ndarray] | None = None) -> np.ndarray:
        """Scores of all rows by some examples, of which one is right, (n,); by each part of them, (parts, n).

        Parts are booleans.
        """
        if parts is None:
            return np.asarray(self.scores(examples, [np.ones(len(examples), bool)])[0])
        L = np.vstack([examples.U, self.background])
        is_mark = np.arange(len(L)) < len(examples)
        is_far = ~is_mark & ~np.isin(np.concatenate([examples.rows, self._rows]), examples.rows[examples.rows >= 0])
        K, near = L @ L.T, np.exp(self.U @ examples.U.T - 1)
        right = np.concatenate([examples.right, np.zeros(len(self.background), bool)])
        kernels = np.empty((len(self), len(parts)), np.float32)
        for column, part in enumerate(parts):
            used = np.flatnonzero(np.concatenate([part, is_far[len(examples) :]]))
            mark, target = is_mark[used], right[used].astype(np.float64)
            K_used = K[np.ix_(used, used)].astype(np.float64)
            n_wrong = max(1.0, float((mark & (target == 0)).sum()))
            weights = np.where(mark, 1.0, n_wrong / max(1, (~mark).sum()))
            linear = L[used].T @ _logistic(K_used + OFFSET, target, C * weights).astype(np.float32)
            beta = np.zeros(len(L), np.float32)
            beta[used] = _ridge(np.exp(K_used - 1), target, RIDGE / np.where(mark, 1.0, LIGHT))
            ridge = near @ beta[: len(examples)] + self._far @ beta[len(examples) :]
            kernels[:, column] = _standardised(self.U @ linear) + _standardised(ridge)
        weight = GRAPH * np.array([examples.take(part).share() for part in parts], np.float32) ** 2
        smooth = _standardised(self._diffused(kernels, SMOOTHING, SMOOTHINGS))
        return np.asarray((2 * smooth + weight * _standardised(self._spread(examples, parts))).T)

    def _diffused(self, Y: np.ndarray, damping: float, rounds: int) -> np.ndarray:
        """(I - damping A)⁻¹ Y by some rounds, A the graph."""
        F = Y
        for _ in range(rounds):
            F = np.float32(damping) * (self.graph @ F) + Y
        return F

    def _spread(self, examples: Examples, parts: Sequence[np.ndarray]) -> np.ndarray:
        """(c) of every part, (n, parts): what right ones spread over the graph, less what wrong ones do."""
        on_graph = examples.rows >= 0
        near = np.zeros((len(self), len(examples)), np.float32)
        near[examples.rows[on_graph], np.flatnonzero(on_graph)] = 1
        for column, (rows, weights) in zip(
            np.flatnonzero(~on_graph), self.neighbours(examples.U[~on_graph]), strict=True
        ):
            near[rows, column] = weights
        used = np.array(parts).T
        sides = [used & (examples.right == side)[:, None] for side in (True, False)]
        shares = np.hstack(sides) / np.maximum(np.hstack(sides).sum(axis=0), 1)
        F = np.sqrt(self._diffused(near @ shares.astype(np.float32), DAMPING, ROUNDS))
        n = used.sum(axis=0) - 1
        return np.asarray(F[:, : len(parts)] - (AGAINST * n / (n + 1)).astype(np.float32) * F[:, len(parts) :])

    def neighbours(self, U: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """The nearest rows of the gallery to each row u from elsewhere, and their weights, which sum to 1."""
        S = unwhitened(U) @ self.Z.T
        rows = top_k(S, min(DEGREE, len(self)))
        W = np.maximum(np.take_along_axis(S, rows, axis=1), 1e-6) ** 3
        return list(zip(rows, W / W.sum(axis=1, keepdims=True), strict=True))


def _standardised(S: np.ndarray) -> np.ndarray:
    """Columns with mean 0 and deviation 1."""
    deviation = S.std(axis=0, dtype=np.float64)
    return np.asarray((S - S.mean(axis=0, dtype=np.float64)) / np.where(deviation > 0, deviation, 1), np.float32)


def unwhitened(U: np.ndarray) -> np.ndarray:
    """The unit rows z of rows u."""
    return np.ascontiguousarray(U[:, : U.shape[1] // 2]) * np.float32(np.sqrt(2))


def _logistic(K: np.ndarray, target: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """α of weighted logistic regression with kernel K: the dual of ½ αᵀKα + Σ weights · loss, by Newton's method."""
    alpha, f = np.zeros(len(K)), np.zeros(len(K))
    for _ in range(STEPS):
        p = expit(f)
        curvature = np.maximum(p * (1 - p), 1e-6)
        step = np.linalg.solve(K + np.diag(1 / (weights * curvature)), f + (target - p) / curvature)
        moved = np.abs(step - alpha).max()
        alpha, f = step, K @ step
        if moved < 1e-4 * np.abs(alpha).max():
            break
    return alpha


def _ridge(K: np.ndarray, target: np.ndarray, ridge: np.ndarray) -> np.ndarray:
    """(K + diag(ridge))⁻¹ target."""
    return np.asarray(scipy.linalg.solve(K + np.diag(ridge), target, assume_a="pos"))


def nearest_graph(Z: np.ndarray) -> sp.csr_array:
    """Cubed cosines of unit rows with their nearest ones, made symmetric and normalised by both degrees."""
    n, k = len(Z), min(DEGREE, len(Z) - 1)
    columns, cosines = np.empty((n, k), np.int64), np.empty((n, k), np.float32)
    engine, step = Exact(Z), max(1, _BLOCK // n)
    for start in range(0, n, step):
        part = Z[start : start + step]
        near = engine.candidates(part, k + 1)
        S = np.einsum("nkr,nr->nk", Z[near], part)
        S[near == np.arange(start, start + len(part))[:, None]] = -np.inf
        places = np.argsort(-S, axis=1, kind="stable")[:, :k]  # without the row itself, or without the last one
        columns[start : start + step] = np.take_along_axis(near, places, axis=1)
        cosines[start : start + step] = np.take_along_axis(S, places, axis=1)
    values = np.maximum(cosines, 0).ravel() ** 3
    W = sp.csr_array((values, (np.repeat(np.arange(n), k), columns.ravel())), shape=(n, n))
    W = W.maximum(W.T).tocsr()
    D = sp.diags_array(1 / np.sqrt(np.maximum(np.asarray(W.sum(axis=1)).ravel(), 1e-12)).astype(np.float32))
    return sp.csr_array(D @ W @ D)
