"""Where the relevant items of a query stand, ties included, and what each measure makes of it.

A relevant item stands in a block of `tied` items with one score, `relevant_tied` of them relevant, below
`above` items of which `relevant_above` are relevant. Those four numbers give every measure here in closed
form, as its expected value over all orders of the tied items (McSherry & Najork, ECIR 2008): no ranking is
ever written down.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Literal, get_args

import numpy as np

from likewise.errors import LikewiseError

__all__ = ["Measure", "Ranks", "Ties", "average_precision", "positions", "rank", "ties_checked"]

Ties = Literal["expected", "optimistic", "pessimistic"]


@dataclass(frozen=True)
class Ranks:
    """The relevant items of one or more queries, query after query, best first: an entry an item.

    `n_relevant` has an entry a query, each at least 1.
    """

    above: np.ndarray
    tied: np.ndarray
    relevant_above: np.ndarray
    relevant_tied: np.ndarray
    n_relevant: np.ndarray

    @cached_property
    def starts(self) -> np.ndarray:
        """Index of each query's first item."""
        return np.cumsum(self.n_relevant) - self.n_relevant

    def sums(self, values: np.ndarray) -> np.ndarray:
        """Sum of the items' values over each query."""
        return np.add.reduceat(values, self.starts)

    def within(self, depth: np.ndarray | float) -> np.ndarray:
        """How many places of an item's block lie among the first `depth` (one number, or one a query)."""
        each = np.repeat(depth, self.n_relevant) if isinstance(depth, np.ndarray) else depth
        return np.clip(each - self.above, 0, self.tied)


Measure = Callable[[Ranks], np.ndarray]  # a number a query


