"""The public metrics: one at a time, or all of them in one pass."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from operator import index
from typing import Any, TypedDict, Unpack

import numpy as np

from likewise.errors import LikewiseError
from likewise.metrics import ranks
from likewise.metrics.problem import RankingProblem
from likewise.metrics.ranks import Measure, Ties, ties_checked
from likewise.metrics.significance import bootstrap_interval
from likewise.metrics.streaming import BLOCK_BYTES, measure

__all__ = [
    "Evaluation",
    "evaluate",
    "macro_mean_average_precision",
    "map_at_r",
    "mean_average_precision",
    "ndcg",
    "precision_at_k",
    "r_precision",
    "recall_at_k",
]


class MetricOptions(TypedDict, total=False):
    """Options of every metric; see `mean_average_precision`."""

    ties: Ties
    block_bytes: int
    n_threads: int | None


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Ranking metrics, averaged over the queries that have a relevant item.

    `queries` are the rows of Q that were evaluated, and `per_query` holds each metric for each of them: the input of
    `paired_test` and `bootstrap_interval`.
    """

    mean_average_precision: float
    interval: tuple[float, float]  # bootstrap interval of the mean average precision
    macro_mean_average_precision: float  # mean over labels of the mean over their queries
    precision: dict[int, float]  # by k
    recall: dict[int, float]  # by k
    map_at_r: float
    r_precision: float
    ndcg: float  # of the whole ranking
    ndcg_at: dict[int, float]  # by k
    n_queries: int  # evaluated
    n_excluded: int  # rows of Q without a relevant item
    queries: np.ndarray
    per_query: dict[str, np.ndarray]

    @property
    def average_precision(self) -> np.ndarray:
        """Average precision of each query."""
        return self.per_query["mAP"]

    def summary(self) -> dict[str, Any]:
        """The means by name, ready for JSON."""
        means = {name: float(values.mean()) for name, values in self.per_query.items()}
        return {
            **means,
            "mAP_interval": list(self.interval),
            "macro_mAP": self.macro_mean_average_precision,
            "n_queries": self.n_queries,
            "n_excluded": self.n_excluded,
        }


def mean_average_precision(
    Q: Any,
    G: Any,
    y_q: Any,
    y_g: Any = None,
    *,
    ties: Ties = "expected",
    macro: bool = False,
    block_bytes: int = BLOCK_BYTES,
    n_threads: int | None = None,
) -> float:
    """Mean average precision (mAP) of the rankings of the gallery by inner product with each query.

    Parameters
    ----------
    Q, G : matrices of shape (n_q, r) and (n_g, r)
        Query and gallery embeddings. Scores have their dtype. Dense, memory-mapped or sparse.
    y_q, y_g : labels, one per row
        An item is relevant if it has the label of the query. Without y_g, Q and G are two embeddings of the same
        rows: each row ranks all others. Queries without a relevant item are not counted.
    ties : {"expected", "optimistic", "pessimistic"}
        Among equal scores: the mean over all orders, relevant items first, or relevant items last.
    macro : bool
        Average per label first, so that a rare label counts as much as a common one.
    block_bytes, n_threads : int
        Memory for blocks of scores, over all threads; number of threads (None: as many as BLAS uses).

    Examples
    --------
    >>> X = [[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.2, 0.8]]
    >>> mean_average_precision(X, X, ["cat", "cat", "dog", "dog"])
    1.0
    """
    options = MetricOptions(ties=ties, block_bytes=block_bytes, n_threads=n_threads)
    problem, queries = _posed(Q, G, y_q, y_g)
    values = _per_query(problem, queries, {"mAP": ranks.whole}, options)["mAP"]
    return _macro(values, problem.relevance.code[queries]) if macro else float(values.mean())


def average_precisions(Q: Any, G: Any, y_q: Any, y_g: Any = None, **options: Unpack[MetricOptions]) -> np.ndarray:
    """Average precision of each query, nan if it has no relevant item; see `mean_average_precision`."""
    problem, queries = _posed(Q, G, y_q, y_g)
    values = np.full(problem.relevance.code.size, np.nan)
    values[queries] = _per_query(problem, queries, {"mAP": ranks.whole}, options)["mAP"]
    return values


def macro_mean_average_precision(Q: Any, G: Any, y_q: Any, y_g: Any = None, **options: Unpack[MetricOptions]) -> float:
    """Mean over labels of the mAP of their queries; see `mean_average_precision`."""
    return mean_average_precision(Q, G, y_q, y_g, macro=True, **options)


def precision_at_k(Q: Any, G: Any, y_q: Any, y_g: Any = None, *, k: int = 1, **options: Unpack[MetricOptions]) -> float:
    """Mean share of relevant items among the top k; see `mean_average_precision`."""
    return _mean(Q, G, y_q, y_g, ranks.precision_at(_k("k", k)), options)


def recall_at_k(Q: Any, G: Any, y_q: Any, y_g: Any = None, *, k: int = 10, **options: Unpack[MetricOptions]) -> float:
    """Mean share of the relevant items that are among the top k; see `mean_average_precision`."""
    return _mean(Q, G, y_q, y_g, ranks.recall_at(_k("k", k)), options)


def map_at_r(Q: Any, G: Any, y_q: Any, y_g: Any = None, **options: Unpack[MetricOptions]) -> float:
    """MAP@R (Musgrave et al. 2020): average precision of the top R, R being the number of relevant items of a query."""
    return _mean(Q, G, y_q, y_g, ranks.at_r, options)


