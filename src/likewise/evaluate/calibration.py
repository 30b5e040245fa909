"""From scores to probabilities and cut-offs, measured on pairs of rows that a model did not learn from.

A score says nothing by itself. How often held-out pairs of one class get it, against pairs of two classes, is its
likelihood ratio, which does not depend on how many pairs match; with a base rate it becomes a probability. A cut-off
keeps a promise by conformal risk control (Angelopoulos et al., 2024): the share of wrong results that held-out queries
got under it, plus what one more query could add, stays below the share that is allowed.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, logit
from sklearn.isotonic import isotonic_regression
from sklearn.linear_model import LogisticRegression

from likewise.errors import LikewiseError
from likewise.utils.arrays import evenly_spaced, top_k

MOST_QUERIES = 500  # held-out queries: more cost time and hardly move a table
# Scores are binned by these quantiles of matching pairs and of the others, closer at the top, where results are.
LEVELS = np.concatenate([np.linspace(0, 1, 26)[1:-1], [0.98, 0.99, 0.995, 0.998, 0.999]])
LIMITS = np.concatenate([[0.0], np.geomspace(1e-4, 0.5, 63)])  # expected shares of wrong results to cut at
MOST_OTHERS = 200_000  # pairs that do not match: more cost time and hardly move a table
FEWEST_PAIRS = 20  # of each kind: fewer say nothing
_CERTAIN = 30.0  # log likelihood ratios are clipped here, where float64 cannot tell a probability from 1
_BINS = 15  # of stated probabilities, in a reliability curve
_ARRAYS, _COUNTS = ("scores", "ratios", "risk", "growth"), ("n_queries", "n_gallery", "n_pairs")


class ScoredPairs(NamedTuple):
    """Scores of queries with a gallery, whether they match, and which pairs count, (n_q, n_g) each."""

    scores: np.ndarray
    same: np.ndarray
    counts: np.ndarray

    @classmethod
    def of(cls, Q: np.ndarray, G: np.ndarray, y_q: np.ndarray, y_g: np.ndarray | None = None) -> Self:
        """Pairs of the sides of rows; without `y_g` the queries are rows of G, and do not find themselves."""
        queries = evenly_spaced(len(Q), MOST_QUERIES)
        same = y_q[queries, None] == (y_q if y_g is None else y_g)
        counts = np.ones(same.shape, dtype=bool)
        if y_g is None:
            counts[np.arange(len(queries)), queries] = False
        return cls(Q[queries] @ G.T, same, counts)


def held_out_pairs(
    held: tuple[np.ndarray, np.ndarray],
    y: np.ndarray,
    learned: np.ndarray | None = None,
    y_learned: np.ndarray | None = None,
) -> dict[int, ScoredPairs]:
    """Pairs of held-out rows, and of these with rows learned from; `held` has both sides of the rows.

    Without the gallery side of the rows learned from there are pairs of held-out rows alone.
    """
    pairs = {0: ScoredPairs.of(*held, y)}
    if learned is not None and len(learned):
        pairs[1] = ScoredPairs.of(held[0], learned, y, y_learned)
    return pairs


@dataclass(frozen=True, eq=False)
class Evidence:
    """What scores of one kind of pairs mean.

    Attributes
    ----------
    scores, ratios : (m,) log likelihood ratio of matching against other pairs at some scores, ascending both.
    risk : (len(LIMITS),) mean share of wrong results per query where the expected share is cut at `LIMITS`, ascending.
    growth : (len(LIMITS),) by how much it grows with a gallery twice as large: the best of more are more extreme.
    n_queries, n_gallery, n_pairs : what was measured. base_rate : share of the pairs that match.
    """

    scores: np.ndarray
    ratios: np.ndarray
    risk: np.ndarray
    growth: np.ndarray
    base_rate: float
    n_queries: int
    n_gallery: int
    n_pairs: int

    @classmethod
    def measured(cls, parts: Sequence[ScoredPairs]) -> Self | None:
        """From scored pairs, those of several splits together; None if there are too few of either kind."""
        scores = np.concatenate([part.scores[part.counts] for part in parts])
        same = np.concatenate([part.same[part.counts] for part in parts])
        if min(same.sum(), (~same).sum()) < FEWEST_PAIRS:
            return None
        table, base_rate = likelihood_ratios(scores, same), float(same.mean())
        risk, growth = _risk(parts, lambda S: expit(np.interp(S, *table) + logit(base_rate)))
        sizes = np.array([part.scores.shape for part in parts])
        return cls(*table, risk, growth, base_rate, int(sizes[:, 0].sum()), round(sizes[:, 1].mean()), len(same))

    @classmethod
    def of_marks(cls, right: Sequence[float], wrong: Sequence[float], others: Sequence[float]) -> Self:
        """From few scores of rows marked right or wrong, and of others, most of which are wrong: a logistic curve.

        Rows are marked because they score high, which does not change how likely a row of that score is right. Others
        below the marks hold the curve down, with the weight of a quarter of the marks. A cut-off by these probabilities
        is not conformal: it allows for one more wrong mark, and is an estimate.
        """
        n, low = len(right) + len(wrong), [score for score in others if score < np.median(wrong)]
        scores, same = np.concatenate([right, wrong, low]), np.arange(n + len(low)) < len(right)
        weights = np.where(np.arange(len(scores)) < n, 1.0, n / 4 / max(len(low), 1))
        spread, rate = float(scores.std()) or 1.0, float(np.average(same, weights=weights))
        curve = LogisticRegression().fit(scores[:, None] / spread, same, sample_weight=weights)
        at = np.linspace(scores.min(), scores.max() + 1e-9, 16)
        ratios = np.clip(curve.decision_function(at[:, None] / spread) - logit(rate), -_CERTAIN, _CERTAIN)
        return cls(
            at, np.maximum.accumulate(ratios), LIMITS, np.zeros_like(LIMITS), rate, n, len(others) or 1, len(scores)
        )

    def probability(self, scores: ArrayLike, base_rate: float | None = None) -> np.ndarray:
        """Probability of a match at each score."""
        odds = logit(self.base_rate if base_rate is None else base_rate)
        return np.asarray(expit(np.interp(np.asarray(scores, dtype=np.float64), self.scores, self.ratios) + odds))

    def limit(self, at_most_wrong: float, n_gallery: int = 0) -> float:
        """The largest expected share of wrong results under which the promise holds; below 0 if there is none.

        In a gallery larger than the held-out one the risk is taken to go on growing as it did there.
        """
        n, doublings = self.n_queries, np.log2(max(n_gallery / self.n_gallery, 1.0))
        risk = np.maximum.accumulate(self.risk + self.growth * doublings)
        safe = np.flatnonzero((n * risk + 1) / (n + 1) <= at_most_wrong)
        return float(LIMITS[safe[-1]]) if len(safe) else -1.0

    def as_dict(self) -> dict[str, Any]:
        """Plain values, as a model's card holds them."""
        return {f.name: np.asarray(getattr(self, f.name)).tolist() for f in fields(self)}

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Self:
        """From plain values, which may come from a damaged file."""
        try:
            arrays: dict[str, Any] = {name: np.array(facts[name], dtype=np.float64) for name in _ARRAYS}
            counts: dict[str, Any] = {name: int(facts[name]) for name in _COUNTS}
            return cls(**arrays, base_rate=float(facts["base_rate"]), **counts)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise LikewiseError(f"calibration_ is damaged: {error!r}") from error