def positions(negated: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each wanted score, ascending: how many of all scores are below it, and how many below or equal.

    Scores come negated, so that the best is the smallest. `negated` may be sorted in place.
    """
    n, r = negated.size, wanted.size
    # A count costs some 2.6 µs + 0.3 ns an item, a sort 5 ns an item (numpy 2.4, AVX2): for up to eight
    # relevant items of 10,000, or sixteen of far more, counting for each is quicker than sorting once for
    # all.
    if r * (n + 9000) < 17 * n:
        below = np.array([np.count_nonzero(negated < score) for score in wanted])
        return below, np.array([np.count_nonzero(negated <= score) for score in wanted])
    negated.sort()
    below = negated.searchsorted(wanted, "left")
    upto = below + 1
    # Look at the next item before a second search: 10 times cheaper with 6,000 relevant items of 60,000.
    maybe_tied = np.flatnonzero(negated.take(upto, mode="clip") == wanted)
    upto[maybe_tied] = negated.searchsorted(wanted[maybe_tied], "right")
    return below, upto


def rank(above: np.ndarray, upto: np.ndarray, n_relevant: np.ndarray, ties: Ties) -> Ranks:
    """Ranks from the `positions` of the relevant items, query after query."""
    starts = np.repeat(np.cumsum(n_relevant) - n_relevant, n_relevant)
    place = np.arange(above.size)
    tied = upto - above
    if tied.max(initial=1) == 1:  # the usual case, and the quick one
        return Ranks(above, tied, place - starts, np.ones_like(tied), n_relevant)
    opens = (np.diff(above, prepend=-1) != 0) | (place == starts)
    first = np.flatnonzero(opens)
    size = np.diff(first, append=above.size)
    block_start = np.repeat(first, size)
    ranks = Ranks(above, tied, block_start - starts, np.repeat(size, size), n_relevant)
    return ranks if ties == "expected" else _untied(ranks, place - block_start, ties)


def _untied(ranks: Ranks, within_block: np.ndarray, ties: Ties) -> Ranks:
    """The relevant items of a block all before its others ("optimistic") or behind them ("pessimistic")."""
    others = 0 if ties == "optimistic" else ranks.tied - ranks.relevant_tied
    one = np.ones_like(ranks.tied)
    above = ranks.above + others + within_block
    return Ranks(above, one, ranks.relevant_above + within_block, one, ranks.n_relevant)


def average_precision(scores: Any, relevant: Any, ties: Ties = "expected") -> float:
    """Average precision of one query: the mean, over its relevant items, of the precision at their places.

    Parameters
    ----------
    scores : array of shape (n,)
        Higher is better.
    relevant : boolean array of shape (n,)
        Which items are relevant; at least one.
    ties : {"expected", "optimistic", "pessimistic"}
        Items of one score: the mean over all their orders, relevant first, or relevant last.

    Examples
    --------
    >>> average_precision([0.9, 0.8, 0.7], [True, False, True])
    0.8333333333333333
    """
    scores, relevant = np.asarray(scores), np.asarray(relevant, dtype=bool)
    if scores.ndim != 1 or scores.shape != relevant.shape:
        shapes = f"scores has shape {scores.shape} and relevant {relevant.shape}"
        raise LikewiseError(f"{shapes}: expected two lists of one length")
    if scores.dtype.kind not in "biuf":
        raise LikewiseError(f"scores has dtype {scores.dtype}: items are ranked by real numbers")
    if not np.isfinite(scores).all():
        raise LikewiseError("scores contains NaN or infinity: items are ranked by finite scores")
    if not relevant.any():
        raise LikewiseError("relevant marks no item: average precision needs at least one relevant item")
    negated = -scores.astype(np.result_type(scores, np.float32), copy=False)
    above, upto = positions(negated, np.sort(negated[relevant]))
    return float(whole(rank(above, upto, np.array([above.size]), ties_checked(ties)))[0])


def ties_checked(ties: str) -> Any:
    """`ties` itself if it is one we know."""
    if ties not in get_args(Ties):
        raise LikewiseError(f"ties={ties!r} is unknown: expected 'expected', 'optimistic' or 'pessimistic'")
    return ties


def _precision_sum(ranks: Ranks, depth: np.ndarray | float) -> np.ndarray:
    """Σ over the first `depth` places of precision there × relevance there, expected, for each query.

    A block gives (r/n) Σ_{i=1..m} (R′ + 1 + (i − 1)(r − 1)/(n − 1))/(t + i), where m of its n places are in
    the depth; with H = Σ 1/(t + i) that is (r/n)((R′ + 1)H + (r − 1)/(n − 1)(m − (t + 1)H)). Each of its r
    relevant items carries one r-th of it.
    """
    m = ranks.within(depth)
    share = np.where(m > 0, (ranks.relevant_above + 1) / (ranks.above + 1), 0.0)  # right where n = 1
    many = np.flatnonzero(ranks.tied > 1)
    if many.size:
        t, n, m = ranks.above[many], ranks.tied[many], m[many]
        H = _harmonic(t, m)
        slope = (ranks.relevant_tied[many] - 1) / (n - 1)
        share[many] = ((ranks.relevant_above[many] + 1) * H + slope * (m - (t + 1) * H)) / n
    return ranks.sums(share)


def whole(ranks: Ranks) -> np.ndarray:
    """Average precision over the whole ranking."""
    return _precision_sum(ranks, np.inf) / ranks.n_relevant


def at_r(ranks: Ranks) -> np.ndarray:
    """Average precision cut at R, the number of relevant items."""
    return _precision_sum(ranks, ranks.n_relevant) / ranks.n_relevant


def _hits(ranks: Ranks, depth: np.ndarray | float) -> np.ndarray:
    """Expected number of relevant items among the first `depth`: each place of a block holds r/n of one."""
    return ranks.sums(ranks.within(depth) / ranks.tied)


def precision_at(k: int) -> Measure:
    """Share of relevant items among the first k places; places beyond the gallery hold none."""
    return lambda ranks: _hits(ranks, k) / k


def recall_at(k: int) -> Measure:
    """Share of the relevant items that stands in the first k places."""
    return lambda ranks: _hits(ranks, k) / ranks.n_relevant


def precision_at_r(ranks: Ranks) -> np.ndarray:
    """Precision at R, the number of relevant items."""
    return _hits(ranks, ranks.n_relevant) / ranks.n_relevant


def gain_at(k: int | None) -> Measure:
    """nDCG of the first k places (None: of all), relevance 1 or 0, discounted by 1/log2(1 + place)."""
    depth = np.inf if k is None else k

    def measure(ranks: Ranks) -> np.ndarray:
        gain = _discounts(int((ranks.above + ranks.tied).max()))
        t, m = ranks.above, ranks.within(depth).astype(np.intp)
        share = np.where(m > 0, 1 / np.log2(t + 2.0), 0.0)  # right where n = 1
        many = np.flatnonzero(ranks.tied > 1)
        share[many] = (gain[t[many] + m[many]] - gain[t[many]]) / ranks.tied[many]
        return ranks.sums(share) / gain[np.minimum(ranks.n_relevant, depth).astype(np.intp)]

    return measure


def _discounts(n: int) -> np.ndarray:
    """Running sums of 1/log2(1 + place) over the first 0, 1 … n places (at least)."""
    return _discount_table(1 << max(10, n.bit_length()))


@cache
def _discount_table(n: int) -> np.ndarray:
    gains = 1 / np.log2(np.arange(2, n + 2, dtype=np.longdouble))
    return np.concatenate([[0.0], np.cumsum(gains)]).astype(np.float64)


_SMALL = 64
_H = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, _SMALL + 1))])
_SERIES = ((1, 2.0), (2, -12.0), (4, 120.0), (6, -252.0))  # H(x) = ln x + γ + Σ x^-power / divisor + O(x^-8)


def _harmonic(t: np.ndarray, n: np.ndarray) -> np.ndarray:
    """Σ_{i=1..n} 1/(t + i) to rounding: differences of harmonic numbers would lose digits where t is large.

    The places up to 64 come from a table, the others from the asymptotic series, subtracted term by term;
    what it leaves out is below 1e-15 of the sum.
    """
    small = _H[np.minimum(t + n, _SMALL).astype(np.intp)] - _H[np.minimum(t, _SMALL)]
    a, b = np.maximum(t, _SMALL).astype(np.float64), np.maximum(t + n, _SMALL).astype(np.float64)
    tail = sum((b**-power - a**-power) / divisor for power, divisor in _SERIES)
    return small + np.log1p((b - a) / a) + tail