def r_precision(Q: Any, G: Any, y_q: Any, y_g: Any = None, **options: Unpack[MetricOptions]) -> float:
    """Mean precision of the top R, R being the number of relevant items of a query."""
    return _mean(Q, G, y_q, y_g, ranks.precision_at_r, options)


def ndcg(Q: Any, G: Any, y_q: Any, y_g: Any = None, *, k: int | None = None, **options: Unpack[MetricOptions]) -> float:
    """Mean normalised discounted cumulative gain of the top k, or of the whole ranking if k is None."""
    return _mean(Q, G, y_q, y_g, ranks.gain_at(None if k is None else _k("k", k)), options)


def evaluate(
    Q: Any,
    G: Any,
    y_q: Any,
    y_g: Any = None,
    *,
    ks: Iterable[int] = (1, 10),
    n_queries: int | None = None,
    random_state: Any = None,
    confidence: float = 0.95,
    **options: Unpack[MetricOptions],
) -> Evaluation:
    """All metrics in one pass over the scores; arguments and options as in `mean_average_precision`.

    Parameters
    ----------
    ks : integers
        Depths of precision, recall and nDCG.
    n_queries : int, optional
        Evaluate a random sample of this many queries among those that have a relevant item. Each still ranks the
        whole gallery; `interval` covers the sampling error.
    confidence : float
        Level of the bootstrap interval of the mean average precision.
    """
    ks = depths(ks)
    problem, queries = _posed(Q, G, y_q, y_g)
    n_excluded = problem.relevance.code.size - queries.size
    queries = queries if n_queries is None else drawn(queries, n_queries, random_state)
    per_query = _per_query(problem, queries, measures_at(ks), options)
    return summarised(per_query, ks, queries, problem.relevance.code[queries], n_excluded, confidence)


def summarised(
    per_query: dict[str, np.ndarray],
    ks: list[int],
    queries: np.ndarray,
    code: np.ndarray,
    n_excluded: int,
    confidence: float,
) -> Evaluation:
    """An `Evaluation` from the metrics per query; `code` holds the encoded label of each query."""
    means = {name: float(values.mean()) for name, values in per_query.items()}
    return Evaluation(
        mean_average_precision=means["mAP"],
        interval=bootstrap_interval(per_query["mAP"], confidence),
        macro_mean_average_precision=_macro(per_query["mAP"], code),
        precision={k: means[f"P@{k}"] for k in ks},
        recall={k: means[f"R@{k}"] for k in ks},
        map_at_r=means["MAP@R"],
        r_precision=means["R-precision"],
        ndcg=means["nDCG"],
        ndcg_at={k: means[f"nDCG@{k}"] for k in ks},
        n_queries=queries.size,
        n_excluded=n_excluded,
        queries=queries,
        per_query=per_query,
    )


def measures_at(ks: list[int]) -> dict[str, Measure]:
    """All metrics by the names they have in a summary."""
    return {
        "mAP": ranks.whole,
        **{f"P@{k}": ranks.precision_at(k) for k in ks},
        **{f"R@{k}": ranks.recall_at(k) for k in ks},
        "MAP@R": ranks.at_r,
        "R-precision": ranks.precision_at_r,
        "nDCG": ranks.gain_at(None),
        **{f"nDCG@{k}": ranks.gain_at(k) for k in ks},
    }


def _posed(Q: Any, G: Any, y_q: Any, y_g: Any) -> tuple[RankingProblem, np.ndarray]:
    """The problem, and the queries that have a relevant item."""
    problem = RankingProblem.of(Q, G, y_q, y_g)
    queries = np.flatnonzero(problem.relevance.counts())
    if not queries.size:
        where = "in y_q are all distinct" if y_g is None else "in y_q and y_g have none in common"
        raise LikewiseError(f"no query has a relevant item: the labels {where}")
    return problem, queries


def _per_query(
    problem: RankingProblem, queries: np.ndarray, measures: dict[str, Measure], options: MetricOptions
) -> dict[str, np.ndarray]:
    ties_checked(options.get("ties", "expected"))
    return dict(zip(measures, measure(problem, list(measures.values()), queries, **options), strict=True))


def _mean(Q: Any, G: Any, y_q: Any, y_g: Any, of: Measure, options: MetricOptions) -> float:
    problem, queries = _posed(Q, G, y_q, y_g)
    return float(_per_query(problem, queries, {"it": of}, options)["it"].mean())


def _macro(values: np.ndarray, code: np.ndarray) -> float:
    """Mean over labels of the means over their queries."""
    sizes = np.bincount(code)
    sums = np.bincount(code, weights=values)
    return float((sums[sizes > 0] / sizes[sizes > 0]).mean())


def drawn(queries: np.ndarray, n_queries: int, random_state: Any) -> np.ndarray:
    """A random sample of the queries, without repetition, in order."""
    if n_queries < 1:
        raise LikewiseError(f"n_queries={n_queries} is below 1: expected a number of queries, or None for all")
    rng = np.random.default_rng(random_state)
    return np.sort(rng.choice(queries, size=min(n_queries, queries.size), replace=False))


def depths(ks: Iterable[Any]) -> list[int]:
    """Depths, checked, as integers."""
    return [_k("ks", k) for k in ks]


def _k(name: str, k: Any) -> int:
    try:
        depth = index(k)
    except TypeError:
        raise LikewiseError(f"{name} holds {k!r}: a depth is an integer, 1 or more") from None
    if depth < 1:
        raise LikewiseError(f"{name} holds {k}: a depth is an integer, 1 or more")
    return depth
