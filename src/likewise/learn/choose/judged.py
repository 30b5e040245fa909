"""Held-out queries: what a ranking is worth for items known from other queries, and for new ones; and the choice by it.

A query is held out in two views. "Natural": its judgements alone are left out, so its items may be known from other
queries. "Cold": all judgements of its relevant items are left out too, as if they were new.

Clicks come from what was shown, mostly by the raw cosine: the clicked items of a query are near it by construction,
and hardly any other ranking beats the raw one on them. What the raw cosine did not choose are the items clicked for
*related* queries, those that share a click. They are ranked without items at least as close to the query as its own
clicks, which it may have been shown.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from likewise.learn.maths.rocchio import PairScatter, row_weights
from likewise.utils.arrays import dense

FOLDS = 3
MOST_JUDGED = 450  # queries that settings are judged by; more cost time and hardly change the choice
MOST_LEARNED = 20_000  # queries that are learned from while settings are judged
MOST_ITEMS = 20_000  # items that they rank: those judged for them, and others
FEWEST = 10  # held-out queries, below which nothing is judged
DEPTH = 10  # of nDCG@10
ROUNDING = 2e-6  # of scores and of mean qualities: rows in another order give other digits, and must give equal choices


@dataclass(frozen=True)
class Judgements:
    """Unit rows of queries and items, the gains of relevant pairs, and pairs known to be irrelevant.

    Rows are in an order of their content, and queries are distinct.

    Attributes
    ----------
    mean : of all items, of which those never judged may be left out here.
    own : the items that each query itself is, equal rows too, if both are one set.
    clicked : whether only items that were shown could get a gain.
    raw : both sides as they were, if Q and G are their leading directions.
    two_widths : whether queries and items have no space in common, and so no raw cosine.
    """

    Q: np.ndarray
    G: np.ndarray
    gains: sp.csr_array
    zeros: sp.csr_array
    mean: np.ndarray
    own: sp.csr_array | None = None
    clicked: bool = False
    raw: tuple[sp.csr_array | np.ndarray, sp.csr_array | np.ndarray] | None = None
    two_widths: bool = False

    @cached_property
    def W(self) -> sp.csr_array:
        return row_weights(self.gains)

    @cached_property
    def scatter(self) -> PairScatter:
        return PairScatter.of(self.Q, self.G, self.W, self.zeros, self.mean)

    def first(self, n: int) -> Judgements:
        """Of the first n queries: as good as drawn at random, since their order is that of hashes."""
        if len(self.Q) <= n:
            return self
        raw = None if self.raw is None else (self.raw[0][:n], self.raw[1])
        own = None if self.own is None else self.own[:n]
        return replace(self, Q=self.Q[:n], gains=self.gains[:n], zeros=self.zeros[:n], own=own, raw=raw)

    def without(self, queries: np.ndarray, items: bool) -> Judgements:
        """What is left without the judgements of some queries; without all judgements of their relevant items too."""
        row, column = np.ones(len(self.Q)), np.ones(len(self.G))
        row[queries] = 0
        if items:
            column[self.gains[queries].indices] = 0
        if self.own is not None:  # a pair of one set is there twice, the other way round too
            column[self.own[queries].indices] = 0
        return replace(self, gains=_masked(self.gains, row, column), zeros=_masked(self.zeros, row, column))


def _masked(R: sp.csr_array, row: np.ndarray, column: np.ndarray) -> sp.csr_array:
    masked = sp.csr_array(R.multiply(row[:, None]).multiply(column[None, :]))
    masked.eliminate_zeros()
    return masked


def mean(values: np.ndarray) -> float:
    """Mean over the queries that have something to find; 0 if none has."""
    values = values[np.isfinite(values)]
    return float(values.mean()) if len(values) else 0.0


# -- Ranking quality of held-out queries ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Targets:
    """What some queries should find: flat lists of (query, item, gain), and pairs that do not take part."""

    n: int
    queries: np.ndarray
    items: np.ndarray
    gains: np.ndarray
    hidden: np.ndarray | None

    @classmethod
    def of(cls, gains: sp.csr_array, hidden: np.ndarray | None) -> Targets:
        part = gains.tocoo()
        order = np.lexsort((-part.data, part.row))
        return cls(gains.shape[0], part.row[order], part.col[order], part.data[order], hidden)

    @cached_property
    def _starts(self) -> np.ndarray:
        return np.searchsorted(self.queries, np.arange(self.n + 1))

    @cached_property
    def _ideal(self) -> tuple[np.ndarray, np.ndarray]:
        ranks = np.arange(len(self.queries)) - self._starts[self.queries]
        return self._sums(ranks)

    def _sums(self, ranks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        value = self.gains / np.log2(ranks + 2)
        whole = np.bincount(self.queries, value, minlength=self.n)
        return np.bincount(self.queries, value * (ranks < DEPTH), minlength=self.n), whole

    def quality(self, S: np.ndarray) -> np.ndarray:
        """The mean of nDCG@10, which is what is seen, and nDCG, which shows classes behind clicks."""
        return np.mean(self.ndcg(S), axis=0)

    def ndcg(self, S: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """nDCG@10 and nDCG of each query from its scores; nan where it has nothing to find."""
        if self.hidden is not None:
            S = np.where(self.hidden, -np.inf, S)
        ranks = np.empty(len(self.queries))
        for query in range(self.n):
            part = slice(self._starts[query], self._starts[query + 1])
            ranks[part] = _places(S[query], self.items[part])
        with np.errstate(invalid="ignore", divide="ignore"):
            at, whole = (gained / ideal for gained, ideal in zip(self._sums(ranks), self._ideal, strict=True))
        return at, whole


def _places(scores: np.ndarray, items: np.ndarray) -> np.ndarray:
    """Places from 0 of some items; scores that are equal but for rounding are at their mean place."""
    high, low = scores[items] + ROUNDING, scores[items] - ROUNDING
    ordered = np.sort(scores)
    above = len(scores) - np.searchsorted(ordered, high, side="right")
    upto = len(scores) - np.searchsorted(ordered, low, side="left")
    return np.asarray((above + upto - 1) / 2)


class HeldQueries:
    """Some queries, the items that they rank, and what they should find; each query is in one of three folds."""

    def __init__(self, known: Judgements) -> None:
        self.known, self.queries = known, np.flatnonzero(np.diff(known.gains.indptr))[:MOST_JUDGED]
        self.items = _pool(known, self.queries)
        self.Q, self.G = known.Q[self.queries], known.G[self.items]
        Q, G = (known.Q, known.G) if known.raw is None else known.raw
        self.raw_scores = np.zeros((len(self.queries), len(self.items)), dtype=np.float32)
        if not known.two_widths:
            self.raw_scores = np.asarray(dense(Q[self.queries] @ G[self.items].T))
        self.gains = known.gains[self.queries][:, self.items]
        self.folds = [np.arange(fold, len(self.queries), FOLDS) for fold in range(FOLDS)]
        self.by_related, self.targets = self._targets(np.arange(len(self.queries)))
        self.fold_targets = [self._targets(fold)[1] for fold in self.folds]
        self.own_clicks = Targets.of(self.gains, self._itself(self.queries)) if self.by_related else None
        self.raw_of_own = 0.0 if self.own_clicks is None else mean(self.own_clicks.quality(self.raw_scores))

    def __len__(self) -> int:
        return len(self.queries)

    def _targets(self, fold: np.ndarray) -> tuple[bool, Targets]:
        """What the queries of a fold should find, and whether that is what was clicked for related ones."""
        itself = self._itself(self.queries[fold])
        clicked = self.known.clicked and not self.known.two_widths
        related = related_items(self.gains[fold], self.raw_scores[fold]) if clicked else None
        if related is None:
            return False, Targets.of(self.gains[fold], itself)
        return True, Targets.of(related[0], related[1] if itself is None else related[1] | itself)

    def _itself(self, queries: np.ndarray) -> np.ndarray | None:
        """Which of the items each query itself is."""
        return None if self.known.own is None else self.known.own[queries][:, self.items].toarray() > 0

    def lost(self, S: np.ndarray) -> float:
        """By how much more than a quarter a ranking makes the own clicks of queries harder to find, where that counts.

        Rankings that are better in truth lost up to an eighth on simulated logs.
        """
        if self.own_clicks is None:
            return 0.0
        return min(0.0, mean(self.own_clicks.quality(S)) - 0.75 * self.raw_of_own)

    @cached_property
    def groups(self) -> list[np.ndarray]:
        """For each query all queries that share a relevant item with it, itself first."""
        related = sp.csr_array((self.known.gains > 0).astype(np.float32))
        if self.known.own is not None:
            related += self.known.own
        shared = sp.csr_array(related[self.queries] @ related.T)
        parts = zip(self.queries, shared.indptr, shared.indptr[1:], strict=False)
        return [np.concatenate([[query], np.setdiff1d(shared.indices[a:b], [query])]) for query, a, b in parts]


def _pool(known: Judgements, queries: np.ndarray) -> np.ndarray:
    """The items that some queries rank: all, or those judged for them and the first of the others."""
    n = len(known.G)
    if n <= MOST_ITEMS:
        return np.arange(n)
    judged = np.unique(np.concatenate([known.gains[queries].indices, known.zeros[queries].indices]))
    others = np.setdiff1d(np.arange(min(n, MOST_ITEMS)), judged)[: max(MOST_ITEMS - len(judged), 0)]
    return np.sort(np.concatenate([judged, others]))


def related_items(gains: sp.csr_array, S: np.ndarray) -> tuple[sp.csr_array, np.ndarray] | None:
    """Items clicked for related queries, and those hidden: near ones, and those that nobody clicked.

    None where hardly any two queries share a click.
    """
    clicks = (gains > 0).astype(np.float32)
    related = sp.csr_array(clicks @ clicks.T)
    related.setdiag(0)
    related.eliminate_zeros()
    wanted = ((related > 0).astype(np.float32) @ clicks).toarray() > 0
    lowest = np.full(len(S), np.inf)
    np.minimum.at(lowest, np.repeat(np.arange(len(S)), np.diff(gains.indptr)), S[gains.nonzero()])
    hidden = (lowest[:, None] <= S) | (clicks.sum(axis=0) == 0)
    wanted &= ~hidden
    enough = wanted.any(axis=1).sum() >= FEWEST
    return (sp.csr_array(wanted.astype(float)), hidden) if enough else None
