"""Work shared among threads: results in order, with a bounded number of them in progress."""

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from contextvars import copy_context
from functools import cache
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

ROWS = 512  # rows per block
_FEW_ROWS = 128  # up to here threads cost more than they save

Arrays = tuple[np.ndarray, ...]
Item = TypeVar("Item")
Result = TypeVar("Result")


def n_cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def blas_controller() -> ThreadpoolController:
    """Reads and limits the threads of NumPy's and SciPy's BLAS; found once, since looking for them takes 5 ms."""
    import scipy.linalg  # noqa: F401  brings SciPy's own

    return ThreadpoolController()


class _BlasLimits:
    """Limits of BLAS threads that may overlap: the most recent active request wins; the original returns at the end.

    The limit is one for the whole process. Saving and restoring it call by call, as threadpoolctl does, leaves it at
    one where calls of two threads overlap: the second saves the limit of the first, and restores it last.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: list[list[int]] = []  # a list of one number, so that equal ones differ by identity
        self._before: Any = None

    @contextmanager
    def __call__(self, threads: int) -> Iterator[None]:
        mine = [threads]
        with self._lock:
            self._requests.append(mine)
            self._apply()
        try:
            yield
        finally:
            with self._lock:
                self._requests = [other for other in self._requests if other is not mine]
                self._apply()

    def _apply(self) -> None:
        if not self._requests:
            self._before.restore_original_limits()
            self._before = None
            return
        limiter = blas_controller().limit(limits=self._requests[-1][0], user_api="blas")
        self._before = self._before or limiter


blas_threads = _BlasLimits()


def single_threaded_blas() -> AbstractContextManager[None]:
    """One BLAS thread for each of our own."""
    return blas_threads(1)


# -- Row blocks over threads, with one BLAS thread in each: that beats one big skinny GEMM over all cores --------------


def row_blocks(n: int, rows: int | None = None) -> list[slice]:
    """Equal blocks of at most `rows` (or `ROWS`) rows, a multiple of the threads in number; one block for few rows."""
    rows = rows or ROWS
    rounds = -(-n // (rows * n_cores()))
    n_blocks = 1 if n <= min(rows, _FEW_ROWS) else min(rounds * n_cores(), n)
    edges = np.linspace(0, n, n_blocks + 1).astype(int)
    return [slice(int(a), int(b)) for a, b in pairwise(edges) if b > a]


def ordered_map(
    function: Callable[[Item], Result], items: Iterable[Item], n_threads: int | None = None
) -> Iterator[Result]:
    """function(item) for each item, computed in threads, yielded in order, with few results waiting at a time."""
    items, n = list(items), n_threads or n_cores()
    if len(items) == 1:
        yield function(items[0])
        return
    with single_threaded_blas():
        yield from in_order(function, items, n, 2 * n)


def in_order(
    work: Callable[[Item], Result], items: Iterable[Item], n_threads: int, most_waiting: int
) -> Iterator[Result]:
    """work(item) for each item, yielded in order; items are taken only while at most `most_waiting` are in progress."""
    waiting: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(n_threads) as pool:
        try:
            for item in items:
                waiting.append(pool.submit(copy_context().run, work, item))  # with NumPy's error state
                if len(waiting) > most_waiting:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def added(parts: Iterable[Arrays]) -> Arrays:
    """Sum of tuples of arrays, in float64, in the order in which they come."""
    totals: Arrays = ()
    for part in parts:
        totals = totals or tuple(np.zeros(np.shape(value)) for value in part)
        for total, value in zip(totals, part, strict=True):
            np.add(total, value, out=total)
    return totals
