"""From scores to probabilities and cut-offs, measured on pairs of rows that a model did not learn from.

A score says nothing by itself. How often held-out pairs of one class get it, against pairs of two classes, is its
likelihood ratio, which does not depend on how many pairs match; with a base rate it becomes a probability. A cut-off
keeps a promise by conformal risk control (Angelopoulos et al., 2024): the share of wrong results that held-out queries
got under it, plus what one more query could add, stays below the share that is allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.special import expit, logit
from sklearn.isotonic import isotonic_regression
from sklearn.linear_model import LogisticRegression

from likewise.errors import LikewiseError
from likewise.utils.arrays import top_k

MOST_QUERIES = 500  # held-out queries: more cost time and hardly move a table
# Scores are binned by these quantiles of matching pairs and of the others, closer at the top, where results are.
LEVELS = np.concatenate([np.linspace(0, 1, 26)[1:-1], [0.98, 0.99, 0.995, 0.998, 0.999]])
LIMITS = np.concatenate([[0.0], np.geomspace(1e-4, 0.5, 63)])  # expected shares of wrong results to cut at
MOST_OTHERS = 200_000  # pairs that do not match: more cost time and hardly move a table
FEWEST_PAIRS = 20  # of each kind: fewer say nothing
_CERTAIN = 30.0  # log likelihood ratios are clipped here, where float64 cannot tell a probability from 1


_ARRAYS, _COUNTS = ("scores", "ratios", "risk", "growth"), ("n_queries", "n_gallery", "n_pairs")


class ScoredPairs(NamedTuple):
    """Scores of queries with a gallery, whether they match, and which pairs count, (n_q, n_g) each."""

    scores: np.ndarray
    same: np.ndarray
    counts: np.ndarray

    @property
    def has_match(self) -> np.ndarray:
        """Whether each query has something to find."""
        return np.asarray((self.same & self.counts).any(axis=1))

    def thinned(self) -> ScoredPairs:
        """The same with every fourth row of the gallery."""
        return ScoredPairs(*(part[:, ::4] for part in self))

    @classmethod
    def of(cls, Q: np.ndarray, G: np.ndarray, y_q: np.ndarray, y_g: np.ndarray | None = None) -> Self:
        """Pairs of the sides of rows; without `y_g` the queries are rows of G, and do not find themselves."""
        asked = np.unique(np.linspace(0, len(Q) - 1, min(MOST_QUERIES, len(Q))).astype(int))
        same = y_q[asked, None] == (y_q if y_g is None else y_g)
        counts = np.ones(same.shape, dtype=bool)
        if y_g is None:
            counts[np.arange(len(asked)), asked] = False
        return cls(Q[asked] @ G.T, same, counts)


def held_out_pairs(
    held: tuple[np.ndarray, np.ndarray], y: np.ndarray, learned: np.ndarray | None = None, y_learned: Any = None
) -> dict[int, ScoredPairs]:
    """Pairs of held-out rows, and of these with rows learned from; `held` has both sides of the rows.

    Without the gallery side of the rows learned from there are pairs of held-out rows alone.
    """
    found = {0: ScoredPairs.of(*held, y)}
    if learned is not None and len(learned):
        found[1] = ScoredPairs.of(held[0], learned, y, y_learned)
    return found


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

        Rows are marked because they score high, which does not change how likely one of a score is right. Others below
        the marks hold the curve down, with the weight of a quarter of the marks. Probabilities are taken at their word,
        not conformal: a cut-off allows for one more wrong mark, and is an estimate.
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

    def probability(self, scores: Any, base_rate: float | None = None) -> np.ndarray:
        """Probability of a match at each score."""
        odds = logit(self.base_rate if base_rate is None else base_rate)
        return np.asarray(expit(np.interp(np.asarray(scores, dtype=np.float64), self.scores, self.ratios) + odds))

    def limit(self, at_most_wrong: float, n_gallery: int = 0) -> float:
        """The largest expected share of wrong results under which the promise holds; below 0 if there is none.

        In a gallery larger than the held-out one the risk is taken to go on growing as it did there.
        """
        n, doublings = self.n_queries, np.log2(max(n_gallery / self.n_gallery, 1.0))
        risk = np.maximum.accumulate(self.risk + self.growth * doublings)
        kept = np.flatnonzero((n * risk + 1) / (n + 1) <= at_most_wrong)
        return float(LIMITS[kept[-1]]) if len(kept) else -1.0

    def as_dict(self) -> dict[str, Any]:
        """Plain values, as a model's card holds them."""
        return {f.name: np.asarray(getattr(self, f.name)).tolist() for f in fields(self)}

    @classmethod
    def from_dict(cls, given: Any) -> Self:
        """From plain values, which may come from a damaged file."""
        try:
            arrays = {name: np.array(given[name], dtype=np.float64) for name in _ARRAYS}
            rate, counts = float(given["base_rate"]), [int(given[name]) for name in _COUNTS]
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise LikewiseError(f"calibration_ is damaged: {error!r}") from error
        risk, growth = arrays["risk"], arrays["growth"]
        fits = all(_ascending(arrays[name]) for name in ("scores", "ratios", "risk"))
        fits = fits and arrays["scores"].shape == arrays["ratios"].shape and 0 <= risk[0] <= risk[-1] <= 1
        fits = fits and risk.shape == growth.shape == LIMITS.shape and bool(((growth >= 0) & (growth <= 1)).all())
        if not fits or not 0 < rate < 1 or min(counts) < 1:
            raise LikewiseError("calibration_ is damaged: expected ascending tables of scores, ratios and risks")
        facts: dict[str, Any] = {**arrays, "base_rate": rate, **dict(zip(_COUNTS, counts, strict=True))}
        return cls(**facts)


