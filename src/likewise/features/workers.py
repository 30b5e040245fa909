"""Groups of images processed by several threads, in order, with a bounded number in progress.

Decoding, resizing, onnxruntime and BLAS release the GIL, so threads keep all cores busy, and one group is decoded while
another is computed. Libraries are limited to one thread per worker: one image per core is faster than one image on all
cores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from threadpoolctl import threadpool_limits

from likewise.errors import LikewiseError
from likewise.utils.threads import Item, Result, in_order, n_cores

__all__ = ["map_groups", "n_workers"]


def n_workers(n_jobs: int | None) -> int:
    """Number of threads: `n_jobs`, or all cores available to this process."""
    if n_jobs is not None and n_jobs < 1:
        raise LikewiseError(f"n_jobs={n_jobs} is not a number of threads; expected 1 or more, or None for all cores")
    return n_cores() if n_jobs is None else n_jobs


def map_groups(
    work: Callable[[Item], Result], tasks: Iterable[Item], n_jobs: int | None = None, ahead: int = 2
) -> Iterator[Result]:
    """The results of `work`, in the order of the tasks, with at most `ahead` + 1 tasks per thread in progress."""
    n = n_workers(n_jobs)
    with threadpool_limits(1, user_api="blas"):
        yield from in_order(work, tasks, n, n * (1 + ahead))
