"""Micro-batching: searches that arrive together share one matrix product with the gallery."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from likewise.retrieval.search import top_k
from likewise.web.spaces import Space

__all__ = ["SearchBatcher", "search_by_rows"]

Ranking = tuple[np.ndarray, np.ndarray]  # rows and their scores, best first
# Below this many products per query the event loop waits (some 0.1 ms); above, a thread does the work.
_INLINE = 2_000_000
_MOST = 64


class _Pending(NamedTuple):
    row: int
    k: int
    result: asyncio.Future[tuple[Space, Ranking]]


class SearchBatcher:
    """Queue of searches by row number in the current learned space."""

    def __init__(self, space: Callable[[], Space]) -> None:
        self._space = space
        self._queue: list[_Pending] = []
        self._busy = False
        self._thread = ThreadPoolExecutor(1, "search")

    async def search(self, row: int, k: int) -> tuple[Space, Ranking]:
        """The k items most similar to item `row`, excluding itself."""
        loop = asyncio.get_running_loop()
        pending = _Pending(row, k, loop.create_future())
        self._queue.append(pending)
        if not self._busy:
            self._busy = True
            loop.call_soon(loop.call_soon, self._start, loop)  # one turn later: requests that are arriving join
        return await pending.result

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        batch, self._queue = self._queue[:_MOST], self._queue[_MOST:]
        space = self._space()
        if space.G.size <= _INLINE:
            self._finish(loop, batch, space, _attempt(space, batch))
            return
        work = loop.run_in_executor(self._thread, _attempt, space, batch)
        work.add_done_callback(lambda done: self._finish(loop, batch, space, done.result()))

    def _finish(
        self, loop: asyncio.AbstractEventLoop, batch: list[_Pending], space: Space, found: list[Ranking] | Exception
    ) -> None:
        for place, pending in enumerate(batch):
            if pending.result.done():  # the client has disconnected
                continue
            if isinstance(found, Exception):
                pending.result.set_exception(found)
            else:
                pending.result.set_result((space, found[place]))
        self._busy = bool(self._queue)
        if self._busy:
            loop.call_soon(self._start, loop)

    def close(self) -> None:
        """Finish the running search and drop the others."""
        self._thread.shutdown(cancel_futures=True)


def _attempt(space: Space, batch: list[_Pending]) -> list[Ranking] | Exception:
    try:
        return search_by_rows(space, [pending.row for pending in batch], [pending.k for pending in batch])
    except Exception as error:  # each of the waiting requests gets it
        return error


def search_by_rows(space: Space, rows: Sequence[int], ks: Sequence[int]) -> list[Ranking]:
    """The ks[i] items most similar to item rows[i], best first, excluding itself."""
    rows = list(rows)
    Q, most = space.queries(rows), min(max(ks), len(space.G) - 1)
    if space.approximate is not None:
        found = zip(*space.approximate(Q, most + 1), rows, ks, strict=True)
        return [_without(row, near, scores, k) for near, scores, row, k in found]
    S = space.scores(Q)
    S[np.arange(len(rows)), rows] = -np.inf
    return [(near[:k], scores[:k]) for near, scores, k in zip(*top_k(S, most), ks, strict=True)]


def _without(row: int, near: np.ndarray, scores: np.ndarray, k: int) -> Ranking:
    kept = np.flatnonzero((near != row) & (near >= 0))[:k]
    return near[kept], scores[kept]
