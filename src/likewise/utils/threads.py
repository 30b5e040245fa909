"""Work distributed over threads, with results in order and a bounded number of tasks in flight."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import TypeVar

from threadpoolctl import ThreadpoolController

__all__ = ["blas_controller", "in_order", "n_cores"]

Item = TypeVar("Item")
Result = TypeVar("Result")


def n_cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def blas_controller() -> ThreadpoolController:
    """The controller of the threads of NumPy's and SciPy's BLAS; cached, since finding them takes 5 ms."""
    import scipy.linalg  # noqa: F401  brings SciPy's own

    return ThreadpoolController()


def in_order(
    work: Callable[[Item], Result], items: Iterable[Item], n_threads: int, most_waiting: int
) -> Iterator[Result]:
    """work(item) for each item, yielded in order; at most `most_waiting` are in flight."""
    waiting: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(n_threads) as pool:
        try:
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) > most_waiting:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
