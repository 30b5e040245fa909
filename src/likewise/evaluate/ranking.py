"""From embeddings to average precisions: who is relevant, blocks of scores, ranks with ties.

A relevant item belongs to a block of `tied` items with the same score, `relevant_tied` of them relevant, below
`above` items of which `relevant_above` are relevant. These four numbers give every metric in closed form, as its
expected value over all orders of the tied items (McSherry & Najork, ECIR 2008), without building a ranking.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from likewise.errors import LikewiseError
from likewise.utils.arrays import Array
from likewise.utils.threads import blas_controller, ordered_map
from likewise.utils.validation import is_missing

BLOCK_BYTES = 64 << 20  # over all threads; from 4 to 512 MiB measured: slower below 32, no faster above


def mean_average_precision(
    Q: Array, G: Array, y_q: ArrayLike, y_g: ArrayLike | None = None, *, macro: bool = False
) -> float:
    """Mean average precision (mAP) of the rankings of the gallery by inner product with each query.

    Equal scores have the mean of the precision over all their orders.

    Parameters
    ----------
    Q, G : matrices of shape (n_q, r) and (n_g, r)
        Query and gallery embeddings. Scores have their dtype. Dense, memory-mapped or sparse.
    y_q, y_g : labels, one per row
        An item is relevant if it has the label of the query. Without y_g, Q and G are two embeddings of the same
        rows: each row ranks all others. Queries without a relevant item are not counted.
    macro : bool
        Average per label first, so that a rare label counts as much as a common one.

    Examples
    --------
    >>> X = [[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.2, 0.8]]
    >>> mean_average_precision(X, X, ["cat", "cat", "dog", "dog"])
    1.0
    """
    problem = RankingProblem.of(Q, G, y_q, y_g)
    values = measured(problem, {"mAP": whole}, problem.queries)["mAP"]
    return macro_mean(values, problem.relevance.code[problem.queries]) if macro else float(values.mean())


def average_precisions(Q: Array, G: Array, y_q: ArrayLike, y_g: ArrayLike | None = None) -> np.ndarray:
    """Average precision of each query, nan if it has no relevant item; see `mean_average_precision`."""
    problem = RankingProblem.of(Q, G, y_q, y_g)
    values = np.full(problem.relevance.code.size, np.nan)
    values[problem.queries] = measured(problem, {"mAP": whole}, problem.queries)["mAP"]
    return values


def macro_mean(values: np.ndarray, code: np.ndarray) -> float:
    """Mean over labels of the means over their queries."""
    sizes, sums = np.bincount(code), np.bincount(code, weights=values)
    return float((sums[sizes > 0] / sizes[sizes > 0]).mean())


# -- The problem: checked embeddings, and the relevant items of each query --------------------------------------------


@dataclass(frozen=True)
class LabelRelevance:
    """The gallery items relevant to a query: those with its label, except the query itself."""

    code: np.ndarray  # encoded label of each query, -1 if it has none
    items: np.ndarray  # gallery items, sorted by label
    bounds: np.ndarray  # start of each label in `items`, and the end
    one_set: bool  # the queries are the gallery

    @classmethod
    def by_label(cls, y_q: np.ndarray, y_g: np.ndarray | None) -> LabelRelevance:
        """Relevance by equal labels; without y_g the queries are the gallery."""
        code, gallery = _encoded(y_q, y_g)
        sizes = np.bincount(gallery + 1, minlength=int(code.max()) + 2)  # those without a label come first
        return cls(code, np.argsort(gallery, kind="stable"), np.cumsum(sizes), y_g is None)

    def of(self, query: int) -> np.ndarray:
        label = self.code[query]
        items = self.items[self.bounds[label] : self.bounds[label + 1]]
        return items[items != query] if self.one_set else items

    def counts(self, queries: np.ndarray | slice = slice(None)) -> np.ndarray:
        code = self.code[queries]
        return np.where(code < 0, 0, np.diff(self.bounds)[code] - self.one_set)

    @property
    def unlabelled(self) -> np.ndarray:
        """Gallery items without a label: neither relevant nor not."""
        return self.items[: self.bounds[0]]


@dataclass(frozen=True)
class RankingProblem:
    """Query and gallery embeddings of one dtype, and the relevant items of each query."""

    Q: Array
    G: Array
    relevance: LabelRelevance

    @classmethod
    def of(cls, Q: Array, G: Array, y_q: ArrayLike, y_g: ArrayLike | None = None) -> RankingProblem:
        """Check the arguments; without `y_g`, Q and G are two embeddings of the same rows."""
        Q, G = _embeddings("Q", Q), _embeddings("G", G)
        if Q.shape[1] != G.shape[1]:
            widths = f"Q has {Q.shape[1]} columns and G {G.shape[1]}"
            raise LikewiseError(f"{widths}: an inner product needs the same width")
        if y_g is None and Q.shape[0] != G.shape[0]:
            rows = f"Q has {Q.shape[0]} rows and G {G.shape[0]}"
            raise LikewiseError(f"{rows}: without y_g they must be two embeddings of the same rows")
        dtype = np.result_type(Q.dtype, G.dtype)
        gallery_labels = None if y_g is None else _labels("y_g", y_g, "G", G)
        relevance = LabelRelevance.by_label(_labels("y_q", y_q, "Q", Q), gallery_labels)
        return cls(Q.astype(dtype, copy=False), G.astype(dtype, copy=False), relevance)

    @cached_property
    def queries(self) -> np.ndarray:
        """The queries that have a relevant item, at least one."""
        queries = np.flatnonzero(self.relevance.counts())
        if not queries.size:
            where = "in y_q are all distinct" if self.relevance.one_set else "in y_q and y_g have none in common"
            raise LikewiseError(f"no query has a relevant item: the labels {where}")
        return queries

    @cached_property
    def _columns(self) -> Array:
        return self.G.T if isinstance(self.G, np.ndarray) else self.G.T.tocsr()

    def negated_scores(self, block: np.ndarray) -> np.ndarray:
        """Negated scores of a block of queries, in the dtype of the embeddings, with each query itself last."""
        S: Any = -self.Q[block] @ self._columns
        S = S if isinstance(S, np.ndarray) else S.toarray()
        if not np.isfinite(S).all():
            raise LikewiseError("the scores of Q and G overflow their dtype: scale them, or use float64")
        if self.relevance.one_set:
            S[np.arange(block.size), block] = np.inf  # by position: an item need not be its own nearest neighbour
        S[:, self.relevance.unlabelled] = np.inf
        return np.asarray(S)


def _embeddings(name: str, rows: Any) -> Array:
    """Rows as a float matrix that BLAS can read, or as CSR, in single or double precision."""
    sparse = sp.issparse(rows)
    try:
        rows = rows.tocsr() if sparse else np.asarray(rows)
    except ValueError:  # NumPy only mentions an "inhomogeneous shape"
        raise LikewiseError(f"{name} has rows of unequal length: expected a matrix") from None
    if rows.dtype.kind not in "biuf":
        raise LikewiseError(f"{name} has dtype {rows.dtype}: expected real numbers")
    if rows.ndim != 2 or 0 in rows.shape:
        raise LikewiseError(f"{name} has shape {rows.shape}: expected at least one row and one column")
    rows = rows.astype(np.float32 if rows.dtype in (np.float16, np.float32) else np.float64, copy=False)
    values = rows.data if sparse else rows
    if not np.isfinite(values).all():
        raise LikewiseError(f"{name} contains NaN or infinity: every embedding must be finite")
    # copy a strided matrix once here instead of in every product
    return rows if sparse or values.flags.forc else np.ascontiguousarray(rows)


def _labels(name: str, y: ArrayLike, rows_name: str, rows: Array) -> np.ndarray:
    y = np.asarray(y)
    if y.ndim != 1 or y.shape[0] != rows.shape[0]:
        shapes = f"{name} has shape {y.shape} and {rows_name} {rows.shape[0]} rows"
        raise LikewiseError(f"{shapes}: expected one label per row")
    if y.dtype.kind == "f" and np.isinf(y).any():
        raise LikewiseError(f"{name} contains infinity: expected labels")
    if is_missing(y).all():
        raise LikewiseError(f"{name} has {len(y)} rows and not one of them has a label")
    return y


def _encoded(y_q: np.ndarray, y_g: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Labels of both sides as integers from 0, -1 where a label is missing."""
    if y_g is not None and _family(y_q) != _family(y_g):
        families = f"y_q holds {_family(y_q)} and y_g {_family(y_g)}"
        raise LikewiseError(f"{families}: no label can match, expected labels of one type")
    y = y_q if y_g is None else np.concatenate([y_q, y_g])
    codes, labelled = np.full(len(y), -1), ~is_missing(y)
    try:
        codes[labelled] = np.unique(y[labelled], return_inverse=True)[1]
    except TypeError:
        raise LikewiseError("the labels mix types: expected all numbers or all strings") from None
    return codes[: y_q.size], codes if y_g is None else codes[y_q.size :]