@dataclass(frozen=True, eq=False)
class Calibration:
    """What the scores of a model mean, by how many rows of a pair it learned from: 0 or 1.

    New rows score higher with the rows that a model learned from than with each other. Pairs of two rows that it
    learned from count as the former.
    """

    of_learned: dict[int, Evidence]

    @classmethod
    def measured(cls, pairs: Iterable[dict[int, ScoredPairs]]) -> Self | None:
        """From the scored pairs of each split; None if they are too few."""
        splits: dict[int, list[ScoredPairs]] = {0: [], 1: []}
        for part in pairs:
            for n, scored in part.items():
                splits[n].append(scored)
        measured = {n: Evidence.measured(parts) for n, parts in splits.items() if parts}
        of_learned = {n: evidence for n, evidence in measured.items() if evidence is not None}
        return cls(of_learned) if of_learned else None

    @property
    def base_rate(self) -> float:
        """Share of the held-out pairs that match."""
        return self.evidence(0).base_rate

    def evidence(self, n_learned: int) -> Evidence:
        """That of pairs with `n_learned` rows that were learned from, or else of the other kind."""
        return self.of_learned[min(self.of_learned, key=lambda n: abs(n - n_learned))]

    def probability(self, scores: ArrayLike, n_learned: ArrayLike = 0, base_rate: float | None = None) -> np.ndarray:
        """Probability of a match at each score; `n_learned` is one number or one per score."""
        check_rate("base_rate", base_rate)
        scores = np.asarray(scores)
        kinds, P = np.broadcast_to(n_learned, scores.shape), np.empty(scores.shape)
        for n in np.unique(kinds):
            P[kinds == n] = self.evidence(int(n)).probability(scores[kinds == n], base_rate)
        return P

    def n_results(
        self, P: np.ndarray, at_most_wrong: float, n_learned: ArrayLike = 0, n_gallery: int = 0
    ) -> np.ndarray:
        """How many of the results of each query to keep, (n_q,); rows of P are their probabilities, best first.

        `n_gallery` is the size of the gallery that they come from; the results themselves if there are more.
        """
        check_rate("at_most_wrong", at_most_wrong)
        n_gallery = max(n_gallery, P.shape[1])
        limits = [self.evidence(int(n)).limit(at_most_wrong, n_gallery) for n in np.unique(n_learned)]
        return np.asarray((expected_wrong(P) <= min(limits, default=-1.0)).sum(axis=1))

    def as_dict(self) -> dict[str, Any]:
        """Plain values, as a model's card holds them."""
        return {str(n): evidence.as_dict() for n, evidence in self.of_learned.items()}

    @classmethod
    def from_dict(cls, facts: object) -> Self:
        """From plain values, which may come from a damaged file."""
        if not isinstance(facts, dict) or not facts or not facts.keys() <= {"0", "1"}:
            raise LikewiseError(f"calibration_ is damaged: {str(facts)[:60]!r}")
        return cls({int(n): Evidence.from_dict(part) for n, part in facts.items()})


