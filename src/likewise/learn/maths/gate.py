"""Which rows of a gallery are of classes that were taught: labelled rows compared with the gallery's own.

Where labelled rows are as dense as the gallery's, a row is of a taught class; where the gallery has rows and labels are
few, it is new. The ratio r of the two densities is estimated twice. A ridge regression on an RBF kernel separates
labelled rows (1) from gallery rows (0). A logistic regression then weighs its value with what another one, of the
classes, says of a row: how long its image is, and how close to the nearest class. Rows of both sides take part with the
values that they have if the fifth of the rows that they are in is left out, and both have the same share of landmarks:
whatever else tells labelled rows from the others would be taken for newness.

Half of the labelled rows have a ratio above 1 / π, π the share of gallery rows that are of taught classes: π is one by
the median of r, and a row is of a taught class with probability min(1, π r). Labelled rows are seldom drawn as the
gallery is: in two rounds each class of labelled rows gets the weight that it has in the gallery.

How far to trust that is learned from classes that are hidden: g is a power of the probability, or a small constant.

Nothing is drawn at random: the same rows give the same gate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from sklearn.linear_model import LogisticRegression

from likewise.evaluate import average_precisions
from likewise.learn.maths.kernels import Features, mean_square_distance
from likewise.learn.maths.labels import class_target
from likewise.learn.maths.scatter import factor_raised
from likewise.utils.arrays import evenly_spaced, unit_rows
from likewise.utils.onnx_graph import Graph

MOST_ROWS = 2_000  # of each side that a gate is learned from
LANDMARKS = 1_000  # of both sides together; 600 rank up to half a point worse
KERNEL_WIDTH = 2.0  # γ in units of 1 / mean squared distance
RIDGE = 3.0
CLASS_RIDGE = 0.1
FOLDS = 5
INVERSE_PENALTY = 0.1  # C of the logistic regression
ROUNDS = 2
LEAST_VALUE = 0.01  # of the ridge regression, whose log odds are taken
MOST_LOG_RATIO = 50.0
CLASS_WEIGHTS = (0.1, 10.0)  # limits
# Of the share: up to 1.2 in galleries of one source, 2 and more for pictures blurred, grey, cropped or half as large.
ELSEWHERE, LEAST_APPARENT = 1.5, 0.1
FEW_LABELS = 500  # of fewer the logistic regression takes in less
NOISE = 0.25  # a share of new rows that may be none: estimates are so far off where labels are drawn otherwise
MOST_HIDDEN = 500  # rows of each side, and landmarks, by which the power is chosen
FEWEST_CLASSES = 4
POWERS = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0)
POWER = 3.0  # where classes are too few to hide any
WEAK, WEAK_SHARE = 0.3, 0.2  # .34 and more are lost with 8 labelled newsgroups of a class, .26 and less with 16
_TINY = 1e-12


def class_evidence(Z: np.ndarray, directions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The length of each image and its cosine with the nearest of the `directions` of classes, (n, 2); that class."""
    cosines = unit_rows(Z) @ directions.T.astype(Z.dtype)
    return np.column_stack([np.linalg.norm(Z, axis=1), cosines.max(axis=1)]), cosines.argmax(axis=1)


