"""Metrics of a gallery that is read in blocks, without an array over all its items.

A first pass collects the scores of the relevant items; the second counts the items that score higher.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from likewise.errors import LikewiseError
from likewise.evaluate.evaluation import Evaluation, MetricName, measures_at
from likewise.evaluate.ranking import LabelRelevance, Ranks, rank
from likewise.utils.threads import ordered_map

_MOST_RELEVANT = 4_000_000  # scores of relevant items held in memory at a time
_QUERIES = 128  # queries that one thread scores at a time

Blocks = Callable[[], Iterable[np.ndarray]]


def evaluate_blocks(
    Q: np.ndarray,
    blocks: Blocks,
    y_q: ArrayLike,
    y_g: ArrayLike,
    query_rows: np.ndarray | None = None,
    *,
    ks: Iterable[int] = (1, 10),
    metric: MetricName = "map",
    confidence: float = 0.95,
    n_excluded: int = 0,
) -> Evaluation:
    """All metrics of the queries Q against a gallery that each call of `blocks()` yields block by block.

    Parameters
    ----------
    Q : (n_q, r) query embeddings; each query must have a relevant item.
    blocks : function that returns the gallery embeddings in order, in blocks of shape (rows, r).
    y_q, y_g : labels of the queries and of the gallery.
    query_rows : the row of each query in the gallery, excluded from its ranking; None if no query is in the gallery.
    metric : as in `evaluate`.
    n_excluded : number of queries without a relevant item, which are not in Q; only reported.
    """
    measures, Q = measures_at(ks, metric), np.asarray(Q)
    relevance = LabelRelevance.by_label(np.asarray(y_q), np.asarray(y_g))
    n_relevant = relevance.counts() - (0 if query_rows is None else 1)
    if not n_relevant.all():
        raise LikewiseError(f"query {int(np.argmin(n_relevant))} of Q has no relevant item in the gallery")
    gallery = _BlockedGallery(blocks, relevance, query_rows)
    parts = (gallery.ranks(Q[part], part, n_relevant[part]) for part in _shares(n_relevant))
    values = [[measure(ranks) for measure in measures.values()] for ranks in parts]
    per_query = dict(zip(measures, map(np.concatenate, zip(*values, strict=True)), strict=True))
    rows = np.arange(len(Q)) if query_rows is None else query_rows
    return Evaluation.of(rows, per_query, relevance.code, n_excluded, confidence, metric)


class _BlockedGallery:
    """Blocks of a gallery, the relevant items of each query and its own row."""

    def __init__(self, blocks: Blocks, relevance: LabelRelevance, query_rows: np.ndarray | None) -> None:
        self.blocks, self.relevance, self.query_rows = blocks, relevance, query_rows
        self.n = len(relevance.items)

    def ranks(self, Q: np.ndarray, part: slice, n_relevant: np.ndarray) -> Ranks:
        wanted: list[list[np.ndarray]] = [[] for _ in range(len(Q))]
        for first, S in self._scores(Q, part):
            for i, relevant in enumerate(self._relevant(part, first, S.shape[1])):
                wanted[i].append(S[i, relevant])
        best = [np.sort(np.concatenate(scores)) for scores in wanted]
        above = [np.zeros(len(scores), dtype=np.intp) for scores in best]
        upto = [np.zeros(len(scores), dtype=np.intp) for scores in best]
        for _, S in self._scores(Q, part):
            for i, (below, until) in enumerate(ordered_map(partial(_counted, S, best), range(len(Q)))):
                above[i] += below
                upto[i] += until
        return rank(np.concatenate(above), np.concatenate(upto), n_relevant)

    def _scores(self, Q: np.ndarray, part: slice) -> Iterator[tuple[int, np.ndarray]]:
        """First row of each block, and the negated scores of the queries with it; a query itself is last."""
        first = 0
        for G in self.blocks():
            G = np.asarray(G, dtype=Q.dtype)
            if first + len(G) > self.n:
                raise LikewiseError(f"the gallery has more than the {self.n} rows that y_g has labels for")
            S = np.empty((len(Q), len(G)), dtype=Q.dtype)
            rows = [slice(a, a + _QUERIES) for a in range(0, len(Q), _QUERIES)]
            for chosen, scores in zip(rows, ordered_map(partial(_negated, Q, G), rows), strict=True):
                S[chosen] = scores
            if not np.isfinite(S).all():
                raise LikewiseError("the scores of Q with the gallery are not finite: scale them, or use float64")
            if self.query_rows is not None:
                place = self.query_rows[part] - first
                here = np.flatnonzero((place >= 0) & (place < len(G)))
                S[here, place[here]] = np.inf
            without = self.relevance.unlabelled - first
            S[:, without[(without >= 0) & (without < len(G))]] = np.inf
            yield first, S
            first += len(G)
        if first < self.n:
            raise LikewiseError(f"the gallery has {first} rows and y_g {self.n} labels: expected one per row")

    def _relevant(self, part: slice, first: int, width: int) -> Iterator[np.ndarray]:
        """The relevant items of each query within one block, as columns of it."""
        for query in range(part.start, part.stop):
            items = self.relevance.of(query)  # ascending, by the stable sort
            inside = items[np.searchsorted(items, first) : np.searchsorted(items, first + width)]
            yield (inside if self.query_rows is None else inside[inside != self.query_rows[query]]) - first


def _negated(Q: np.ndarray, G: np.ndarray, part: slice) -> np.ndarray:
    return -Q[part] @ G.T


def _counted(S: np.ndarray, wanted: list[np.ndarray], i: int) -> tuple[np.ndarray, np.ndarray]:
    """Number of scores of query i below each wanted one, and number below or equal."""
    row = np.sort(S[i])
    return row.searchsorted(wanted[i], "left"), row.searchsorted(wanted[i], "right")


def _shares(n_relevant: np.ndarray) -> Iterator[slice]:
    """Ranges of queries whose relevant items together fit in memory."""
    first, total = 0, 0
    for query, count in enumerate(n_relevant.tolist()):
        if total + count > _MOST_RELEVANT and query > first:
            yield slice(first, query)
            first, total = query, 0
        total += count
    yield slice(first, len(n_relevant))
