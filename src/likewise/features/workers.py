"""Groups of images through several threads, in order, with a bounded number under way.

Decoding, resizing, onnxruntime and BLAS all leave Python's lock, so plain threads keep every core busy, and
decoding one group overlaps computing another. Each worker runs single-threaded libraries: one image a core beats one
image on all cores.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from threadpoolctl import threadpool_limits

from likewise.errors import LikewiseError

__all__ = ["map_groups", "n_workers"]

Task = TypeVar("Task")
Result = TypeVar("Result")


def n_workers(n_jobs: int | None) -> int:
    """Number of threads: `n_jobs`, or every core this process may use."""
    if n_jobs is not None and n_jobs < 1:
        raise LikewiseError(f"n_jobs={n_jobs} is not a number of threads; expected 1 or more, or None for all cores")
    if n_jobs is not None:
        return n_jobs
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def map_groups(
    work: Callable[[Task], Result], tasks: Iterable[Task], n_jobs: int | None = None, ahead: int = 2
) -> Iterator[Result]:
    """`work` of each task, in the order of the tasks, at most `ahead` + 1 tasks a thread under way."""
    n = n_workers(n_jobs)
    waiting: deque[Future[Result]] = deque()
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(n) as pool:
        try:
            for task in tasks:
                waiting.append(pool.submit(work, task))
                if len(waiting) > n * (1 + ahead):
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
