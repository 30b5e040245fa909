"""From embeddings to measures in blocks of queries: no array of all scores, threads over the blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from threadpoolctl import ThreadpoolController

from likewise.errors import LikewiseError
from likewise.metrics.ranks import Measure, Ties, positions, rank

__all__ = ["BLOCK_BYTES", "Problem", "measure"]

BLOCK_BYTES = 128 << 20  # of all threads together; more did not run faster, and 64 rows of 100,000 float64 still fit


@dataclass(frozen=True)
class Problem:
    """Embeddings of both sides, and which gallery items are relevant to each query."""

    Q: Any
    G: Any
    relevance: Relevance

    @classmethod
    def of(cls, Q: Any, G: Any, y_q: Any, y_g: Any = None) -> Problem:
        """Check what came, each with its own sentence; `y_g=None`: Q and G are two sides of the same rows."""
        Q, G = _embeddings("Q", Q), _embeddings("G", G)
        if Q.shape[1] != G.shape[1]:
            raise LikewiseError(f"Q has {Q.shape[1]} columns and G {G.shape[1]}: an inner product needs the same width")
        if y_g is None and Q.shape[0] != G.shape[0]:
            raise LikewiseError(
                f"Q has {Q.shape[0]} rows and G {G.shape[0]}: without y_g they must be the same items; pass y_g"
            )
        dtype = np.result_type(Q.dtype, G.dtype)
        relevance = Relevance.by_label(
            _labels("y_q", y_q, Q, "Q"), None if y_g is None else _labels("y_g", y_g, G, "G")
        )
        return cls(Q.astype(dtype, copy=False), G.astype(dtype, copy=False), relevance)


@dataclass(frozen=True)
class Relevance:
    """Which gallery items are relevant to a query: those of its label, but never the query itself."""

    code: np.ndarray  # of each query, 0 … number of labels − 1
    items: np.ndarray  # gallery items, label after label
    bounds: np.ndarray  # where each label begins in `items`, and the end
    one_set: bool

    @classmethod
    def by_label(cls, y_q: np.ndarray, y_g: np.ndarray | None) -> Relevance:
        """Items of the query's label are relevant; without y_g the queries are the gallery."""
        code, gallery = _encoded(y_q, y_g)
        counts = np.bincount(gallery, minlength=int(code.max(initial=0)) + 1)
        bounds = np.concatenate([[0], np.cumsum(counts)])
        return cls(code, np.argsort(gallery, kind="stable"), bounds, y_g is None)

    def counts(self) -> np.ndarray:
        """Number of relevant items of each query."""
        return np.diff(self.bounds)[self.code] - self.one_set

    def of(self, query: int) -> np.ndarray:
        """The gallery items relevant to one query."""
        label = self.code[query]
        items = self.items[self.bounds[label] : self.bounds[label + 1]]
        return items[items != query] if self.one_set else items


def measure(
    problem: Problem,
    measures: Sequence[Measure],
    queries: np.ndarray,
    ties: Ties = "expected",
    block_bytes: int = BLOCK_BYTES,
    n_threads: int | None = None,
) -> list[np.ndarray]:
    """Each measure of each of the queries, every one of which has a relevant item."""
    controller = ThreadpoolController()
    threads = _n_threads(controller, n_threads)
    blocks = _blocks(problem, queries, block_bytes, threads)

    def work(block: np.ndarray) -> list[np.ndarray]:
        ranks = rank(*_block_positions(problem, block), ties)
        return [each(ranks) for each in measures]

    # Sorting has one thread a row at best, so threads go over blocks, with one BLAS thread each.
    with controller.limit(limits=1 if len(blocks) > 1 else None, user_api="blas"):
        done = list(_mapped(work, blocks, min(threads, len(blocks))))
    return [np.concatenate(parts) for parts in zip(*done, strict=True)]


