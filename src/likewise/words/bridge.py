"""The learned bridge: from phrases and the pictures that carry them to a similarity of phrases and pictures.

The start scores phrase t and picture x by s₀(t, x). What it misses is learned in closed form, by ridge on both sides of
the pairs Y of taught phrases T and their pictures X: s = s₀ + x B (λ a(t) − γ (1 − cos(t, T))), where
B = (XᵀX + β)⁻¹ Xᵀ Yᵀ says how much a picture belongs to each taught phrase, and a(t) = (K + α)⁻¹ k(t, T), with
k = exp((cos − 1) / WIDTH), how much of each is in the phrase. So a taught phrase finds its pictures, a phrase near it
follows, and pictures of other taught phrases step back. How much untaught phrases may move (λ, γ) is
chosen on taught phrases that were left out, and is zero unless they clearly gain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from sklearn.preprocessing import normalize

from likewise.evaluate import average_precision
from likewise.learn.choose.search import Search

# Chosen on one half of Tux Paint's stamps and on half of the classes of a sample of Caltech101, see docs/pictures.md.
WIDTH = 0.3  # of the kernel of phrases, in cosines
ALPHA, BETA = 0.3, 1.0  # ridges: of the kernel, and of pictures in units of the mean eigenvalue
KNOWN = 3.0  # λ of a taught phrase
NARROW = 0.1  # how fast λ falls from a taught phrase to an untaught one, in cosines
Strength = tuple[float, float]  # λ and γ
STRENGTHS = ((0.0, 0.0), (0.0, 0.3), (1.0, 0.0), (1.0, 0.3), (3.0, 0.0), (3.0, 0.3))
FOLDS = 5
LEAST = 10  # taught phrases, below which nothing is chosen
FEW = 20  # pictures of a phrase that choose: more take longer and say the same
MOST = 3000  # taught phrases: the kernel of all pairs has 72 MB then


@dataclass(frozen=True, eq=False)
class Bridge:
    """What was taught: embeddings of the phrases, and the two sides of the ridge.

    Attributes
    ----------
    sentences : (m, e) embeddings of the taught phrases
    mean : (d,) mean of the features that pictures are centred by
    belongs : (d, m) B above
    mixed : (d, m) B (K + α)⁻¹
    strength : λ and γ of untaught phrases
    gain : (start, bridge) mean average precision of phrases left out; None if there were too few phrases
    """

    sentences: np.ndarray
    mean: np.ndarray
    belongs: np.ndarray
    mixed: np.ndarray
    strength: Strength = (0.0, 0.0)
    gain: tuple[float, float] | None = None

    def pictures(self, X: np.ndarray) -> np.ndarray:
        """Rows of pictures from their features: centred, of unit length."""
        return np.asarray(normalize(np.asarray(X, np.float32) - self.mean))

    def queries(self, sentences: np.ndarray) -> np.ndarray:
        """What phrases add to the score of a row of a picture, (n, d)."""
        near = sentences @ self.sentences.T
        weak, aside = self.strength
        strong = weak + (KNOWN - weak) * np.exp((near.max(axis=1, keepdims=True) - 1) / NARROW)
        drawn = strong * (_kernel(near) @ self.mixed.T)
        return np.asarray(drawn - aside * (1 - np.clip(near, 0, 1)) @ self.belongs.T, np.float32)


def _kernel(near: np.ndarray) -> np.ndarray:
    return np.asarray(np.exp((near - 1) / WIDTH))


def fit_bridge(sentences: np.ndarray, X: np.ndarray, Y: np.ndarray, start: np.ndarray) -> Bridge:
    """Learn from embeddings of m phrases, features of n pictures, and which belong together, Y (m, n) of 0 and 1.

    `start` are the scores of the start, (m, n), on the scale of `best_is_one`.
    """
    return _solved(sentences, X, Y, *chosen_strength(sentences, X, Y, start))


def _solved(
    sentences: np.ndarray, X: np.ndarray, Y: np.ndarray, strength: Strength, gain: tuple[float, float] | None = None
) -> Bridge:
    mean = np.asarray(X, np.float32).mean(axis=0)
    Z = normalize(np.asarray(X, np.float32) - mean).astype(np.float64)
    belongs = _ridge(Z, Y.T)
    K = _kernel(sentences @ sentences.T).astype(np.float64)
    K[np.diag_indices_from(K)] += ALPHA
    mixed = np.linalg.solve(K, belongs.T).T
    arrays = [np.asarray(part, np.float32) for part in (sentences, mean, belongs, mixed)]
    return Bridge(arrays[0], arrays[1], arrays[2], arrays[3], strength, gain)


def _ridge(Z: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """(ZᵀZ + β)⁻¹ Zᵀ Y, on the smaller side; β in units of the mean eigenvalue."""
    n, d = Z.shape
    beta = BETA * max(float((Z**2).sum()) / d, 1e-12)
    if n < d:
        return np.asarray(Z.T @ np.linalg.solve(Z @ Z.T + beta * np.eye(n), Y))
    return np.asarray(np.linalg.solve(Z.T @ Z + beta * np.eye(d), Z.T @ Y))


def chosen_strength(
    sentences: np.ndarray, X: np.ndarray, Y: np.ndarray, start: np.ndarray
) -> tuple[Strength, tuple[float, float] | None]:
    """λ and γ that rank the pictures of left-out phrases best, and mean average precision at the start and there.

    The start is chosen unless the gain is above its standard deviation over the folds.
    """
    m = len(sentences)
    if m < LEAST:
        return STRENGTHS[0], None
    few = np.unique(np.concatenate([rows[:: -(-len(rows) // FEW) or 1] for rows in map(np.flatnonzero, Y)]))  # evenly
    X, Y, start = X[few], Y[:, few], start[:, few]
    fold = np.random.default_rng(0).permutation(m) % FOLDS
    parts = (_left_out(sentences, X, Y, start, fold == part) for part in range(FOLDS))
    search: Search[Strength, _LeftOut] = Search(_LeftOut.precision, parts, describe=lambda pair: {"strength": pair})
    best = search.best(STRENGTHS)
    if not search.clearly_better(best, STRENGTHS[0]):
        best = STRENGTHS[0]
    return best, (search.score(STRENGTHS[0]), search.score(best))


class _LeftOut(NamedTuple):
    """Phrases that were left out, their scores at the start and pictures, and the bridge learned without either."""

    sentences: np.ndarray
    start: np.ndarray
    Y: np.ndarray
    bridge: Bridge
    rows: np.ndarray

    def precision(self, strength: Strength) -> float:
        """Mean average precision of the phrases."""
        S = self.start + replace(self.bridge, strength=strength).queries(self.sentences) @ self.rows.T
        return float(np.mean([average_precision(s, y > 0) for s, y in zip(S, self.Y, strict=True)]))


def _left_out(sentences: np.ndarray, X: np.ndarray, Y: np.ndarray, start: np.ndarray, out: np.ndarray) -> _LeftOut:
    rest = Y[out].sum(axis=0) == 0
    taught = ~out & (Y[:, rest].sum(axis=1) > 0)
    bridge = _solved(sentences[taught], X[rest], Y[np.ix_(taught, rest)], STRENGTHS[0])
    return _LeftOut(sentences[out], start[out], Y[out], bridge, bridge.pictures(X))


def best_is_one(S: np.ndarray) -> np.ndarray:
    """Scores of each phrase, (n, items), on a common scale: 1 for the item that fits best, 0 for an average one."""
    above = S - S.mean(axis=1, keepdims=True)
    return np.asarray(above / np.maximum(above.max(axis=1, keepdims=True), 1e-12), np.float32)


def pairs_of(texts: Sequence[Sequence[str]]) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Distinct texts, the most frequent first and at most MOST, with the pairs (text, item) of the texts of items."""
    counts: dict[str, int] = {}
    for phrases in texts:
        for text in set(phrases):
            counts[text] = counts.get(text, 0) + 1
    distinct = sorted(counts, key=lambda text: (-counts[text], text))[:MOST]
    place = {text: number for number, text in enumerate(distinct)}
    numbers = [(place[text], item) for item, phrases in enumerate(texts) for text in set(phrases) if text in place]
    pairs = np.array(numbers, dtype=np.int64).reshape(-1, 2)
    return distinct, pairs[:, 0], pairs[:, 1]
