"""All metrics in one pass over the scores; what each is, given the ranks; and the one to compare by."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from operator import index
from typing import Any, Literal, NamedTuple, Self, get_args

import numpy as np
from numpy.typing import ArrayLike

from likewise.errors import LikewiseError
from likewise.evaluate.ranking import (
    Measure,
    RankingProblem,
    Ranks,
    expected_precision,
    macro_mean,
    measured,
    positions,
    rank,
    whole,
)
from likewise.evaluate.significance import bootstrap_interval
from likewise.utils.arrays import Array
from likewise.utils.wording import html_table

MetricName = Literal["map", "ndcg@10", "precision@10", "precision@1"]


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Ranking metrics, averaged over the queries that have a relevant item.

    `queries` are the rows of Q that were evaluated, and `per_query` holds each metric for each of them: the input of
    `paired_test` and `bootstrap_interval`. Metrics have the names mAP, P@k (precision), R@k (recall), MAP@R,
    R-precision, nDCG and nDCG@k; `metric` is the name of the one to compare by.
    """

    queries: np.ndarray
    per_query: dict[str, np.ndarray]
    interval: tuple[float, float]  # bootstrap interval of the mean of `metric`
    macro_mean: float  # of `metric`: mean over labels of the mean over their queries
    n_excluded: int  # rows of Q without a relevant item
    metric: str = "mAP"

    @classmethod
    def of(
        cls,
        queries: np.ndarray,
        per_query: dict[str, np.ndarray],
        code: np.ndarray,
        n_excluded: int,
        confidence: float,
        metric: MetricName,
    ) -> Self:
        """From the metrics per query; `code` holds the encoded label of each query."""
        name = metric_of(metric).name
        interval = bootstrap_interval(per_query[name], confidence)
        return cls(queries, per_query, interval, macro_mean(per_query[name], code), n_excluded, name)

    @property
    def n_queries(self) -> int:
        return len(self.queries)

    @property
    def values(self) -> np.ndarray:
        """`metric` of each query."""
        return self.per_query[self.metric]

    @property
    def average_precision(self) -> np.ndarray:
        """That of each query."""
        return self.per_query["mAP"]

    @property
    def mean_average_precision(self) -> float:
        return self.means["mAP"]

    @property
    def means(self) -> dict[str, float]:
        """Each metric by name."""
        return {name: float(values.mean()) for name, values in self.per_query.items()}

    def _repr_html_(self) -> str:
        return html_table(tuple(self.summary()), [tuple(self.summary().values())])

    def summary(self) -> dict[str, Any]:
        """The means and the interval by name, ready for JSON."""
        return {
            **self.means,
            f"{self.metric}_interval": list(self.interval),
            f"macro_{self.metric}": self.macro_mean,
            "n_queries": self.n_queries,
            "n_excluded": self.n_excluded,
        }


def evaluate(
    Q: Array,
    G: Array,
    y_q: ArrayLike,
    y_g: ArrayLike | None = None,
    *,
    ks: Iterable[int] = (1, 10),
    metric: MetricName = "map",
    n_queries: int | None = None,
    random_state: int | np.random.Generator | None = None,
    confidence: float = 0.95,
) -> Evaluation:
    """All metrics in one pass over the scores; arguments as in `mean_average_precision`.

    Parameters
    ----------
    ks : integers
        Depths of precision, recall and nDCG.
    metric : {"map", "ndcg@10", "precision@10", "precision@1"}
        The metric that `values`, `interval` and `macro_mean` are of.
    n_queries : int, optional
        Evaluate a random sample of this many queries among those that have a relevant item. Each still ranks the
        whole gallery; `interval` covers the sampling error.
    confidence : float
        Level of the bootstrap interval.

    Examples
    --------
    >>> X = [[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.2, 0.8]]
    >>> evaluate(X, X, ["cat", "cat", "dog", "dog"], ks=[1]).means["P@1"]
    1.0
    """
    measures, problem = measures_at(ks, metric), RankingProblem.of(Q, G, y_q, y_g)
    code, queries = problem.relevance.code, drawn(problem.queries, n_queries, random_state)
    per_query = measured(problem, measures, queries)
    return Evaluation.of(queries, per_query, code[queries], code.size - problem.queries.size, confidence, metric)


def measures_at(ks: Iterable[int], metric: MetricName = "map") -> dict[str, Measure]:
    """All metrics by the names they have in a summary, the one to compare by among them."""
    compared = metric_of(metric)
    try:
        depths = [index(k) for k in ks]
    except TypeError:
        raise LikewiseError(f"ks={ks!r}: expected depths, integers of 1 or more") from None
    if min(depths, default=1) < 1:
        raise LikewiseError(f"ks={ks!r}: expected depths, integers of 1 or more")
    return {
        "mAP": whole,
        **{f"P@{k}": precision_at(k) for k in depths},
        **{f"R@{k}": recall_at(k) for k in depths},
        "MAP@R": at_r,
        "R-precision": precision_at_r,
        "nDCG": gain_at(None),
        **{f"nDCG@{k}": gain_at(k) for k in depths},
        compared.name: compared.measure,
    }


def drawn(queries: np.ndarray, n_queries: int | None, random_state: int | np.random.Generator | None) -> np.ndarray:
    """A random sample of the queries, without repetition, in order; all of them if n_queries is None."""
    if n_queries is None:
        return queries
    if n_queries < 1:
        raise LikewiseError(f"n_queries={n_queries} is below 1: expected a number of queries, or None for all")
    rng = np.random.default_rng(random_state)
    return np.sort(rng.choice(queries, size=min(n_queries, queries.size), replace=False))


def average_precision(scores: ArrayLike, relevant: ArrayLike) -> float:
    """Average precision of one query: the mean precision at the ranks of its relevant items, over all orders of ties.

    Parameters
    ----------
    scores : array of shape (n,)
        Higher is better.
    relevant : boolean array of shape (n,)
        Which items are relevant; at least one.

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
    return float(whole(rank(above, upto, np.array([above.size])))[0])


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


class Metric(NamedTuple):
    """A metric to compare by: its name in a summary, and its value for each query."""

    name: str
    measure: Measure


def metric_of(metric: MetricName) -> Metric:
    """The metric that a parameter `metric` names."""
    if metric not in get_args(MetricName):
        raise LikewiseError(f"metric={metric!r}: expected 'map', 'ndcg@10', 'precision@10' or 'precision@1'")
    if metric == "map":
        return Metric("mAP", whole)
    kind, depth = metric.split("@")
    k = int(depth)
    return Metric(f"nDCG@{k}", gain_at(k)) if kind == "ndcg" else Metric(f"P@{k}", precision_at(k))


@cache
def _discounts(n: int) -> np.ndarray:
    """Cumulative sums of 1/log2(1 + rank) over the top 0, 1 … n."""
    gains = 1 / np.log2(np.arange(2, n + 2, dtype=np.longdouble))
    return np.concatenate([[0.0], np.cumsum(gains)]).astype(np.float64)
