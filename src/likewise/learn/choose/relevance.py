"""The metric and the kernel Rocchio that rank held-out queries best, each believed as far as its gain is clear."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from sklearn.preprocessing import normalize

from likewise.learn.choose.judged import FEWEST, ROUNDING, HeldQueries, Judgements, mean
from likewise.learn.choose.search import CVResults
from likewise.learn.maths.rocchio import KernelBasis, LeftOut, nearest_irrelevant, rbf, square_root

DOUBT = 1.5  # standard errors of a gain at which nothing of it is believed
MOST_GROUP = 200  # queries left out together: those with most influence
RIDGES, WEIGHTS, IRRELEVANT = (0.1, 1.0, 10.0), (0.3, 0.6, 1.0, 1.7, 3.0, 5.0), (0.0, 1.0)
LINEAR_RIDGE = 3.0  # times that of the RBF kernel


@dataclass(frozen=True)
class MetricSetting:
    """Shrinkage of the covariance within, power of the directions between, and the share of it in the metric."""

    shrinkage: float
    power: float
    share: float = 1.0


NO_METRIC = MetricSetting(0.0, 0.0, 0.0)
# Power 0 is right for judgements of their own, more for classes behind clicks.
METRICS = tuple(MetricSetting(*pair) for pair in ((0.85, 0.0), (0.6, 0.0), (0.6, 0.5), (0.6, 1.0)))


@dataclass(frozen=True)
class RocchioSetting:
    """Kernel of the queries, its ridge, the part of irrelevant items, the weight of it all, and the share believed."""

    kernel: str
    ridge: float
    irrelevant: float
    weight: float
    share: float = 1.0


@dataclass(frozen=True)
class Metric:
    """A linear map of both sides, or of the query side alone; of neither if L is None."""

    side: str
    L: np.ndarray | None = None
    shift: np.ndarray | None = None

    @classmethod
    def of(cls, side: str, known: Judgements, setting: MetricSetting) -> Metric:
        """With share 1 the metric itself, with 0 the raw rows."""
        if not setting.share:
            return cls(side)
        L = known.scatter.root(setting.shrinkage, setting.power)
        if side == "query" or setting.share < 1:
            M = (1 - setting.share) * np.eye(len(L)) + setting.share * (L @ L.T)
            L = square_root(M) if side == "both" else M
        return cls(side, L.astype(known.Q.dtype), (setting.share * known.mean).astype(known.Q.dtype))

    def query(self, Q: np.ndarray) -> np.ndarray:
        if self.L is None or self.side == "both":
            return self.gallery(Q)
        return np.asarray(normalize(Q @ self.L.astype(Q.dtype)))

    def gallery(self, G: np.ndarray) -> np.ndarray:
        if self.L is None or self.shift is None or self.side == "query":
            return G
        return np.asarray(normalize((G - self.shift.astype(G.dtype)) @ self.L.astype(G.dtype)))


@dataclass(frozen=True)
class Ranking:
    """A metric, and what is added to a query after it: its features times C, or these `alone` without the query."""

    metric: Metric
    landmarks: np.ndarray | None = None
    C: np.ndarray | None = None
    alone: bool = False

    def query(self, Q: np.ndarray) -> np.ndarray:
        Q = self.metric.query(Q)
        if self.C is None:
            return Q
        features = Q if self.landmarks is None else rbf(Q, self.landmarks.astype(Q.dtype))
        moved = features @ self.C.astype(Q.dtype)
        return np.asarray(normalize(moved if self.alone else Q + moved))

    def gallery(self, G: np.ndarray) -> np.ndarray:
        return self.metric.gallery(G)

    def scores(self, Q: np.ndarray, G: np.ndarray) -> np.ndarray:
        return np.asarray(self.query(Q) @ self.gallery(G).T)


@dataclass(frozen=True)
class Moves:
    """Judged queries after the metric, and what moves them: their relevant and irrelevant items less the mean item."""

    Q: np.ndarray
    relevant: np.ndarray
    irrelevant: np.ndarray
    alone: bool

    @classmethod
    def of(cls, known: Judgements, metric: Metric, pool: np.ndarray) -> Moves:
        """The irrelevant items are the nearest ones of a pool that are not relevant."""
        judged = np.flatnonzero(np.diff(known.gains.indptr))
        Q, G, gains = metric.query(known.Q[judged]), metric.gallery(known.G), known.gains[judged]
        mean = G[pool].mean(axis=0)
        relevant = (known.W[judged] @ G - mean).astype(Q.dtype)
        if known.two_widths:
            return cls(Q, relevant, np.zeros_like(relevant), True)
        return cls(Q, relevant, nearest_irrelevant(Q, G[pool], gains[:, pool]) - mean, False)

    def ranking(self, metric: Metric, setting: RocchioSetting, n_landmarks: int) -> Ranking:
        """The metric with the moves that a setting makes of these."""
        if not setting.share:
            return Ranking(metric)
        basis = KernelBasis.of(self.Q, setting.kernel, n_landmarks)
        ridge = setting.ridge * (LINEAR_RIDGE if setting.kernel == "linear" else 1.0)
        C = basis.coefficients(self.relevant - setting.irrelevant * self.irrelevant, ridge)
        C = (setting.share * setting.weight * C).astype(self.Q.dtype)
        return Ranking(metric, basis.landmarks, C, self.alone)


@dataclass(frozen=True)
class Chosen:
    """The settings that held-out queries prefer, how clear the gain is, and all that were tried.

    `clearness` is the largest gain in standard errors: below 1.5 nothing of it is believed.
    """

    metric: MetricSetting
    rocchio: RocchioSetting
    clearness: float
    results: CVResults


# Of sides of two widths with too few queries to hold any out.
UNTRIED = Chosen(NO_METRIC, RocchioSetting("rbf", 1.0, 0.0, 1.0), 0.0, CVResults())


def chosen_and_measured(held: HeldQueries, side: str, n_landmarks: int) -> tuple[Chosen, dict[str, Any]]:
    """The settings that held-out queries prefer, and what they are worth; a map that loses when measured is dropped."""
    chosen = choose(held, side, n_landmarks)
    if held.known.two_widths:
        return chosen, held_out(held, side, chosen, n_landmarks)[0]
    for drop in ({}, {"rocchio": replace(chosen.rocchio, share=0.0)}, {"metric": replace(chosen.metric, share=0.0)}):
        chosen = replace(chosen, **drop)
        figures, gain = held_out(held, side, chosen, n_landmarks)
        if gain >= 0:
            break
    return chosen, figures


def choose(held: HeldQueries, side: str, n_landmarks: int) -> Chosen:
    """First the metric, then what is added to queries after it; sides of two widths have no metric."""
    results = CVResults()
    metric, clear = (NO_METRIC, 0.0) if held.known.two_widths else _choose_metric(held, side, results)
    linear = Metric.of(side, held.known, metric)
    rocchio, clearer = _choose_rocchio(held, linear, n_landmarks, results)
    return Chosen(metric, rocchio, max(clear, clearer), results)


def _choose_metric(held: HeldQueries, side: str, results: CVResults) -> tuple[MetricSetting, float]:
    """By three folds, in both views; what loses in one of them is not worth what it gains in the other."""
    gains = np.zeros((len(METRICS), 2, len(held)))
    for fold, targets in zip(held.folds, held.fold_targets, strict=True):
        raw = targets.quality(held.raw_scores[fold])
        for view in (0, 1):
            seen = held.known.without(held.queries[fold], items=bool(view))
            if not seen.gains.nnz:
                continue
            for i, setting in enumerate(METRICS):
                ranking = Ranking(Metric.of(side, seen, setting))
                gains[i, view, fold] = targets.quality(ranking.scores(held.Q[fold], held.G)) - raw
    values = [_worth(*gain) for gain in gains]
    if held.own_clicks is not None:
        for i, setting in enumerate(METRICS):
            values[i] += held.lost(Ranking(Metric.of(side, held.known, setting)).scores(held.Q, held.G))
    for setting, value in zip(METRICS, values, strict=True):
        results.add(asdict(setting), [value])
    best = int(np.argmax(np.array(values) > max(values) - ROUNDING))
    clear = clearness(gains[best].mean(axis=0)) if values[best] > 0 else 0.0
    return replace(METRICS[best], share=believed(clear)), clear


def _worth(natural: np.ndarray, cold: np.ndarray) -> float:
    a, b = mean(natural), mean(cold)
    return (a + b) / 2 + min(0.0, a, b)


def _choose_rocchio(
    held: HeldQueries, metric: Metric, n_landmarks: int, results: CVResults
) -> tuple[RocchioSetting, float]:
    """By leave-one-out, and by leaving out all queries that share a relevant item; in closed form.

    Where clicks are judged by what was clicked for related queries, only the second is right: those queries would tell
    what is asked. And as near items are hidden then, moving away from near ones would cost nothing.
    """
    moves = Moves.of(held.known, metric, held.items)
    G = metric.gallery(held.G)
    S = held.raw_scores if metric.L is None else metric.query(held.Q) @ G.T
    before = held.targets.quality(S)
    both, best = np.hstack([moves.relevant, moves.irrelevant]), (0.0, RocchioSetting("linear", 1.0, 0.0, 0.0, 0.0), 0.0)
    for kernel in ("linear", "rbf"):
        basis = KernelBasis.of(moves.Q, kernel, n_landmarks)
        for ridge in RIDGES:
            left_out = LeftOut(basis, both, ridge * (LINEAR_RIDGE if kernel == "linear" else 1.0))
            cold = np.stack([left_out.without(group[0], _most_influential(left_out, group)) for group in held.groups])
            views = [left_out.alone(held.queries), cold]
            parts = [(view[:, : G.shape[1]] @ G.T, view[:, G.shape[1] :] @ G.T) for view in views]
            for irrelevant, weight in _moves_to_try(held):
                setting = RocchioSetting(kernel, ridge, irrelevant, weight)
                natural, unknown = (S + weight * (a - irrelevant * b) for a, b in parts)
                gain = cold = held.targets.quality(unknown) - before
                if not held.by_related:
                    gain = held.targets.quality(natural) - before
                value = mean(gain) + (held.lost(natural) if held.by_related else min(0.0, mean(cold)))
                results.add(asdict(setting), [value])
                if value > best[0] + ROUNDING:
                    best = (value, setting, min(clearness(gain), clearness((gain + cold) / 2)))
    return replace(best[1], share=float(held.known.two_widths) or believed(best[2])), best[2]


def _moves_to_try(held: HeldQueries) -> Iterable[tuple[float, float]]:
    """Parts of irrelevant items and weights; between two widths there is nothing to be weighed against."""
    if held.known.two_widths:
        return [(0.0, 1.0)]
    return product((0.0,) if held.by_related else IRRELEVANT, WEIGHTS)


def _most_influential(left_out: LeftOut, group: np.ndarray) -> np.ndarray:
    """A group of queries, or those of them on whose targets the prediction of the first depends most."""
    if len(group) <= MOST_GROUP:
        return group
    U = left_out.basis.U
    influence = np.abs((U[group] * left_out.shares) @ U[group[0]])
    influence[0] = np.inf
    return group[np.argsort(-influence, kind="stable")[:MOST_GROUP]]


def clearness(gain: np.ndarray) -> float:
    """A mean gain in standard errors; 0 if there is none, or too few queries tell."""
    gain = gain[np.isfinite(gain)]
    if len(gain) < FEWEST or gain.mean() <= 0:
        return 0.0
    return float(gain.mean() / max(gain.std(ddof=1) / np.sqrt(len(gain)), 1e-12))


def believed(clear: float) -> float:
    """The share of a gain that is believed: none below 1.5 standard errors, most of a clear one."""
    return max(0.0, 1 - (DOUBT / clear) ** 2) if clear else 0.0


def fitted(known: Judgements, side: str, chosen: Chosen, pool: np.ndarray, n_landmarks: int) -> Ranking:
    """The ranking that settings make of judgements."""
    metric = Metric.of(side, known, chosen.metric)
    if not chosen.rocchio.share:
        return Ranking(metric)
    return Moves.of(known, metric, pool).ranking(metric, chosen.rocchio, n_landmarks)


def held_out(held: HeldQueries, side: str, chosen: Chosen, n_landmarks: int) -> tuple[dict[str, Any], float]:
    """nDCG@10 of held-out queries before and after, fitted on the others with the settings chosen on all; and the gain.

    "known" is of queries with an item that is relevant to another query too, "new" of all after their items were
    forgotten, and "all" of all. The gain is that of `Targets.quality`, over both views.
    """
    values = np.full((2, 3, len(held)), np.nan)  # nDCG@10 and nDCG; raw, natural, cold
    warm = np.zeros(len(held), dtype=bool)
    for fold, targets in zip(held.folds, held.fold_targets, strict=True):
        values[:, 0, fold] = targets.ndcg(held.raw_scores[fold])
        for view in (0, 1):
            seen = held.known.without(held.queries[fold], items=bool(view))
            ranking = fitted(seen, side, chosen, held.items, n_landmarks) if seen.gains.nnz else Ranking(Metric(side))
            unchanged = ranking.metric.L is None and ranking.C is None
            S = held.raw_scores[fold] if unchanged else ranking.scores(held.Q[fold], held.G)
            values[:, 1 + view, fold] = targets.ndcg(S)
            if not view:
                times = np.bincount(seen.gains.indices, minlength=len(held.known.G))
                warm[fold] = (held.known.gains[held.queries[fold]] > 0) @ times > 0
    raw, natural, cold = values[0]
    pairs = {"all": (raw, natural), "known": (raw[warm], natural[warm]), "new": (raw, cold)}
    figures = {name: [mean(one) for one in pair] for name, pair in pairs.items() if np.isfinite(pair[0]).any()}
    quality = values.mean(axis=0)
    gain = mean(quality[1] - quality[0]) + mean(quality[2] - quality[0])
    return {"measure": "nDCG@10", "queries": int(np.isfinite(raw).sum()), **figures}, gain