@dataclass(frozen=True)
class Gate:
    """How far a row is ranked by what was learned: a power of the probability that it is of a taught class.

    Attributes
    ----------
    features, density : a kernel of unit rows, and the coefficients of the ridge regression on it.
    classes, directions : coefficients of the images, and the direction that those of each class are to have.
    centre, scale, limit : of the three numbers that the logistic regression takes. coef, intercept : that regression.
    share : the share of gallery rows that are of taught classes.
    power, ceiling : of the probability, chosen on classes that were hidden.
    is_elsewhere : whether the gallery is from another source: its classes look known, its rows unlike labelled ones.
    """

    features: Features
    density: np.ndarray
    classes: np.ndarray
    directions: np.ndarray
    centre: list[float]
    scale: list[float]
    limit: list[float]
    coef: list[float]
    intercept: float
    share: float
    power: float
    ceiling: float
    is_elsewhere: bool = False

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """The probability that each unit row is of a taught class, to a power."""
        K = self.features(rows)
        value = K @ self.density.astype(rows.dtype)
        evidence, _ = class_evidence(K @ self.classes.astype(rows.dtype), self.directions)
        x = np.minimum((np.column_stack([_log_odds(value), evidence]) - self.centre) / self.scale, self.limit)
        r = np.exp(np.minimum(_expanded(x) @ self.coef + self.intercept, MOST_LOG_RATIO))
        return np.asarray(self.ceiling * np.minimum(1.0, self.share * r) ** self.power)

    def write_onnx(self, graph: Graph, x: str) -> str:
        """The same in an ONNX graph, (n, 1)."""
        K = self.features.write_onnx(graph, x)
        value = graph.mapped(K, self.density[:, None])
        value = graph.node("Clip", [value, graph.constant(LEAST_VALUE), graph.constant(1 - LEAST_VALUE)])
        odds = graph.node("Div", [value, graph.plus(graph.times(value, -1.0), 1.0)])
        z = graph.mapped(K, self.classes)
        best = graph.node("ReduceMax", [graph.mapped(graph.unit(z), self.directions.T)], axes=[1], keepdims=1)
        x = graph.concatenated([graph.node("Log", [odds]), graph.node("Sqrt", [graph.squares(z)]), best])
        x = graph.times(graph.plus(x, -np.array(self.centre)), 1 / np.array(self.scale))
        x = graph.node("Min", [x, graph.constant(np.array(self.limit))])
        crossed = graph.node("Mul", [graph.mapped(x, np.eye(3)[:, 1:]), graph.mapped(x, np.eye(3)[:, :1])])
        x = graph.concatenated([x, graph.node("Mul", [x, x]), crossed])
        ratio = graph.plus(graph.mapped(x, np.array(self.coef)[:, None]), self.intercept)
        ratio = graph.node("Exp", [graph.node("Min", [ratio, graph.constant(MOST_LOG_RATIO)])])
        g = graph.node("Min", [graph.times(ratio, self.share), graph.constant(1.0)])
        return graph.times(graph.node("Pow", [g, graph.constant(self.power)]), self.ceiling)


def learn_gate(labelled: np.ndarray, codes: np.ndarray, gallery: np.ndarray, given_share: float | None = None) -> Gate:
    """The gate between labelled unit rows of some classes and gallery rows; None estimates the share."""
    codes = np.concatenate([np.unique(codes, return_inverse=True)[1], np.full(len(gallery), -1)])
    kernel = _Kernel.of(np.concatenate([labelled, gallery]), LANDMARKS)
    whole = _Comparison.of(kernel, codes, given_share)
    power, ceiling, alike = _caution(labelled, codes[: len(labelled)], gallery)
    is_elsewhere = whole.is_elsewhere and 2 * whole.looks_known[len(labelled) :].mean() > alike
    # Nothing is left out of what is searched: its numbers are brought to the level of those that were.
    G = kernel.K[len(labelled) :]
    x = np.column_stack([_log_odds(G @ whole.density), class_evidence(G @ whole.classes, whole.directions)[0]])
    kind, coef, intercept = labelled.dtype, whole.regression.coef_[0].tolist(), float(whole.regression.intercept_[0])
    level = x.mean(axis=0).tolist(), (x.std(axis=0) + 1e-9).tolist()
    parts = kernel.features, whole.density, whole.classes.astype(kind), whole.directions.astype(kind)
    if ceiling == 1:
        power *= min(1.0, (1 - whole.share) / NOISE)
    return Gate(*parts, *level, whole.limit.tolist(), coef, intercept, whole.share, power, ceiling, bool(is_elsewhere))


@dataclass(frozen=True)
class _Kernel:
    """Features K of rows, with the inner products of their coefficients."""

    features: Features
    K: np.ndarray
    metric: np.ndarray

    @classmethod
    def of(cls, rows: np.ndarray, most: int) -> _Kernel:
        gamma = KERNEL_WIDTH / max(mean_square_distance(rows, None), _TINY)
        landmarks = rows[evenly_spaced(len(rows), most)]
        metric = Features(landmarks.astype(np.float64), gamma).metric()
        features = Features(landmarks, gamma)
        return cls(features, features(rows).astype(np.float64), np.asarray(metric))


