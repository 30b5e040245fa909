"""Metrics from embeddings in blocks of queries, with threads over the blocks and no array of all scores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from likewise.errors import LikewiseError
from likewise.metrics.problem import RankingProblem
from likewise.metrics.ranks import Measure, Ties, positions, rank
from likewise.utils.threads import blas_controller

__all__ = ["BLOCK_BYTES", "measure"]

BLOCK_BYTES = 64 << 20  # over all threads; from 4 to 512 MiB measured: slower below 32, no faster above


def measure(
    problem: RankingProblem,
    measures: Sequence[Measure],
    queries: np.ndarray,
    ties: Ties = "expected",
    block_bytes: int = BLOCK_BYTES,
    n_threads: int | None = None,
) -> list[np.ndarray]:
    """Each metric for each of the queries, all of which must have a relevant item."""
    controller = blas_controller()
    threads = _n_threads(controller, n_threads)
    blocks = _blocks(problem, queries, block_bytes, threads)

    def work(block: np.ndarray) -> list[np.ndarray]:
        ranks = rank(*_block_positions(problem, block), ties)
        return [each(ranks) for each in measures]

    # Sorting runs on one thread, so threads work on blocks, with one BLAS thread each for the products.
    with controller.limit(limits=1 if len(blocks) > 1 else None, user_api="blas"):
        done = list(_mapped(work, blocks, min(threads, len(blocks))))
    return [np.concatenate(parts) for parts in zip(*done, strict=True)]


def _block_positions(problem: RankingProblem, block: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Positions of the relevant items of a block of queries, and their number per query."""
    S = _masked_scores(problem, block)
    n_relevant = problem.relevance.counts(block)
    ends = np.cumsum(n_relevant)
    above, upto = np.empty((2, ends[-1]), dtype=np.intp)
    for row, query, start, end in zip(S, block, ends - n_relevant, ends, strict=True):
        wanted = row.take(problem.relevance.of(query))
        wanted.sort()
        above[start:end], upto[start:end] = positions(row, wanted)
    return above, upto, n_relevant


def _masked_scores(problem: RankingProblem, block: np.ndarray) -> np.ndarray:
    """Negated scores of a block, with each query itself last."""
    S = problem.negated_scores(block)
    if not np.isfinite(S).all():
        raise LikewiseError("the scores of Q and G overflow their dtype: scale them, or use float64")
    if problem.relevance.one_set:
        S[np.arange(block.size), block] = np.inf  # by position: an item need not be its own nearest neighbour
    return S


def _blocks(problem: RankingProblem, queries: np.ndarray, block_bytes: int, threads: int) -> list[np.ndarray]:
    """Blocks of queries: at least one per thread, and within `block_bytes` over all threads."""
    if block_bytes < 1:
        raise LikewiseError(f"block_bytes={block_bytes} is below 1: expected the memory for blocks of scores in bytes")
    n = problem.G.shape[0]
    # beside the scores, about twelve numbers per relevant item
    row = n * problem.bytes_per_score + 96 * int(problem.relevance.counts(queries).max())
    threads = threads if queries.size * n > 1 << 18 else 1  # for less, threads cost more than they save
    rows = max(1, min(block_bytes // (row * threads), -(-queries.size // threads)))
    return [queries[start : start + rows] for start in range(0, queries.size, rows)]


def _mapped(work: Callable[[Any], Any], blocks: Sequence[Any], threads: int) -> Iterator[Any]:
    if threads < 2:
        yield from map(work, blocks)
        return
    pool = ThreadPoolExecutor(threads)
    try:
        yield from pool.map(work, blocks)
    finally:  # on an error or Ctrl-C, blocks that have not begun are dropped
        pool.shutdown(cancel_futures=True)


def _n_threads(controller: ThreadpoolController, n_threads: int | None) -> int:
    """`n_threads`, or as many as BLAS may use now, which respects an outer limit."""
    if n_threads is not None and n_threads < 1:
        raise LikewiseError(f"n_threads={n_threads} is below 1: expected the number of threads, or None")
    of_blas = (library["num_threads"] for library in controller.info() if library["user_api"] == "blas")
    return n_threads or max(of_blas, default=1)
