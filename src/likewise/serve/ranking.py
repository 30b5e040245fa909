"""The order of the items for one query, page by page: pages never overlap, wherever each of them was found."""

import threading
from collections.abc import Callable

import numpy as np

from likewise.search.rank import top_k
from likewise.serve.space import Space

Found = tuple[np.ndarray, np.ndarray]  # rows and their scores, best first
_AHEAD = 1_000  # results found at a time; then twice as many as were asked for
LONGEST = 50_000  # results that are kept for the next page


class Ranking:
    """Rows and scores, best first, of `total` items; `exact` finds the first k, `quick` most of the first few.

    What was shown stays: rows that a quick search has missed come next.
    """

    def __init__(self, total: int, exact: Callable[[int], Found], quick: Callable[[int], Found] | None = None) -> None:
        self.total, self._exact, self._quick = total, exact, quick
        self.rows, self.scores = np.empty(0, np.int64), np.empty(0, np.float32)
        self._lock = threading.Lock()

    def page(self, offset: int, k: int) -> Found:
        """k results after the first `offset`."""
        end = min(offset + k, self.total)
        with self._lock:
            if end > len(self.rows):
                self._extend(end)
            return self.rows[offset:end], self.scores[offset:end]

    def _extend(self, end: int) -> None:
        if self._quick is not None and not len(self.rows) and end <= _AHEAD // 2:
            self.rows, self.scores = self._quick(end)
            if len(self.rows) >= end:
                return
        rows, scores = self._exact(min(self.total, max(_AHEAD, 2 * end)))
        new = ~np.isin(rows, self.rows)
        self.rows = np.concatenate([self.rows, rows[new]])
        self.scores = np.concatenate([self.scores, scores[new]])

    def __len__(self) -> int:
        return len(self.rows)


def ranking_of(
    space: Space, q: np.ndarray, own: list[int], rows: np.ndarray | None = None, S: np.ndarray | None = None
) -> Ranking:
    """The order of all items but the query's own, or of some rows, for a query vector q.

    S are the scores of all items, if they are known.
    """
    known, n = [] if S is None else [S], len(space.G)

    def exact(k: int) -> Found:
        scores = known.pop() if known else None  # megabytes, that are not kept
        if rows is not None:
            return best(space.scores_of(q, rows) if scores is None else scores[rows], k, rows)
        scores = space.scores(q[None])[0] if scores is None else scores
        scores[own] = -np.inf
        return best(scores, k)

    def quick(k: int) -> Found:
        assert space.approximate is not None
        near, scores = (found[0] for found in space.approximate(q[None], min(k + len(own), n)))
        others = ~np.isin(near, [*own, -1])
        return near[others][:k], scores[others][:k]

    total = n - len(set(own)) if rows is None else len(rows)
    return Ranking(total, exact, None if rows is not None or space.approximate is None else quick)


def best(scores: np.ndarray, k: int, rows: np.ndarray | None = None) -> Found:
    """The k best of some scores (n,): their rows, those given or their places, and their scores."""
    places, values = top_k(scores[None], k)
    return places[0] if rows is None else rows[places[0]], values[0]