@dataclass(frozen=True)
class _Comparison:
    """Labelled rows compared with all others: coefficients, and what each row has while its fold is left out."""

    density: np.ndarray
    classes: np.ndarray
    directions: np.ndarray
    limit: np.ndarray
    regression: LogisticRegression
    images: np.ndarray
    ratio: np.ndarray
    share: float
    looks_known: np.ndarray
    is_elsewhere: bool

    @classmethod
    def of(cls, kernel: _Kernel, codes: np.ndarray, given_share: float | None = None) -> _Comparison:
        """`codes` are the classes of rows, -1 for those without a label."""
        is_labelled, n = codes >= 0, len(codes)
        known_codes = np.unique(codes[is_labelled], return_inverse=True)[1]
        size = np.bincount(known_codes).astype(float)
        fold = (_rank_within(codes) + np.maximum(codes, 0)) % FOLDS
        target = class_target(size)  # mean images would be closer to the labelled rows that they are the means of
        T, directions = np.zeros((n, target.shape[1])), unit_rows(target)
        T[is_labelled] = target[known_codes]
        classes, images = _ridge_by_folds(kernel, T, is_labelled.astype(float), fold, CLASS_RIDGE)
        evidence, best = class_evidence(images, directions)
        penalty = INVERSE_PENALTY * min(1.0, is_labelled.sum() / FEW_LABELS)
        known, w = np.ones(n - len(known_codes)), np.ones(n)
        for _ in range(ROUNDS):
            per_row = (np.bincount(best[~is_labelled], known, minlength=len(size))[: len(size)] + 1) / size
            weight = np.clip(per_row * size.sum() / (per_row @ size), *CLASS_WEIGHTS)[known_codes]
            w[is_labelled], w[~is_labelled] = weight * len(known) / weight.sum(), 1.0
            w *= n / w.sum()
            density, value = _ridge_by_folds(kernel, is_labelled[:, None].astype(float), w, fold, RIDGE)
            x = np.column_stack([_log_odds(value[:, 0]), evidence])
            x = (x - x[~is_labelled].mean(axis=0)) / (x[~is_labelled].std(axis=0) + 1e-9)
            limit = np.median(x[is_labelled], axis=0)  # closer than that are rows that were learned from
            F = _expanded(np.minimum(x, limit))
            regression = LogisticRegression(C=penalty, max_iter=200).fit(F, is_labelled, w)
            ratio = np.exp(np.minimum(F @ regression.coef_[0] + regression.intercept_[0], MOST_LOG_RATIO))
            share = given_share or min(1.0, 1.0 / max(_weighted_median(ratio[is_labelled], weight), _TINY))
            known = np.minimum(1.0, share * ratio[~is_labelled])
        looks_known = evidence[:, 1] > np.median(evidence[is_labelled, 1])
        n_each = [np.bincount(best[part & looks_known], minlength=len(size)) for part in (~is_labelled, is_labelled)]
        apparent = n_each[0] / np.maximum(n_each[1], 0.5) * len(known_codes) / len(known)  # by class: all are affected
        known_share = 2 * looks_known[~is_labelled].mean()
        elsewhere = bool(np.median(apparent) > LEAST_APPARENT and known_share > ELSEWHERE * share)
        return cls(density[:, 0], classes, directions, limit, regression, images, ratio, share, looks_known, elsewhere)

    @property
    def g(self) -> np.ndarray:
        return np.minimum(1.0, self.share * self.ratio)


