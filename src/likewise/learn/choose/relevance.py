"""The metric and the kernel Rocchio that rank held-out queries best, each believed as far as its gain is clear."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.preprocessing import normalize

from likewise.learn.choose.judged import FEWEST, ROUNDING, HeldQueries, Judgements, mean
from likewise.learn.choose.search import CVResults
from likewise.learn.maths.rocchio import KernelBasis, LeftOut, features, nearest_irrelevant, square_root

DOUBT = 1.5  # standard errors of a gain at which nothing of it is believed
MOST_GROUP = 200  # queries left out together: those with most influence
RIDGES, LINEAR_RIDGE = (0.1, 1.0, 10.0), 3.0  # the second times the first for the linear kernel
WEIGHTS = (0.3, 0.6, 1.0, 1.7, 3.0, 5.0, 10.0, 30.0)  # with the last hardly anything of a query is left
FIRST_WEIGHTS = (0.6, 1.7, 5.0)  # those that everything is tried with; then the neighbours of the best one


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
    """Kernel of the queries, its ridge, what they move away from, the weight of it all, and the share believed.

    They move away from the "mean" item, which leaves what is common to all items out; from the nearest "irrelevant"
    ones; or from "nothing".
    """

    kernel: str
    ridge: float
    against: str
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
        landmarks = None if self.landmarks is None else self.landmarks.astype(Q.dtype)
        moved = features(Q, landmarks) @ self.C.astype(Q.dtype)
        return np.asarray(normalize(moved if self.alone else Q + moved))

    def gallery(self, G: np.ndarray) -> np.ndarray:
        return self.metric.gallery(G)

    def scores(self, Q: np.ndarray, G: np.ndarray) -> np.ndarray:
        return np.asarray(self.query(Q) @ self.gallery(G).T)


@dataclass(frozen=True)
class Moves:
    """Judged queries after the metric, and what moves them: the means of their relevant and irrelevant items."""

    Q: np.ndarray
    relevant: np.ndarray
    irrelevant: np.ndarray
    mean: np.ndarray  # of all items
    alone: bool

    @classmethod
    def of(cls, known: Judgements, metric: Metric, pool: np.ndarray) -> Moves:
        """The irrelevant items are the nearest ones of a pool that are not relevant."""
        judged = np.flatnonzero(np.diff(known.gains.indptr))
        Q, G, gains = metric.query(known.Q[judged]), metric.gallery(known.G), known.gains[judged]
        mean = G[pool].mean(axis=0)
        relevant = (known.W[judged] @ G).astype(Q.dtype)
        irrelevant = np.zeros_like(relevant) if known.two_widths else nearest_irrelevant(Q, G[pool], gains[:, pool])
        return cls(Q, relevant, irrelevant, mean, known.two_widths)

    def ranking(self, metric: Metric, setting: RocchioSetting, n_landmarks: int) -> Ranking:
        """The metric with the moves that a setting makes of these."""
        if not setting.share:
            return Ranking(metric)
        basis = KernelBasis.of(self.Q, setting.kernel, n_landmarks)
        ridge = setting.ridge * (LINEAR_RIDGE if setting.kernel == "linear" else 1.0)
        away = {"mean": self.mean, "irrelevant": self.irrelevant, "nothing": 0.0}[setting.against]
        C = basis.coefficients((self.relevant - away).astype(self.Q.dtype), ridge)
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


NO_MOVES = RocchioSetting("linear", 1.0, "mean", 0.0, 0.0)
# Of sides of two widths with too few queries to hold any out.
UNTRIED = Chosen(NO_METRIC, RocchioSetting("rbf", 1.0, "mean", 1.0), 0.0, CVResults())


def chosen_and_measured(held: HeldQueries, side: str, n_landmarks: int) -> tuple[Chosen, dict[str, Any]]:
    """The settings that held-out queries prefer, and what they are worth.

    First the metric, then what is added to queries after it; what is added to them without the metric is measured too,
    and the better of both is used, or less of it if even that loses. Sides of two widths have no metric.
    """
    results, no_metric = CVResults(), held.known.two_widths
    metric, clear = (NO_METRIC, 0.0) if no_metric else _choose_metric(held, side, results)
    options: list[tuple[Chosen, dict[str, Any], float]] = []
    for one in (metric, NO_METRIC) if metric.share else (metric,):
        like = options[0][0].rocchio if options else None
        rocchio, clearer = _choose_rocchio(held, Metric.of(side, held.known, one), n_landmarks, results, like)
        chosen = Chosen(one, rocchio, max(clear, clearer), results)
        options.append((chosen, *held_out(held, side, chosen, n_landmarks)))
    best = max(options, key=lambda option: option[2])
    for drop in ({"rocchio": NO_MOVES}, {"metric": NO_METRIC}):
        if best[2] < 0 and not no_metric:
            chosen = replace(best[0], **drop)
            best = (chosen, *held_out(held, side, chosen, n_landmarks))
    return best[0], best[1]


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
    held: HeldQueries, metric: Metric, n_landmarks: int, results: CVResults, like: RocchioSetting | None
) -> tuple[RocchioSetting, float]:
    """By leave-one-out, and by leaving out all queries that share a relevant item; in closed form.

    With another setting to be `like`, only its kernel and ridge are tried.
    """
    moves = Moves.of(held.known, metric, held.items)
    G = metric.gallery(held.G)
    S = held.raw_scores if metric.L is None else metric.query(held.Q) @ G.T
    before = held.targets.quality(S)
    best, best_moved = _Tried(0.0, NO_MOVES, 0.0), None

    def better(setting: RocchioSetting, moved: list[np.ndarray]) -> bool:
        nonlocal best, best_moved
        tried = _tried(held, setting, before, S, moved, best.value)
        results.add(asdict(setting), [tried.value])
        if tried.value <= best.value + ROUNDING:
            return False
        best, best_moved = tried, moved
        return True

    for kernel in ("linear", "rbf") if like is None else (like.kernel,):
        basis = KernelBasis.of(moves.Q, kernel, n_landmarks)
        for ridge in RIDGES if like is None else (like.ridge,):
            for against, moved in _moved(held, moves, basis, ridge, G):
                for weight in (1.0,) if held.known.two_widths else FIRST_WEIGHTS:
                    better(RocchioSetting(kernel, ridge, against, weight), moved)
    if best_moved is not None and not held.known.two_widths:
        # Clicked items were shown for their raw cosine, so clicks cannot tell that it means nothing.
        weights = WEIGHTS[:-2] if held.by_related else WEIGHTS
        for step in (-1, 1):
            at = weights.index(best.setting.weight) + step
            while 0 <= at < len(weights) and better(replace(best.setting, weight=weights[at]), best_moved):
                at += step
    return replace(best.setting, share=float(held.known.two_widths) or believed(best.clearness)), best.clearness


class _Tried(NamedTuple):
    """What a setting of Rocchio is worth, and how clear that is."""

    value: float
    setting: RocchioSetting
    clearness: float


def _tried(
    held: HeldQueries, setting: RocchioSetting, before: np.ndarray, S: np.ndarray, moved: list[np.ndarray], least: float
) -> _Tried:
    """From scores of held-out queries, and their changes without the queries themselves and without their groups.

    Where clicks are judged by what was clicked for related queries, only the second is right: those queries would tell
    what is asked. Otherwise the second can only lower the value, and is not computed where that is too low already.
    """
    natural, unknown = (S + setting.weight * part for part in moved)
    if held.by_related:
        gain = cold = held.targets.quality(unknown) - before
        value = mean(gain) + held.lost(natural)
    else:
        gain = held.targets.quality(natural) - before
        if mean(gain) <= least:
            return _Tried(mean(gain), setting, 0.0)
        cold = held.targets.quality(unknown) - before
        value = mean(gain) + min(0.0, mean(cold))
    return _Tried(value, setting, min(clearness(gain), clearness((gain + cold) / 2)))


def _moved(
    held: HeldQueries, moves: Moves, basis: KernelBasis, ridge: float, G: np.ndarray
) -> Iterator[tuple[str, list[np.ndarray]]]:
    """What held-out queries can move away from, and by how much that changes their scores, in both views.

    Near items are hidden where clicks are judged: moving away from near ones, or towards all, would cost nothing.
    """
    targets = np.hstack([moves.relevant, moves.irrelevant, np.ones((len(moves.Q), 1), moves.Q.dtype)])
    left_out = LeftOut(basis, targets, ridge * (LINEAR_RIDGE if basis.landmarks is None else 1.0))
    cold = np.stack([left_out.without(group[0], _most_influential(left_out, group)) for group in held.groups])
    views, d = [left_out.alone(held.queries), cold], G.shape[1]
    relevant, of_mean = [view[:, :d] @ G.T for view in views], G @ moves.mean
    yield "mean", [part - view[:, 2 * d :] * of_mean for part, view in zip(relevant, views, strict=True)]
    if not held.by_related and not held.known.two_widths:
        yield "irrelevant", [part - view[:, d : 2 * d] @ G.T for part, view in zip(relevant, views, strict=True)]
        yield "nothing", relevant


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
