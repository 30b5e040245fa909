"""The public metrics: one at a time, or all of them in one pass; and what each is, given the ranks."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from operator import index
from typing import Any, Unpack

import numpy as np
import scipy.sparse as sp

from likewise.errors import LikewiseError
from likewise.evaluate.ranking import (
    Measure,
    MetricOptions,
    RankingProblem,
    Ranks,
    Ties,
    expected_precision,
    macro_mean,
    mean_average_precision,
    measured,
    positions,
    rank,
    ties_checked,
    whole,
)
from likewise.evaluate.significance import bootstrap_interval
from likewise.utils.arrays import top_k

_BLOCK = 256  # queries scored at a time by `graded_ndcg`


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
    problem = RankingProblem.of(Q, G, y_q, y_g)
    code, queries = problem.relevance.code, drawn(problem.queries, n_queries, random_state)
    per_query = measured(problem, measures_at(ks), queries, **options)
    return summarised(per_query, ks, queries, code[queries], code.size - problem.queries.size, confidence)


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
        macro_mean_average_precision=macro_mean(per_query["mAP"], code),
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
        "mAP": whole,
        **{f"P@{k}": precision_at(k) for k in ks},
        **{f"R@{k}": recall_at(k) for k in ks},
        "MAP@R": at_r,
        "R-precision": precision_at_r,
        "nDCG": gain_at(None),
        **{f"nDCG@{k}": gain_at(k) for k in ks},
    }


def drawn(queries: np.ndarray, n_queries: int | None, random_state: Any) -> np.ndarray:
    """A random sample of the queries, without repetition, in order; all of them if n_queries is None."""
    if n_queries is None:
        return queries
    if n_queries < 1:
        raise LikewiseError(f"n_queries={n_queries} is below 1: expected a number of queries, or None for all")
    rng = np.random.default_rng(random_state)
    return np.sort(rng.choice(queries, size=min(n_queries, queries.size), replace=False))


def depths(ks: Iterable[Any]) -> list[int]:
    return [_k("ks", k) for k in ks]


def _k(name: str, k: Any) -> int:
    try:
        depth = index(k)
    except TypeError:
        raise LikewiseError(f"{name} holds {k!r}: a depth is an integer, 1 or more") from None
    if depth < 1:
        raise LikewiseError(f"{name} holds {k}: a depth is an integer, 1 or more")
    return depth


def average_precision(scores: Any, relevant: Any, ties: Ties = "expected") -> float:
    """Average precision of one query: the mean precision at the ranks of its relevant items.

    Parameters
    ----------
    scores : array of shape (n,)
        Higher is better.
    relevant : boolean array of shape (n,)
        Which items are relevant; at least one.
    ties : {"expected", "optimistic", "pessimistic"}
        Among equal scores: the mean over all orders, relevant items first, or relevant items last.

    Examples
    --------
    >>> average_precision([0.9, 0.8, 0.7], [True, False, True])
    0.8333333333333333
    """
    scores, relevant = np.asarray(scores), np.asarray(relevant, dtype=bool)
    if scores.ndim != 1 or scores.shape != relevant.shape:
        shapes = f"scores has shape {scores.shape} and relevant {relevant.shape}"
        raise LikewiseError(f"{shapes}: expected two lists of the same length")
    if scores.dtype.kind not in "biuf":
        raise LikewiseError(f"scores has dtype {scores.dtype}: expected real numbers")
    if not np.isfinite(scores).all():
        raise LikewiseError("scores contains NaN or infinity: expected finite numbers")
    if not relevant.any():
        raise LikewiseError("relevant is False everywhere: average precision needs at least one relevant item")
    negated = -scores.astype(np.result_type(scores, np.float32), copy=False)
    above, upto = positions(negated, np.sort(negated[relevant]))
    return float(whole(rank(above, upto, np.array([above.size]), ties_checked(ties)))[0])


def macro_mean_average_precision(Q: Any, G: Any, y_q: Any, y_g: Any = None, **options: Unpack[MetricOptions]) -> float:
    """Mean over labels of the mAP of their queries; see `mean_average_precision`."""
    return mean_average_precision(Q, G, y_q, y_g, macro=True, **options)


def precision_at_k(Q: Any, G: Any, y_q: Any, y_g: Any = None, *, k: int = 1, **options: Unpack[MetricOptions]) -> float:
    """Mean share of relevant items among the top k; see `mean_average_precision`."""
    return _mean(Q, G, y_q, y_g, precision_at(_k("k", k)), options)


def recall_at_k(Q: Any, G: Any, y_q: Any, y_g: Any = None, *, k: int = 10, **options: Unpack[MetricOptions]) -> float:
    """Mean share of the relevant items that are among the top k; see `mean_average_precision`."""
    return _mean(Q, G, y_q, y_g, recall_at(_k("k", k)), options)


def map_at_r(Q: Any, G: Any, y_q: Any, y_g: Any = None, **options: Unpack[MetricOptions]) -> float:
    """MAP@R (Musgrave et al. 2020): average precision of the top R, R being the number of relevant items of a query."""
    return _mean(Q, G, y_q, y_g, at_r, options)


def r_precision(Q: Any, G: Any, y_q: Any, y_g: Any = None, **options: Unpack[MetricOptions]) -> float:
    """Mean precision of the top R, R being the number of relevant items of a query."""
    return _mean(Q, G, y_q, y_g, precision_at_r, options)


def ndcg(Q: Any, G: Any, y_q: Any, y_g: Any = None, *, k: int | None = None, **options: Unpack[MetricOptions]) -> float:
    """Mean normalised discounted cumulative gain of the top k, or of the whole ranking if k is None."""
    return _mean(Q, G, y_q, y_g, gain_at(None if k is None else _k("k", k)), options)


def _mean(Q: Any, G: Any, y_q: Any, y_g: Any, of: Measure, options: MetricOptions) -> float:
    problem = RankingProblem.of(Q, G, y_q, y_g)
    return float(measured(problem, {"it": of}, problem.queries, **options)["it"].mean())


# -- Given the ranks of the relevant items ----------------------------------------------------------------------------


def at_r(ranks: Ranks) -> np.ndarray:
    """Average precision of the top R, R being the number of relevant items."""
    return expected_precision(ranks, ranks.n_relevant) / ranks.n_relevant


def _hits(ranks: Ranks, depth: np.ndarray | float) -> np.ndarray:
    """Expected number of relevant items in the top `depth`: each place of a block holds r/n of one."""
    return ranks.sums(ranks.within(depth) / ranks.tied)


def precision_at(k: int) -> Measure:
    """Share of relevant items in the top k; places beyond the gallery hold none."""
    return lambda ranks: _hits(ranks, k) / k


def recall_at(k: int) -> Measure:
    """Share of the relevant items that are in the top k."""
    return lambda ranks: _hits(ranks, k) / ranks.n_relevant


def precision_at_r(ranks: Ranks) -> np.ndarray:
    return _hits(ranks, ranks.n_relevant) / ranks.n_relevant


def gain_at(k: int | None) -> Measure:
    """nDCG of the top k (None: of the whole ranking), relevance 1 or 0, discounted by 1/log2(1 + rank)."""
    depth = np.inf if k is None else k

    def measure(ranks: Ranks) -> np.ndarray:
        deepest = int((ranks.above + ranks.tied).max())
        gain = _discounts(1 << max(10, deepest.bit_length()))  # few sizes, so that the cache is hit
        t, m = ranks.above, ranks.within(depth).astype(np.intp)
        share = np.where(m > 0, 1 / np.log2(t + 2.0), 0.0)  # exact for n = 1
        many = np.flatnonzero(ranks.tied > 1)
        share[many] = (gain[t[many] + m[many]] - gain[t[many]]) / ranks.tied[many]
        return ranks.sums(share) / gain[np.minimum(ranks.n_relevant, depth).astype(np.intp)]

    return measure


@cache
def _discounts(n: int) -> np.ndarray:
    """Cumulative sums of 1/log2(1 + rank) over the top 0, 1 … n."""
    gains = 1 / np.log2(np.arange(2, n + 2, dtype=np.longdouble))
    return np.concatenate([[0.0], np.cumsum(gains)]).astype(np.float64)


def graded_ndcg(
    Q: np.ndarray, G: np.ndarray, R: Any, k: int = 10, itself: bool = False, only_known: bool = False
) -> float:
    """Mean nDCG@k of the scores Q Gᵀ; the gains are the positive entries of the sparse R, anything else gains 0.

    `itself` excludes each query from its own ranking, `only_known` the items that R does not store. Queries without
    any gain are not counted.
    """
    values = []
    for first in range(0, len(Q), _BLOCK):
        S, gains = Q[first : first + _BLOCK] @ G.T, R[first : first + _BLOCK]
        if itself:
            S[np.arange(len(S)), first + np.arange(len(S))] = -np.inf
        if only_known:
            stored = sp.csr_array((np.ones(gains.nnz, dtype=bool), gains.indices, gains.indptr), shape=gains.shape)
            S = np.where(stored.toarray(), S, -np.inf)
        values.append(_ndcg(S, np.maximum(gains.toarray(), 0.0), k))
    return float(np.concatenate(values).mean())


def _ndcg(S: np.ndarray, gains: np.ndarray, k: int) -> np.ndarray:
    """nDCG@k of each row that has a gain."""
    discount = 1.0 / np.log2(np.arange(2, min(k, gains.shape[1]) + 2))
    ideal = -np.sort(-gains, axis=1)[:, :k] @ discount
    found = np.take_along_axis(gains, top_k(S, k), axis=1) @ discount
    return np.asarray(found[ideal > 0] / ideal[ideal > 0])
