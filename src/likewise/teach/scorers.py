"""A concept as a scorer: from some rows that belong to it, and some that do not, to a score for every row.

Three scorers are summed, each standardised over the gallery: (a) logistic regression and (b) kernel ridge, both against
a random background of the gallery, and (c) what the examples spread over a graph of nearest neighbours:

    score = z(a) + z(b) + 4 p³ z(c),   p = |right| / (|right| + |wrong| + 1).

With u = [z, w] / √2, where z is a row, centred and of unit length, and w the same after whitening, (a) has the kernel
u·u' and is linear in u, and (b) has the kernel exp(u·u' - 1). What depends only on the gallery is computed once.

Where colours c of the pictures are known, u becomes [√(1 - s) u, √s c], with the share s that tells the marks apart
best when each is left out: 0 unless another one is clearly better. The graph, which knows no colours, then counts less.
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

from likewise.learn.maths.scatter import gram_eigenvectors
from likewise.search.rank import Exact
from likewise.utils.arrays import top_k

# Measured by `python -m benchmarks teaching_concepts`: results hardly change around these values.
WIDTH = 512  # leading directions of the rows, if they have more
ROUNDING = 1e-10  # of the largest variance
SHRINKAGE = 10.0  # added to the eigenvalues before whitening, in units of their mean
BACKGROUND = 300  # random rows that stand for what does not belong
OFFSET, C = 10.0, 10.0  # of the logistic regression: a constant in its kernel, and the inverse of the penalty
STEPS = 8  # of Newton's method
RIDGE, LIGHT = 0.1, 0.02  # of the kernel ridge, and the weight of a background row in it
DEGREE, DAMPING, ROUNDS = 10, 0.98, 30  # of the graph, and of spreading over it
GRAPH, POWER = 4.0, 3  # weight of (c) if p is 1, and power of p: what is left after many marks is not near right ones
AGAINST = 0.6  # weight of wrong examples in the graph; half of it for the first mark of a query
LEAST_SHARE = 0.7  # p where only wrong ones were marked: what was left unmarked among the results is not wrong
COLOUR_SHARES = (0.0, 0.25, 0.5, 0.75)
FEWEST_FOR_COLOUR, CLEARLY = 3, 0.5  # marks of either kind, and by how many standard errors of the AUROC
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
        values, vectors = gram_eigenvectors(Z, None)
        variances, floor = values[:WIDTH] / len(Z), SHRINKAGE * max(float(values.sum()) / Z.size, 1e-12)
        varies = variances > ROUNDING * variances[0]
        varies[0] = True  # even if all rows are equal
        spreads = np.sqrt(variances[varies] + floor)
        return cls(centre, vectors[:, :WIDTH][:, varies].astype(np.float32), spreads.astype(np.float32))

    def __call__(self, V: np.ndarray) -> np.ndarray:
        """u of rows, (n, 2r)."""
        Z = normalize((np.asarray(V, np.float32) - self.centre) @ self.directions)
        return np.hstack([Z, normalize(Z / self.spreads)]) * np.float32(np.sqrt(0.5))


@dataclass(frozen=True)
class Examples:
    """Unit rows u that belong to a concept or do not, and which rows of the gallery they are, -1 for none of them.

    `others` are those that nobody marked wrong, but that have another label.
    """

    U: np.ndarray
    right: np.ndarray
    rows: np.ndarray
    others: np.ndarray

    def __len__(self) -> int:
        return len(self.U)

    def take(self, which: np.ndarray) -> Self:
        """Some of the examples."""
        return type(self)(self.U[which], self.right[which], self.rows[which], self.others[which])

    def share(self) -> float:
        """p: how much the graph counts."""
        n_right, n_wrong = int(self.right.sum()), int((~self.right & ~self.others).sum())
        share = n_right / (n_right + n_wrong + 1)
        return max(share, LEAST_SHARE) if n_right <= 1 else share


class Scorers:
    """All that the concepts of a gallery share: its rows u, a background, and a graph of nearest neighbours."""

    def __init__(self, V: np.ndarray, space: Space | None = None, background: np.ndarray | None = None) -> None:
        """From the rows of a gallery; `space` and the background's rows u are those of a larger one."""
        self.colours: np.ndarray | None = None  # of the rows, at unit length
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
        return Examples(self.U[rows], np.arange(len(rows)) < len(right), rows, np.zeros(len(rows), bool))

    def scores(self, examples: Examples, parts: Sequence[np.ndarray] | None = None) -> np.ndarray:
        """Scores of all rows by some examples, of which one is right, (n,); by each part of them, (parts, n).

        Parts are booleans.
        """
        if parts is None:
            return np.asarray(self.scores(examples, [np.ones(len(examples), bool)])[0])
        share = self.colour_share(examples)
        U, L = self._with_colours(examples, share)
        far = self._far if share == 0 else np.exp(U @ L[len(examples) :].T - 1)
        is_mark = np.arange(len(L)) < len(examples)
        is_far = self._is_far(examples)
        K, near = L @ L.T, np.exp(U @ L[: len(examples)].T - 1)
        right = np.concatenate([examples.right, np.zeros(len(self.background), bool)])
        kernels = np.empty((len(self), len(parts)), np.float32)
        for column, part in enumerate(parts):
            used = np.flatnonzero(np.concatenate([part, is_far]))
            mark, target = is_mark[used], right[used].astype(np.float64)
            K_used = K[np.ix_(used, used)].astype(np.float64)
            n_wrong = max(1.0, float((mark & (target == 0)).sum()))
            weights = np.where(mark, 1.0, n_wrong / max(1, (~mark).sum()))
            linear = L[used].T @ _logistic(K_used + OFFSET, target, C * weights).astype(np.float32)
            beta = np.zeros(len(L), np.float32)
            beta[used] = _ridge(np.exp(K_used - 1), target, RIDGE / np.where(mark, 1.0, LIGHT))
            ridge = near @ beta[: len(examples)] + far @ beta[len(examples) :]
            kernels[:, column] = _standardised(U @ linear) + _standardised(ridge)
        weight = (1 - share) * GRAPH * np.array([examples.take(part).share() ** POWER for part in parts], np.float32)
        return np.asarray((kernels + weight * _standardised(self._spread(examples, parts))).T)

    def _is_far(self, examples: Examples) -> np.ndarray:
        """Which rows of the background are not among the examples."""
        return ~np.isin(self._rows, examples.rows[examples.rows >= 0])

    def _with_colours(self, examples: Examples, share: float) -> tuple[np.ndarray, np.ndarray]:
        """Rows of the gallery, and of examples and background, with a share of colours, 0 where unknown."""
        L = np.vstack([examples.U, self.background])
        if share == 0 or self.colours is None:
            return self.U, L
        rows = np.concatenate([examples.rows, self._rows])
        both = (self.U, self.colours), (L, np.where((rows >= 0)[:, None], self.colours[rows], 0))
        one, two = (np.hstack([np.sqrt(1 - share) * u, np.sqrt(share) * c]).astype(np.float32) for u, c in both)
        return one, two

    def colour_share(self, examples: Examples) -> float:
        """s: by how often a right mark is above a wrong one in kernel ridge regression without either of them."""
        n_right, n_wrong = int(examples.right.sum()), int((~examples.right).sum())
        if self.colours is None or min(n_right - 1, n_wrong) < FEWEST_FOR_COLOUR:
            return 0.0
        used = np.concatenate([np.ones(len(examples), bool), self._is_far(examples)])
        target = np.concatenate([examples.right, np.zeros(used.sum() - len(examples), bool)]).astype(np.float64)
        ridge = RIDGE / np.where(np.arange(len(target)) < len(examples), 1.0, LIGHT)
        areas = []
        for share in COLOUR_SHARES:
            L = self._with_colours(examples, share)[1][used].astype(np.float64)
            inverse = np.linalg.inv(np.exp(L @ L.T - 1) + np.diag(ridge))
            left_out = (target - inverse @ target / np.diag(inverse))[: len(examples)]
            areas.append(float((left_out[examples.right][:, None] > left_out[~examples.right]).mean()))
        error = np.sqrt((1 / n_right + 1 / n_wrong) / 12)
        best = int(np.argmax(areas))
        return COLOUR_SHARES[best] if areas[best] > areas[0] + CLEARLY * error else 0.0

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
        F = Y = near @ shares.astype(np.float32)
        for _ in range(ROUNDS):
            F = np.float32(DAMPING) * (self.graph @ F) + Y
        F = np.sqrt(F)
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