def likelihood_ratios(scores: np.ndarray, same: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scores and the log likelihood ratio of matching against other pairs there, both ascending.

    Scores are binned by quantiles of both kinds, and the ratios of the bins made monotone by isotonic regression.
    """
    match, other = scores[same], scores[~same]
    other = other[:: -(-len(other) // MOST_OTHERS)]
    edges = np.unique(np.concatenate([np.quantile(match, LEVELS), np.quantile(other, LEVELS)]))
    places = [np.searchsorted(edges, part, side="right") for part in (match, other)]
    n_match, n_other = (np.bincount(place, minlength=len(edges) + 1) for place in places)
    totals = [np.bincount(*both, minlength=len(edges) + 1) for both in zip(places, (match, other), strict=True)]
    filled = n_match + n_other > 0
    middle = (totals[0] + totals[1])[filled] / (n_match + n_other)[filled]
    # half a pair more in each bin: one that holds pairs of one kind alone is not certain
    shares = [(n[filled] + 0.5) / (n[filled] + 0.5).sum() for n in (n_match, n_other)]
    balanced = isotonic_regression(shares[0] / (shares[0] + shares[1]), sample_weight=shares[0] + shares[1])
    return np.maximum.accumulate(middle), np.clip(logit(balanced), -_CERTAIN, _CERTAIN)


def expected_wrong(P: np.ndarray) -> np.ndarray:
    """Expected share of wrong ones among the first 1, 2 … results, made monotone; rows of P are best first.

    From the first that is more likely wrong than right on it is infinite: many sure results do not make up for it.
    """
    share = np.cumsum(1 - P, axis=1) / np.arange(1, P.shape[1] + 1)
    return np.asarray(np.maximum.accumulate(np.where(P < 0.5, np.inf, share), axis=1))


def _risk(
    parts: Sequence[ScoredPairs], probability: Callable[[np.ndarray], np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Mean share of wrong results at each of `LIMITS`, and its growth from a quarter of the gallery, per doubling."""
    shares = [_wrong_shares(part, probability) for part in parts]
    fewer = [ScoredPairs(*(values[:, ::4] for values in part)) for part in parts]
    both = [np.asarray((part.same & part.counts).any(axis=1)) for part in fewer]  # queries with something to find
    before = [_wrong_shares(part, probability)[queries] for part, queries in zip(fewer, both, strict=True)]
    after = [share[queries] for share, queries in zip(shares, both, strict=True)]
    gain = np.concatenate(after).sum(axis=0) - np.concatenate(before).sum(axis=0)
    growth = np.maximum(gain / 2 / max(sum(map(len, before)), 1), 0.0)
    return np.maximum.accumulate(np.concatenate(shares).mean(axis=0)), growth


def _wrong_shares(part: ScoredPairs, probability: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Share of wrong ones among the results of each query at each of `LIMITS`, (n_q, m); 0 where there are none."""
    S = np.where(part.counts, part.scores, -np.inf)
    # Half of more results than this are wrong for certain, and no limit lies beyond that.
    depth = min(int(part.counts.sum(axis=1).min()), 2 * int((part.same & part.counts).sum(axis=1).max()) + 1)
    if depth == 0:  # a query without a gallery has no results, right or wrong
        return np.zeros((len(S), len(LIMITS)))
    order = top_k(S, depth)
    P, same = probability(np.take_along_axis(S, order, axis=1)), np.take_along_axis(part.same, order, axis=1)
    sizes = np.stack([np.searchsorted(row, LIMITS, side="right") for row in expected_wrong(P)])
    n_wrong = np.take_along_axis(np.cumsum(~same, axis=1), np.maximum(sizes - 1, 0), axis=1)
    return np.where(sizes > 0, n_wrong / np.maximum(sizes, 1), 0.0)


def check_rate(name: str, value: object) -> None:
    """Raise unless a rate is None or lies between 0 and 1."""
    if value is not None and not (isinstance(value, int | float | np.number) and 0 < value < 1):
        raise LikewiseError(f"{name}={value!r}: expected a number between 0 and 1, or None")


# -- How far stated probabilities are from what happens ---------------------------------------------------------------


class Reliability(NamedTuple):
    """Mean stated probability, share that came true and weight of each bin of probabilities that is not empty."""

    stated: np.ndarray
    observed: np.ndarray
    weight: np.ndarray

    @property
    def error(self) -> float:
        """Expected calibration error: the mean of |stated - observed| over bins, by their weight."""
        return float(np.average(np.abs(self.stated - self.observed), weights=self.weight))


def reliability(P: ArrayLike, same: ArrayLike, *, sample_weight: ArrayLike | None = None) -> Reliability:
    """The reliability curve of probabilities P of pairs that match or not, in bins of equal width.

    Examples
    --------
    >>> reliability([0.1, 0.1, 0.9, 0.9], [False, False, True, False]).error
    0.25
    """
    p, y = np.asarray(P, dtype=np.float64).ravel(), np.asarray(same, dtype=bool).ravel()
    w = np.ones(p.shape) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64).ravel()
    if not len(p) == len(y) == len(w) > 0:
        raise LikewiseError(f"P has {p.size} values, same {y.size} and sample_weight {w.size}: expected as many, not 0")
    place = np.minimum((p * _BINS).astype(int), _BINS - 1)
    weight, stated, observed = (np.bincount(place, values, _BINS) for values in (w, w * p, w * y))
    filled = weight > 0
    return Reliability(stated[filled] / weight[filled], observed[filled] / weight[filled], weight[filled])


def balanced(same: ArrayLike) -> np.ndarray:
    """Weights under which matching pairs and others count alike: most pairs are others, and would hide the rest."""
    y = np.asarray(same, dtype=bool)
    return np.where(y, 0.5 / y.mean(), 0.5 / (1 - y.mean()))
