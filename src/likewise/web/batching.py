"""Searches that arrive together are answered together: one matrix product instead of many passes over the gallery."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from likewise.web.spaces import Space, best

__all__ = ["Answer", "Batcher", "by_rows"]

Answer = tuple[Space, np.ndarray, np.ndarray]  # the space searched, rows and their scores, best first
# Below this many products for a query the event loop waits (some 0.1 ms); above, a thread works and the loop goes on.
_INLINE = 2_000_000
_MOST = 64


class Batcher:
    """Queue of searches by row number in the current learned space."""

    def __init__(self, space: Callable[[], Space]) -> None:
        self._space = space
        self._waiting: list[tuple[int, int, asyncio.Future[Answer]]] = []
        self._busy = False
        self._thread = ThreadPoolExecutor(1, "search")

    async def search(self, row: int, k: int) -> Answer:
        """The k items most like item `row`, itself left out."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Answer] = loop.create_future()
        self._waiting.append((row, k, future))
        if not self._busy:
            self._busy = True
            loop.call_soon(self._start, loop)
        return await future

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        batch, self._waiting = self._waiting[:_MOST], self._waiting[_MOST:]
        space = self._space()
        if space.G.size <= _INLINE:
            self._finish(loop, batch, space, _attempt(space, batch))
            return
        work = loop.run_in_executor(self._thread, _attempt, space, batch)
        work.add_done_callback(lambda done: self._finish(loop, batch, space, done.result()))

    def _finish(self, loop: asyncio.AbstractEventLoop, batch: list, space: Space, found: list | Exception) -> None:  # type: ignore[type-arg]
        for place, (_, _, future) in enumerate(batch):
            if future.done():  # the client has left
                continue
            if isinstance(found, Exception):
                future.set_exception(found)
            else:
                future.set_result((space, *found[place]))
        self._busy = bool(self._waiting)
        if self._busy:
            loop.call_soon(self._start, loop)

    def close(self) -> None:
        """Wait for what is being searched."""
        self._thread.shutdown(cancel_futures=True)


def _attempt(space: Space, batch: list) -> list | Exception:  # type: ignore[type-arg]
    try:
        return by_rows(space, [row for row, _, _ in batch], [k for _, k, _ in batch])
    except Exception as error:  # each of the waiting requests gets it
        return error


def by_rows(space: Space, rows: list[int], ks: list[int]) -> list[tuple[np.ndarray, np.ndarray]]:
    """The ks[i] items most like item rows[i], best first, itself left out: nobody asks for the picture they hold."""
    Q, most = space.queries(rows), min(max(ks), len(space.G) - 1)
    if space.approximate is not None:
        found = zip(*space.approximate(Q, most + 1), rows, ks, strict=True)
        return [_without(row, near, scores, k) for near, scores, row, k in found]
    S = space.scores(Q)
    S[np.arange(len(rows)), rows] = -np.inf
    top = best(S, most)
    return [(near[:k], s[near[:k]]) for near, s, k in zip(top, S, ks, strict=True)]


def _without(row: int, near: np.ndarray, scores: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    kept = np.flatnonzero((near != row) & (near >= 0))[:k]
    return near[kept], scores[kept]
