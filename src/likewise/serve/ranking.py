"""The order of the items for one query, page by page: pages never overlap, wherever each of them came from."""

import threading

import numpy as np

from likewise.search.rank import Space

_AHEAD = 1_000  # results ranked at a time; then twice as many as were asked for
LONGEST = 50_000  # results that are kept for the next page


class Ranking:
    """Rows and scores, best first, for a query vector q: all items but the query's own, or only rows `among` these.

    The first page may come from an approximate index. What was shown stays: rows that it has missed come next.
    `scores` are those of all items, if they are known.
    """

    def __init__(
        self,
        space: Space,
        q: np.ndarray,
        own: list[int],
        among: np.ndarray | None = None,
        scores: np.ndarray | None = None,
    ) -> None:
        self.total = len(space) - len(set(own)) if among is None else len(among)
        self.rows, self.scores = np.empty(0, np.int64), np.empty(0, np.float32)
        self._space, self._query, self._own, self._among, self._known = space, q[None], own, among, scores
        self._lock = threading.Lock()

    def page(self, offset: int, k: int) -> tuple[np.ndarray, np.ndarray]:
        """k results after the first `offset`."""
        end = min(offset + k, self.total)
        with self._lock:
            if end > len(self.rows):
                self._extend(end)
            return self.rows[offset:end], self.scores[offset:end]

    def _extend(self, end: int) -> None:
        if self._space.approximate and self._among is None and not len(self.rows) and end <= _AHEAD // 2:
            self.rows, self.scores = self._best(end)
            if len(self.rows) >= end:
                return
        rows, scores = self._best(min(self.total, max(_AHEAD, 2 * end)), exact=True)
        new = ~np.isin(rows, self.rows)
        self.rows = np.concatenate([self.rows, rows[new]])
        self.scores = np.concatenate([self.scores, scores[new]])

    def _best(self, k: int, exact: bool = False) -> tuple[np.ndarray, np.ndarray]:
        own = np.array([self._own]) if self._own else None
        known, self._known = self._known, None  # megabytes, that are not kept
        S = None if known is None else known[None]
        (rows,), (scores,) = self._space.rank(self._query, k, self._among, own, exact=exact, scores=S)
        return rows[rows >= 0], scores[rows >= 0]

    def __len__(self) -> int:
        return len(self.rows)
