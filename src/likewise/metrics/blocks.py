"""Measures of a gallery that comes in blocks: two passes over it, and no array with an entry for each of its items.

Where a relevant item stands is how many items score above it, and that adds up over blocks. The first pass collects the
scores of the relevant items, the second counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np

from likewise.core.passes import ordered_map
from likewise.errors import LikewiseError
from likewise.metrics.evaluation import Evaluation, depths, measures_at, summarised
from likewise.metrics.problem import Relevance
from likewise.metrics.ranks import Ties, rank, ties_checked

__all__ = ["evaluate_blocks"]

_MOST_RELEVANT = 4_000_000  # scores of relevant items that are held at a time
_QUERIES = 128  # whose scores with one block are held by one thread

Blocks = Callable[[], Iterable[np.ndarray]]


def evaluate_blocks(
    Q: np.ndarray,
    blocks: Blocks,
    y_q: Any,
    y_g: Any,
    own: np.ndarray | None = None,
    *,
    ks: Iterable[int] = (1, 10),
    confidence: float = 0.95,
    ties: Ties = "expected",
    n_excluded: int = 0,
) -> Evaluation:
    """Every measure of queries Q against a gallery that `blocks()` gives block by block, each time anew.

    Parameters
    ----------
    Q : (n_q, r) query embeddings; each query has a relevant item.
    blocks : function that gives the (rows, r) embeddings of the gallery in order.
    y_q, y_g : labels of the queries, and of the gallery.
    own : the place of each query in the gallery, left out of its ranking; None if the queries are no part of it.
    n_excluded : queries without a relevant item that were not asked, to be reported.
    """
    ks, Q = depths(ks), np.asarray(Q)
    ties_checked(ties)
    relevance = Relevance.by_label(np.asarray(y_q), np.asarray(y_g))
    n_relevant = relevance.counts() - (0 if own is None else 1)
    if not n_relevant.all():
        raise LikewiseError(f"query {int(np.argmin(n_relevant))} of Q has no relevant item in the gallery")
    gallery = _Gallery(blocks, relevance, own)
    measures = measures_at(ks)
    done: list[list[np.ndarray]] = []
    for part in _shares(n_relevant):
        found = gallery.ranks(Q[part], part, n_relevant[part], ties)
        done.append([each(found) for each in measures.values()])
    per_query = dict(zip(measures, map(np.concatenate, zip(*done, strict=True)), strict=True))
    queries = np.arange(len(Q)) if own is None else own
    return summarised(per_query, ks, queries, relevance.code, n_excluded, confidence)


class _Gallery:
    """Blocks of a gallery, with the label of each item and the place of each query."""

    def __init__(self, blocks: Blocks, relevance: Relevance, own: np.ndarray | None) -> None:
        self.blocks, self.relevance, self.own = blocks, relevance, own
        self.n = len(relevance.items)

    def ranks(self, Q: np.ndarray, part: slice, n_relevant: np.ndarray, ties: Ties) -> Any:
        """Where the relevant items of some queries stand."""
        wanted: list[list[np.ndarray]] = [[] for _ in range(len(Q))]
        for first, S in self._scores(Q, part):
            for i, relevant in enumerate(self._relevant(part, first, S.shape[1])):
                wanted[i].append(S[i, relevant])
        best = [np.sort(np.concatenate(scores)) for scores in wanted]
        above = [np.zeros(len(scores), dtype=np.intp) for scores in best]
        upto = [np.zeros(len(scores), dtype=np.intp) for scores in best]
        for _, S in self._scores(Q, part):
            counts = ordered_map(partial(_counted, S, best), range(len(Q)))
            for i, (below, until) in enumerate(counts):
                above[i] += below
                upto[i] += until
        return rank(np.concatenate(above), np.concatenate(upto), n_relevant, ties)

    def _scores(self, Q: np.ndarray, part: slice) -> Iterator[tuple[int, np.ndarray]]:
        """Minus the scores of the queries with each block, itself behind everything; and where the block begins."""
        first = 0
        for G in self.blocks():
            G = np.asarray(G, dtype=Q.dtype)
            if first + len(G) > self.n:
                raise LikewiseError(f"the gallery gives more than the {self.n} rows that y_g has labels for")
            S = np.empty((len(Q), len(G)), dtype=Q.dtype)
            rows = [slice(a, a + _QUERIES) for a in range(0, len(Q), _QUERIES)]
            for chosen, scores in zip(rows, ordered_map(partial(_negated, Q, G), rows), strict=True):
                S[chosen] = scores
            if not np.isfinite(S).all():
                raise LikewiseError("Q and the gallery give scores that are not finite: scale them, or use float64")
            self._mask(S, part, first)
            yield first, S
            first += len(G)
        if first < self.n:
            raise LikewiseError(f"the gallery gives {first} rows and y_g has {self.n} labels: expected one a row")

    def _mask(self, S: np.ndarray, part: slice, first: int) -> None:
        if self.own is not None:
            place = self.own[part] - first
            here = np.flatnonzero((place >= 0) & (place < S.shape[1]))
            S[here, place[here]] = np.inf

    def _relevant(self, part: slice, first: int, width: int) -> Iterator[np.ndarray]:
        """The relevant items of each query in one block, by their places in it."""
        for query in range(part.start, part.stop):
            items = self.relevance.of(query)  # ascending: a stable sort by label
            inside = items[np.searchsorted(items, first) : np.searchsorted(items, first + width)]
            yield (inside if self.own is None else inside[inside != self.own[query]]) - first


def _negated(Q: np.ndarray, G: np.ndarray, part: slice) -> np.ndarray:
    return -Q[part] @ G.T


def _counted(S: np.ndarray, wanted: list[np.ndarray], i: int) -> tuple[np.ndarray, np.ndarray]:
    """How many scores of query i are below each wanted one, and how many below or equal."""
    row = np.sort(S[i])
    return row.searchsorted(wanted[i], "left"), row.searchsorted(wanted[i], "right")


def _shares(n_relevant: np.ndarray) -> Iterator[slice]:
    """Ranges of queries whose relevant items together are few enough to be held."""
    first, total = 0, 0
    for query, count in enumerate(n_relevant.tolist()):
        if total + count > _MOST_RELEVANT and query > first:
            yield slice(first, query)
            first, total = query, 0
        total += count
    yield slice(first, len(n_relevant))