def _family(y: np.ndarray) -> str:
    """The kind of the labels; for an object array, the kind of the first."""
    kind = y.dtype.kind if y.dtype.kind != "O" else np.asarray(y[~is_missing(y)][0]).dtype.kind
    return {"U": "strings", "S": "bytes", "M": "dates", "O": "objects"}.get(kind, "numbers")


# -- Blocks of queries, with threads over the blocks and no array of all scores ---------------------------------------


def measured(problem: RankingProblem, measures: dict[str, Measure], queries: np.ndarray) -> dict[str, np.ndarray]:
    """Each metric for each of the queries, all of which must have a relevant item."""
    # Sorting runs on one thread, so threads work on blocks, with one BLAS thread each for the products: as many as BLAS
    # may use now, which respects an outer limit.
    libraries = blas_controller().info()
    threads = max((lib["num_threads"] for lib in libraries if lib["user_api"] == "blas"), default=1)

    def work(block: np.ndarray) -> list[np.ndarray]:
        ranks = rank(*_block_positions(problem, block))
        return [measure(ranks) for measure in measures.values()]

    values = ordered_map(work, _blocks(problem, queries, threads), threads)
    return dict(zip(measures, map(np.concatenate, zip(*values, strict=True)), strict=True))


def _block_positions(problem: RankingProblem, block: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Positions of the relevant items of a block of queries, and their number per query."""
    n_relevant = problem.relevance.counts(block)
    ends = np.cumsum(n_relevant)
    above, upto = np.empty((2, ends[-1]), dtype=np.intp)
    for row, query, start, end in zip(problem.negated_scores(block), block, ends - n_relevant, ends, strict=True):
        wanted = row.take(problem.relevance.of(query))
        wanted.sort()
        above[start:end], upto[start:end] = positions(row, wanted)
    return above, upto, n_relevant


def _blocks(problem: RankingProblem, queries: np.ndarray, threads: int) -> list[np.ndarray]:
    """Blocks of queries: at least one per thread, and within `BLOCK_BYTES` over all threads."""
    n, size = problem.G.shape[0], int(problem.G.dtype.itemsize)
    # A score and its finiteness mask; for two sparse sides also its index and a second copy.
    per_score = size + 1 if isinstance(problem.Q, np.ndarray) else 2 * size + 9
    # next to the scores, about twelve numbers per relevant item
    row_bytes = n * per_score + 96 * int(problem.relevance.counts(queries).max())
    threads = threads if queries.size * n > 1 << 18 else 1  # for less, threads cost more than they save
    rows = max(1, min(BLOCK_BYTES // (row_bytes * threads), -(-queries.size // threads)))
    return [queries[start : start + rows] for start in range(0, queries.size, rows)]


# -- Ranks of the relevant items, and average precision from them -----------------------------------------------------


@dataclass(frozen=True)
class Ranks:
    """The relevant items of one or more queries, query by query, best first; one entry per item.

    `n_relevant` has one entry per query, at least 1.
    """

    above: np.ndarray
    tied: np.ndarray
    relevant_above: np.ndarray
    relevant_tied: np.ndarray
    n_relevant: np.ndarray

    def sums(self, values: np.ndarray) -> np.ndarray:
        """Sum of the values of the items of each query."""
        return np.add.reduceat(values, np.cumsum(self.n_relevant) - self.n_relevant)

    def within(self, depth: np.ndarray | float) -> np.ndarray:
        """How many places of the block of each item are in the top `depth` (one number, or one per query)."""
        each = np.repeat(depth, self.n_relevant) if isinstance(depth, np.ndarray) else depth
        return np.clip(each - self.above, 0, self.tied)


Measure = Callable[[Ranks], np.ndarray]  # one number per query


def positions(negated: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each wanted score, ascending: the number of scores below it, and the number below or equal.

    Scores are negated, so that the best is the smallest. `negated` may be sorted in place.
    """
    n, r = negated.size, wanted.size
    # A count takes about 2.6 µs + 0.3 ns per item, a sort 5 ns per item (NumPy 2.4, AVX2): for up to eight relevant
    # items of 10,000, or sixteen of far more, counting for each is faster than sorting once.
    if r * (n + 9000) < 17 * n:
        below = np.array([np.count_nonzero(negated < score) for score in wanted])
        return below, np.array([np.count_nonzero(negated <= score) for score in wanted])
    negated.sort()
    below = negated.searchsorted(wanted, "left")
    upto = below + 1
    # Comparing with the next item avoids most second searches: 10 times faster for 6,000 relevant items of 60,000.
    maybe_tied = np.flatnonzero(negated.take(upto, mode="clip") == wanted)
    upto[maybe_tied] = negated.searchsorted(wanted[maybe_tied], "right")
    return below, upto


def rank(above: np.ndarray, upto: np.ndarray, n_relevant: np.ndarray) -> Ranks:
    """Ranks from the `positions` of the relevant items, query by query."""
    starts = np.repeat(np.cumsum(n_relevant) - n_relevant, n_relevant)
    place = np.arange(above.size)
    tied = upto - above
    if tied.max(initial=1) == 1:  # no ties, the usual case
        return Ranks(above, tied, place - starts, np.ones_like(tied), n_relevant)
    opens = (np.diff(above, prepend=-1) != 0) | (place == starts)
    first = np.flatnonzero(opens)
    size = np.diff(first, append=above.size)
    return Ranks(above, tied, np.repeat(first, size) - starts, np.repeat(size, size), n_relevant)


def whole(ranks: Ranks) -> np.ndarray:
    """Average precision over the whole ranking."""
    return expected_precision(ranks, np.inf) / ranks.n_relevant


def expected_precision(ranks: Ranks, depth: np.ndarray | float) -> np.ndarray:
    """Expected Σ of precision × relevance over the first `depth` places, for each query.

    A block of n items, r of them relevant, contributes (r/n) Σ_{i=1..m} (R′ + 1 + (i − 1)(r − 1)/(n − 1))/(t + i),
    where m of its places are within the depth; with H = Σ 1/(t + i) that is
    (r/n)((R′ + 1)H + (r − 1)/(n − 1)(m − (t + 1)H)). Each of its r relevant items carries one r-th of it.
    """
    m = ranks.within(depth)
    share = np.where(m > 0, (ranks.relevant_above + 1) / (ranks.above + 1), 0.0)  # exact for n = 1
    many = np.flatnonzero(ranks.tied > 1)
    if many.size:
        t, n, m = ranks.above[many], ranks.tied[many], m[many]
        H = _harmonic(t, m)
        slope = (ranks.relevant_tied[many] - 1) / (n - 1)
        share[many] = ((ranks.relevant_above[many] + 1) * H + slope * (m - (t + 1) * H)) / n
    return ranks.sums(share)


_SMALL = 64
_H = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, _SMALL + 1))])
_SERIES = ((1, 2.0), (2, -12.0), (4, 120.0), (6, -252.0))  # H(x) = ln x + γ + Σ x^-power / divisor + O(x^-8)


def _harmonic(t: np.ndarray, n: np.ndarray) -> np.ndarray:
    """Σ_{i=1..n} 1/(t + i) to rounding; a difference of harmonic numbers would lose digits for large t.

    Terms up to 64 come from a table, the others from the asymptotic series, subtracted term by term; the terms left
    out are below 1e-15 of the sum.
    """
    small = _H[np.minimum(t + n, _SMALL).astype(np.intp)] - _H[np.minimum(t, _SMALL)]
    a, b = np.maximum(t, _SMALL).astype(np.float64), np.maximum(t + n, _SMALL).astype(np.float64)
    tail = sum((b**-power - a**-power) / divisor for power, divisor in _SERIES)
    return small + np.log1p((b - a) / a) + tail