@dataclass(frozen=True, eq=False)
class Calibration:
    """What the scores of a model mean, by how many rows of a pair it learned from: 0 or 1.

    New rows score higher with the rows a model learned from, which it knows by heart, than with each other. Pairs of
    two rows that it learned from count as the former.
    """

    of_learned: dict[int, Evidence]

    @classmethod
    def measured(cls, pairs: Iterable[dict[int, ScoredPairs]]) -> Self | None:
        """From the scored pairs of each split; None if they are too few."""
        parts = list(pairs)
        kinds = {n for part in parts for n in part}
        found = {n: Evidence.measured([part[n] for part in parts if n in part]) for n in sorted(kinds)}
        kept = {n: evidence for n, evidence in found.items() if evidence is not None}
        return cls(kept) if kept else None

    @property
    def base_rate(self) -> float:
        """Share of the held-out pairs that match."""
        return self.evidence(0).base_rate

    def evidence(self, n_learned: int) -> Evidence:
        """That of pairs of which so many rows were learned from; the next kind that is known if they are not."""
        return self.of_learned[min(self.of_learned, key=lambda n: abs(n - n_learned))]

    def probability(self, scores: Any, n_learned: Any = 0, base_rate: float | None = None) -> np.ndarray:
        """Probability of a match at each score; `n_learned` is one number or one per score."""
        check_rate("base_rate", base_rate)
        scores = np.asarray(scores)
        kinds, found = np.broadcast_to(n_learned, scores.shape), np.empty(scores.shape)
        for n in np.unique(kinds):
            found[kinds == n] = self.evidence(int(n)).probability(scores[kinds == n], base_rate)
        return found

    def n_results(self, P: np.ndarray, at_most_wrong: float, n_learned: Any = 0, n_gallery: int = 0) -> np.ndarray:
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
    def from_dict(cls, given: Any) -> Self:
        """From plain values, which may come from a damaged file."""
        if not isinstance(given, dict) or not given or not given.keys() <= {"0", "1"}:
            raise LikewiseError(f"calibration_ is damaged: {str(given)[:60]!r}")
        return cls({int(n): Evidence.from_dict(part) for n, part in given.items()})


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
    fewer = [part.thinned() for part in parts]
    both = [part.has_match for part in fewer]
    before = [_wrong_shares(part, probability)[asked] for part, asked in zip(fewer, both, strict=True)]
    after = [share[asked] for share, asked in zip(shares, both, strict=True)]
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
    kept = np.stack([np.searchsorted(row, LIMITS, side="right") for row in expected_wrong(P)])
    found = np.take_along_axis(np.cumsum(~same, axis=1), np.maximum(kept - 1, 0), axis=1)
    return np.where(kept > 0, found / np.maximum(kept, 1), 0.0)


def _ascending(values: np.ndarray) -> bool:
    return values.ndim == 1 and len(values) > 0 and bool(np.isfinite(values).all() and (np.diff(values) >= 0).all())


def check_rate(name: str, value: Any) -> None:
    """Raise unless a rate is None or lies between 0 and 1."""
    if value is not None and not (isinstance(value, int | float | np.number) and 0 < value < 1):
        raise LikewiseError(f"{name}={value!r}: expected a number between 0 and 1, or None")
