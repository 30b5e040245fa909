"""Whether a map learned from clicks ranks better than the raw cosine, judged by the clicks of held-out queries.

Clicks come from what was shown, and that was mostly chosen by the raw cosine: the clicked items of a query are near it
by construction, and hardly any other ranking can beat the raw one on them. What the raw cosine did not choose are the
items clicked for *related* queries, those that share a click with this one. They are ranked among all items clicked for
held-out queries, without those at least as close to the query as its own clicks, which it may have been shown.
On simulated logs the gain in this mAP follows the gain in the true one; the gain on the clicks themselves does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from likewise.evaluate.evaluation import average_precision
from likewise.rows.relevance import Relevance

MOST_HELD = 1_000  # queries of a fold; more take time and hardly change the choice
FEWEST = 10  # held-out queries with something to find, below which nothing is judged
ERRORS = 3.0  # standard errors that a gain must exceed: queries share items and are not independent


@dataclass(frozen=True, eq=False)
class HeldQueries:
    """Held-out queries, the items that they rank, and for each query which items count and which are relevant.

    `seen` is the relevance to learn from.
    """

    seen: sp.csr_array
    queries: np.ndarray
    items: np.ndarray
    counted: np.ndarray
    relevant: np.ndarray

    def average_precisions(self, Z_q: np.ndarray, Z_g: np.ndarray) -> np.ndarray:
        """Average precision of each query, from the images of all queries and of all items."""
        S = Z_q[self.queries] @ Z_g[self.items].T
        rows = zip(S, self.counted, self.relevant, strict=True)
        return np.array([average_precision(scores[there], found[there]) for scores, there, found in rows])


def query_folds(
    relevance: Relevance, Q: np.ndarray, G: np.ndarray, rng: np.random.Generator, ids: np.ndarray | None = None
) -> list[HeldQueries]:
    """Half of the queries held out, both ways; none if too few of them have something to find.

    `ids` are the row numbers of the items among the queries, where both are of one set.
    """
    told = rng.permutation(np.flatnonzero(np.diff(positives(relevance.R).indptr)))
    halves = told[::2], told[1::2]
    folds = [_fold(relevance, Q, G, seen, held, ids) for seen, held in (halves, halves[::-1])]
    return folds if all(len(fold.queries) >= FEWEST and fold.seen.data.any() for fold in folds) else []


def positives(R: sp.csr_array) -> sp.csr_array:
    """The relevant pairs, without stored zeros."""
    kept = R.copy()
    kept.data = (kept.data > 0).astype(np.float64)
    kept.eliminate_zeros()
    return kept


def _fold(
    relevance: Relevance, Q: np.ndarray, G: np.ndarray, seen: np.ndarray, held: np.ndarray, ids: np.ndarray | None
) -> HeldQueries:
    hidden = np.zeros(relevance.shape[1], dtype=bool) if ids is None else np.isin(ids, held)
    learned = _without(relevance.R, seen, hidden)
    held = np.sort(held[:MOST_HELD])
    R = positives(relevance.R[held])
    items = np.arange(R.shape[1]) if relevance.complete else np.unique(R.indices)
    P, S = R[:, items].toarray() > 0, Q[held] @ G[items].T
    counted, relevant = (np.ones_like(P), P) if relevance.complete else _related(P, S)
    if ids is not None:
        counted = counted & (held[:, None] != ids[items])
    relevant = relevant & counted
    kept = relevant.any(axis=1) & (counted & ~relevant).any(axis=1)
    return HeldQueries(learned, held[kept], items, counted[kept], relevant[kept])


def _without(R: sp.csr_array, queries: np.ndarray, hidden: np.ndarray) -> sp.csr_array:
    """The pairs of some queries, without those of hidden items: where items are queries, held-out ones."""
    there = np.zeros(R.shape[0], dtype=bool)
    there[queries] = True
    rows = np.repeat(np.arange(R.shape[0]), np.diff(R.indptr))
    kept = there[rows] & ~hidden[R.indices]
    return sp.csr_array((R.data[kept], (rows[kept], R.indices[kept])), shape=R.shape)


def _related(P: np.ndarray, S: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which items count for each query, and which are relevant: those of related queries, beyond its own clicks.

    P are clicks, S raw scores. Where hardly any two queries share a click, a query ranks its own clicks: this favours
    the raw cosine, so that what is accepted then is better still.
    """
    clicks = P.astype(np.float32)
    related = clicks @ clicks.T > 0
    np.fill_diagonal(related, False)
    relevant = related.astype(np.float32) @ clicks > 0
    counted = np.where(P, S, np.inf).min(axis=1, initial=np.inf)[:, None] > S
    enough = (relevant & counted).any(axis=1).sum() >= FEWEST
    return (counted, relevant) if enough else (np.ones_like(P), P)


# ---------------------------------------------------------------------------------------------------------------------
# The decision


@dataclass(frozen=True)
class Verdict:
    """mAP of held-out queries by the raw cosine and by the learned map, their number, and whether the map is used."""

    raw: float
    mAP: float
    rows: int
    accepted: bool


def decide(raw: list[np.ndarray], tried: list[list[np.ndarray]]) -> tuple[int, Verdict]:
    """The best setting, and the verdict on it; `raw` and each of `tried` have the queries' precisions by fold.

    Each fold is judged by the setting that is best on the other folds, so that choosing among many gives no gain of
    its own.
    """
    before = np.concatenate(raw)
    after = np.concatenate([tried[choice][fold] for fold, choice in _crosswise(tried)])
    gain = after - before
    accepted = bool(gain.mean() > ERRORS * gain.std() / np.sqrt(len(gain)))
    best = int(np.argmax([np.concatenate(scores).mean() for scores in tried]))
    return best, Verdict(float(before.mean()), float(after.mean()), len(gain), accepted)


def _crosswise(tried: list[list[np.ndarray]]) -> Iterator[tuple[int, int]]:
    for fold in range(len(tried[0])):
        others = [np.concatenate([part for i, part in enumerate(scores) if i != fold]) for scores in tried]
        yield fold, int(np.argmax([scores.mean() for scores in others]))