def _block_positions(problem: Problem, block: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Positions of the relevant items of a block of queries, and how many each query has."""
    S = _negated_scores(problem, block)
    relevant = [problem.relevance.of(query) for query in block]
    n_relevant = np.array([items.size for items in relevant])
    ends = np.cumsum(n_relevant)
    above, upto = np.empty((2, ends[-1]), dtype=np.intp)
    for row, items, end in zip(S, relevant, ends, strict=True):
        mine = slice(end - items.size, end)
        above[mine], upto[mine] = positions(row, np.sort(row[items]))
    return above, upto, n_relevant


def _negated_scores(problem: Problem, block: np.ndarray) -> np.ndarray:
    """Minus the scores of a block, the query itself behind everything."""
    S = -problem.Q[block] @ problem.G.T
    S = S.toarray() if sp.issparse(S) else S
    if not np.isfinite(S).all():
        raise LikewiseError("Q and G have scores that are NaN or infinite: scale the embeddings, or use float64")
    if problem.relevance.one_set:
        S[np.arange(block.size), block] = np.inf  # by position: under M an item need not be its own nearest
    return S


def _blocks(problem: Problem, queries: np.ndarray, block_bytes: int, threads: int) -> list[np.ndarray]:
    """Queries in blocks such that all threads together stay within the bytes."""
    most = int(np.diff(problem.relevance.bounds).max())
    # a score and its finiteness; some eight numbers for a relevant item while it is measured
    row = problem.G.shape[0] * (problem.G.dtype.itemsize + 1) + 64 * most
    rows = max(1, min(block_bytes // (row * threads), -(-queries.size // threads)))
    return [queries[start : start + rows] for start in range(0, queries.size, rows)]


def _mapped(work: Callable[[Any], Any], blocks: Sequence[Any], threads: int) -> Iterator[Any]:
    if threads < 2:
        yield from map(work, blocks)
        return
    pool = ThreadPoolExecutor(threads)
    try:
        yield from pool.map(work, blocks)
    finally:  # an error or Ctrl-C does not wait for the blocks that have not begun
        pool.shutdown(cancel_futures=True)


def _n_threads(controller: ThreadpoolController, n_threads: int | None) -> int:
    """As asked; else as many as BLAS may use now, so that an outer limit on threads is kept."""
    if n_threads is not None:
        if n_threads < 1:
            raise LikewiseError(f"n_threads={n_threads} is below 1: pass the number of threads, or None")
        return n_threads
    return max((lib["num_threads"] for lib in controller.info() if lib["user_api"] == "blas"), default=1)


def _embeddings(name: str, rows: Any) -> Any:
    """Rows as a float matrix that BLAS can read: float32 and float64 as they are."""
    rows = rows.tocsr() if sp.issparse(rows) else np.asarray(rows)
    if rows.dtype.kind not in "biuf":
        raise LikewiseError(f"{name} has dtype {rows.dtype}: embeddings must be real numbers")
    if rows.ndim != 2 or 0 in rows.shape:
        raise LikewiseError(f"{name} has shape {rows.shape}: expected rows and columns, at least one of each")
    dtype = np.float32 if rows.dtype in (np.float16, np.float32) else np.float64
    rows = rows.astype(dtype, copy=False)
    if not np.isfinite(rows.data if sp.issparse(rows) else rows).all():
        raise LikewiseError(f"{name} contains NaN or infinity: every embedding must be finite")
    if sp.issparse(rows) or rows.flags.c_contiguous or rows.flags.f_contiguous:
        return rows
    return np.ascontiguousarray(rows)


def _labels(name: str, y: Any, rows: Any, rows_name: str) -> np.ndarray:
    y = np.asarray(y)
    if y.ndim != 1 or y.shape[0] != rows.shape[0]:
        raise LikewiseError(
            f"{name} has shape {y.shape} and {rows_name} {rows.shape[0]} rows: expected one label a row"
        )
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise LikewiseError(f"{name} contains NaN or infinity: every row needs a label")
    return y


def _encoded(y_q: np.ndarray, y_g: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Labels as 0, 1, 2 … over both sides."""
    if y_g is not None and _family(y_q) != _family(y_g):
        raise LikewiseError(
            f"y_q has labels of type {_family(y_q)} and y_g of type {_family(y_g)}: no label could ever match"
        )
    try:
        codes = np.unique(y_q if y_g is None else np.concatenate([y_q, y_g]), return_inverse=True)[1]
    except TypeError:
        raise LikewiseError("the labels mix types that cannot be compared: use all numbers or all strings") from None
    return codes[: y_q.size], codes if y_g is None else codes[y_q.size :]


def _family(y: np.ndarray) -> str:
    kind = y.dtype.kind if y.dtype.kind != "O" else np.asarray(y.tolist()).dtype.kind
    return {"U": "string", "S": "bytes", "M": "date"}.get(kind, "number" if kind in "biuf" else "object")