def _caution(labelled: np.ndarray, codes: np.ndarray, gallery: np.ndarray) -> tuple[float, float, float]:
    """The power of g and its largest value, and the share of new rows that look taught, all by hiding classes.

    The rows of half of the classes join the gallery. Ranked together with the labelled rows that are left, by left-out
    images, they are not to lose against the plain cosine, and the others not against images alone. Where three tenths
    are lost with any power, g says next to nothing, and is a small constant.
    """
    some, others = evenly_spaced(len(labelled), MOST_HIDDEN), evenly_spaced(len(gallery), MOST_HIDDEN)
    some = some[np.bincount(codes[some])[codes[some]] > 1]
    codes, n = np.unique(codes[some], return_inverse=True)[1], len(some)
    if codes.max(initial=0) + 1 < FEWEST_CLASSES:
        return POWER, 1.0, 0.0
    rows = np.concatenate([labelled[some], gallery[others]])
    kernel, base = _Kernel.of(rows, MOST_HIDDEN), unit_rows(rows[:n] - rows.mean(axis=0))
    worlds, alike = [], 0.0
    for hidden in (codes % 2 == 0, codes % 2 == 1):
        compared = _Comparison.of(kernel, np.append(np.where(hidden, -1, codes), np.full(len(others), -1)))
        worlds.append((hidden, unit_rows(compared.images[:n]), compared.g[:n]))
        alike += float(compared.looks_known[:n][hidden].mean())

    def precisions(weight: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Mean average precision of hidden rows; and of the others, half of it with hidden rows in between."""
        means = []
        for hidden, z, g in worlds:
            w, seen = weight(g)[:, None], ~hidden
            V = np.hstack([np.sqrt(w) * z, np.sqrt(1 - w) * base]).astype(base.dtype)
            mixed, alone = average_precisions(V, V, codes), average_precisions(V[seen], V[seen], codes[seen])
            means.append((mixed[hidden].mean(), (mixed[seen].mean() + alone.mean()) / 2))
        return np.mean(means, axis=0)

    plain, learned = precisions(np.zeros_like)[0], precisions(np.ones_like)[1]
    ranked = {power: precisions(lambda g, s=power: g**s) for power in POWERS}  # type: ignore[misc]
    loss = {power: max(0.0, plain - hidden) + max(0.0, learned - seen) for power, (hidden, seen) in ranked.items()}
    best = min(POWERS, key=lambda power: loss[power])
    return (best, 1.0, alike) if ranked[best][0] > (1 - WEAK) * plain else (0.0, WEAK_SHARE, alike)


def _ridge_by_folds(
    kernel: _Kernel, T: np.ndarray, w: np.ndarray, fold: np.ndarray, ridge: float
) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients of the weighted ridge regression, and the value at each row without the rows of its fold."""
    K = kernel.K
    parts = [np.flatnonzero((fold == k) & (w > 0)) for k in range(FOLDS)]
    sums = [((K[part] * w[part, None]).T @ K[part], K[part].T @ (w[part, None] * T[part])) for part in parts]
    A, b = sum(part[0] for part in sums) + ridge * kernel.metric, sum(part[1] for part in sums)
    values = np.empty((len(K), T.shape[1]))
    for k, (less_A, less_b) in enumerate(sums):
        values[fold == k] = K[fold == k] @ _solved(A - less_A, b - less_b)
    return _solved(A, b), values


def _solved(A: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.asarray(scipy.linalg.cho_solve((factor_raised(A, 0.0)[0], False), b, check_finite=False))


def _rank_within(codes: np.ndarray) -> np.ndarray:
    """How many rows of its class come before each row."""
    order = np.argsort(codes, kind="stable")
    starts = np.searchsorted(codes[order], codes[order])
    rank = np.empty(len(codes), dtype=int)
    rank[order] = np.arange(len(codes)) - starts
    return rank


def _expanded(x: np.ndarray) -> np.ndarray:
    """With squares, and products with the first column."""
    return np.column_stack([x, x**2, x[:, :1] * x[:, 1:]])


def _log_odds(value: np.ndarray) -> np.ndarray:
    value = np.clip(value.astype(np.float64), LEAST_VALUE, 1 - LEAST_VALUE)
    return np.asarray(np.log(value / (1 - value)))


def _weighted_median(values: np.ndarray, weights: np.ndarray) -> float:
    order = np.argsort(values, kind="stable")
    total = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(total, total[-1] / 2)])
