"""A concept as a scorer: from some rows that belong to it, and some that do not, to a score for every row.

Three scorers are summed, each standardised over the gallery: (a) logistic regression and (b) kernel ridge, both against
a random background of the gallery, and (c) what the examples spread over a graph of nearest neighbours:

    score = z(a) + z(b) + 4 p³ z(c),   p = |right| / (|right| + |wrong| + 1).

(a) and (b) are functions of any row; (c) is known for rows of the gallery only. With u = [z, w] / √2, where z is a row,
centred and of unit length, and w the same after whitening, (a) has the kernel u·u' and is linear in u, and (b) has the
kernel exp(u·u' - 1). What depends only on the gallery is computed once.
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
AGAINST = 0.5  # weight of wrong examples in the graph
LEAST_SHARE = 0.7  # p where only wrong ones were marked: what was left unmarked among the results is not wrong
MOST_EXAMPLES = 400  # right ones, and wrong ones, that a concept learns from: of more, these are taken evenly
_BLOCK = 1 << 23  # cosines computed at a time


@dataclass(frozen=True)
class Space:
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

    def thinned(self) -> Self:
        """At most MOST_EXAMPLES of each side."""
        sides = [np.flatnonzero(self.right), np.flatnonzero(~self.right)]
        even = [
            side[np.unique(np.linspace(0, len(side) - 1, MOST_EXAMPLES).astype(int))] for side in sides if len(side)
        ]
        return self.take(np.sort(np.concatenate(even))) if max(map(len, sides)) > MOST_EXAMPLES else self


class Moments(NamedTuple):
    """Mean and standard deviation of a scorer over the gallery."""

    mean: float
    deviation: float

    @classmethod
    def of(cls, scores: np.ndarray) -> Self:
        return cls(float(scores.mean(dtype=np.float64)), float(scores.std(dtype=np.float64)) or 1.0)

    def standardised(self, scores: np.ndarray) -> np.ndarray:
        return np.asarray((scores - np.float32(self.mean)) / np.float32(self.deviation))


@dataclass(frozen=True)
class Scorer:
    """What examples say about every row: scores of the gallery, and the kernel parts (a) and (b) for any row.

    `kernel_scores` are z(a) + z(b) of the gallery; `scores` have the graph's part too.
    """

    scores: np.ndarray
    kernel_scores: np.ndarray
    linear: np.ndarray
    landmarks: np.ndarray
    coefficients: np.ndarray
    moments: tuple[Moments, Moments]

    def at(self, U: np.ndarray) -> np.ndarray:
        """z(a) + z(b) of rows u from anywhere."""
        a, b = self.moments
        ridge = np.exp(U @ self.landmarks.T - 1) @ self.coefficients
        return a.standardised(U @ self.linear) + b.standardised(ridge)


class Scorers:
    """All that the concepts of a gallery share: its rows u, a background, and a graph of nearest neighbours."""

    def __init__(self, V: np.ndarray, space: Space | None = None, background: np.ndarray | None = None) -> None:
        """From the rows of a gallery; `space` and the background's rows u are those of a larger one."""
        self.space = Space.of(V) if space is None else space
        self.U = self.space(V)
        self._rows = np.full(BACKGROUND, -1)
        if background is None:
            self._rows = np.sort(np.random.default_rng(0).permutation(len(V))[:BACKGROUND])
            background = self.U[self._rows]
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

    def fit(self, examples: Examples) -> Scorer:
        """The scorer of some examples, at least one of them right."""
        return self.fit_each(examples, [np.ones(len(examples), bool)])[0]

    def fit_each(self, examples: Examples, parts: Sequence[np.ndarray]) -> list[Scorer]:
        """A scorer for each part of the examples, given as booleans."""
        L = np.vstack([examples.U, self.background])
        is_mark = np.arange(len(L)) < len(examples)
        is_far = ~is_mark & ~np.isin(np.concatenate([examples.rows, self._rows]), examples.rows[examples.rows >= 0])
        K, near = L @ L.T, np.exp(self.U @ examples.U.T - 1)
        shares = self._spread(examples, parts)
        right = np.concatenate([examples.right, np.zeros(len(self.background), bool)])
        scorers = []
        for part, spread in zip(parts, shares.T, strict=True):
            used = np.flatnonzero(np.concatenate([part, is_far[len(examples) :]]))
            mark, target = is_mark[used], right[used].astype(np.float64)
            K_used = K[np.ix_(used, used)].astype(np.float64)
            n_wrong = max(1.0, float((mark & (target == 0)).sum()))
            weights = np.where(mark, 1.0, n_wrong / max(1, (~mark).sum()))
            linear = L[used].T @ _logistic(K_used + OFFSET, target, C * weights).astype(np.float32)
            beta = np.zeros(len(L), np.float32)
            beta[used] = _ridge(np.exp(K_used - 1), target, RIDGE / np.where(mark, 1.0, LIGHT))
            a = self.U @ linear
            b = near @ beta[: len(examples)] + self._far @ beta[len(examples) :]
            moments = Moments.of(a), Moments.of(b)
            kernel_scores = moments[0].standardised(a) + moments[1].standardised(b)
            weight = np.float32(4 * examples.take(part).share() ** 3)
            scores = kernel_scores + weight * Moments.of(spread).standardised(spread)
            scorers.append(Scorer(scores, kernel_scores, linear, L[used], beta[used], moments))
        return scorers

    def _spread(self, examples: Examples, parts: Sequence[np.ndarray]) -> np.ndarray:
        """(c) of every part, (n, parts): what right ones spread over the graph, less what wrong ones do."""
        Y = np.zeros((len(self), len(parts)), np.float32)
        on_graph = examples.rows >= 0
        near = np.zeros((len(self), int((~on_graph).sum())), np.float32)
        for column, (rows, weights) in enumerate(self.neighbours(examples.U[~on_graph])):
            near[rows, column] = weights
        for column, part in enumerate(parts):
            for is_right, weight in ((True, 1.0), (False, -AGAINST)):
                used = part & (examples.right == is_right)
                if used.any():
                    share = np.float32(weight / used.sum())
                    Y[:, column] += share * near[:, used[~on_graph]].sum(axis=1)
                    np.add.at(Y[:, column], examples.rows[used & on_graph], share)
        F = Y
        for _ in range(ROUNDS):
            F = np.float32(DAMPING) * (self.graph @ F) + Y
        return np.asarray(np.sign(F) * np.sqrt(np.abs(F)))

    def neighbours(self, U: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """The nearest rows of the gallery to each row u from elsewhere, and their weights, which sum to 1."""
        S = unwhitened(U) @ self.Z.T
        rows = top_k(S, min(DEGREE, len(self)))
        W = np.maximum(np.take_along_axis(S, rows, axis=1), 1e-6) ** 3
        return list(zip(rows, W / W.sum(axis=1, keepdims=True), strict=True))


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
