"""Which rows of a gallery are of classes that were taught: labelled rows compared with the gallery's own.

Where labelled rows are as dense as the gallery's, a row is of a taught class; where the gallery has rows and labels are
few, it is new. The ratio r of the two densities is estimated twice. A ridge regression on an RBF kernel separates
labelled rows (1) from gallery rows (0). A logistic regression then weighs its value with what another one, of the
classes, says of a row: how long its image is, and how close to the nearest class. Rows of both sides take part with the
values that they have if the fifth of the rows that they are in is left out, and both have the same share of landmarks:
whatever else tells labelled rows from the others would be taken for newness.

Half of the labelled rows have a ratio above 1 / π, π the share of gallery rows that are of taught classes: π is one by
the median of r, and a row is of a taught class with probability g = min(1, π r). Labelled rows are seldom drawn as the
gallery is: in two rounds each class of labelled rows gets the weight that it has in the gallery. With few labels π is
too high: labelled rows are then told from the gallery's better than it allows, and it is lowered.

Nothing is drawn at random: the same rows give the same gate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

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
# Of the share: .8 to 1.7 in galleries of one source, 2.4 to 30 for pictures blurred, grey, cropped or of half the size.
ELSEWHERE, LEAST_APPARENT = 2.0, 0.1
FEW_LABELS = 500  # of fewer the logistic regression takes in less
NOISE = 0.05  # a share of new rows that is not told from none
SOME_NEW = 0.1
SEPARATION = 1.25  # 1 to 1.25 of the largest with many labels, 1.3 to 3 with five of each class
CAUTION = 4.0  # measured on newsgroups and Caltech101, at shares from 0 to .75
_TINY = 1e-12


def class_evidence(Z: np.ndarray, directions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The length of each image and its cosine with the nearest of the `directions` of classes, (n, 2); that class."""
    cosines = unit_rows(Z) @ directions.T.astype(Z.dtype)
    return np.column_stack([np.linalg.norm(Z, axis=1), cosines.max(axis=1)]), cosines.argmax(axis=1)


@dataclass(frozen=True)
class Gate:
    """The probability that a row is of a taught class.

    Attributes
    ----------
    features, density : a kernel of unit rows, and the coefficients of the ridge regression on it.
    classes, directions : coefficients of the images, and the direction that those of each class are to have.
    centre, scale : of the three numbers that the logistic regression takes. coef, intercept : that regression.
    share : the share of gallery rows that are of taught classes.
    apparent : the same share by how close images are to a class, alone; far above the share, if the gallery is of the
        taught classes, but from another source.
    """

    features: Features
    density: np.ndarray
    classes: np.ndarray
    directions: np.ndarray
    centre: list[float]
    scale: list[float]
    coef: list[float]
    intercept: float
    share: float
    apparent: float

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """The probability that each unit row is of a taught class, to a power."""
        K = self.features(rows)
        value = K @ self.density.astype(rows.dtype)
        evidence, _ = class_evidence(K @ self.classes.astype(rows.dtype), self.directions)
        x = (np.column_stack([_log_odds(value), evidence]) - self.centre) / self.scale
        r = np.exp(np.minimum(_expanded(x) @ self.coef + self.intercept, MOST_LOG_RATIO))
        return np.asarray(np.minimum(1.0, self.share * r) ** self.power)

    @property
    def power(self) -> float:
        """Of the probability: what is new loses more by looking half taught than what is taught by looking half new.

        Where next to nothing is new it goes to zero, and the probability to one: the rest is noise.
        """
        new = 1 - self.share
        return (1 + CAUTION * new) * min(1.0, new / NOISE)

    @property
    def is_elsewhere(self) -> bool:
        """Whether the gallery is from another source: its classes look known, but its rows are unlike labelled ones."""
        return self.apparent > max(LEAST_APPARENT, ELSEWHERE * self.share)

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
        crossed = graph.node("Mul", [graph.mapped(x, np.eye(3)[:, 1:]), graph.mapped(x, np.eye(3)[:, :1])])
        x = graph.concatenated([x, graph.node("Mul", [x, x]), crossed])
        ratio = graph.plus(graph.mapped(x, np.array(self.coef)[:, None]), self.intercept)
        ratio = graph.node("Exp", [graph.node("Min", [ratio, graph.constant(MOST_LOG_RATIO)])])
        g = graph.node("Min", [graph.times(ratio, self.share), graph.constant(1.0)])
        return graph.node("Pow", [g, graph.constant(self.power)])


def learn_gate(labelled: np.ndarray, codes: np.ndarray, gallery: np.ndarray, given_share: float | None = None) -> Gate:
    """The gate between labelled unit rows of some classes and gallery rows; None estimates the share."""
    n_labelled, n = len(labelled), len(labelled) + len(gallery)
    rows = np.concatenate([labelled, gallery])
    gamma = KERNEL_WIDTH / max(mean_square_distance(rows, None), _TINY)
    landmarks = rows[evenly_spaced(n, LANDMARKS)]
    features, metric = Features(landmarks, gamma), Features(landmarks.astype(np.float64), gamma).metric()
    K = features(rows).astype(np.float64)
    fold = np.concatenate([_rank_within(codes) + codes, np.arange(len(gallery))]) % FOLDS
    is_labelled = np.arange(n) < n_labelled
    size = np.bincount(codes).astype(float)
    target = class_target(size)  # mean images would be closer to the labelled rows that they are the means of
    T, directions = np.concatenate([target[codes], np.zeros((len(gallery), target.shape[1]))]), unit_rows(target)
    classes, images = _ridge_by_folds(K, metric, T, is_labelled.astype(float), fold, CLASS_RIDGE)
    evidence, best = class_evidence(images, directions)
    best = best[n_labelled:]
    apparent = 2 * float((evidence[n_labelled:, 1] > np.median(evidence[:n_labelled, 1])).mean())
    penalty = INVERSE_PENALTY * min(1.0, n_labelled / FEW_LABELS)
    known, indicator = np.ones(len(gallery)), is_labelled.astype(float)
    for _ in range(ROUNDS):
        per_row = (np.bincount(best, known, minlength=len(size))[: len(size)] + 1) / np.maximum(size, 1)
        weight = np.clip(per_row * size.sum() / (per_row @ size), *CLASS_WEIGHTS)[codes]
        w = np.concatenate([weight * len(gallery) / weight.sum(), np.ones(len(gallery))])
        w *= n / w.sum()
        density, value = _ridge_by_folds(K, metric, indicator[:, None], w, fold, RIDGE)
        x = np.column_stack([_log_odds(value[:, 0]), evidence])
        centre, scale = x[n_labelled:].mean(axis=0), x[n_labelled:].std(axis=0) + 1e-9
        F = _expanded((x - centre) / scale)
        regression = LogisticRegression(C=penalty, max_iter=200).fit(F, indicator, w)
        coef, intercept = regression.coef_[0], float(regression.intercept_[0])
        r = np.exp(np.minimum(F @ coef + intercept, MOST_LOG_RATIO))
        share = given_share or min(1.0, 1.0 / max(_weighted_median(r[:n_labelled], weight), _TINY))
        known = np.minimum(1.0, share * r[n_labelled:])
    auroc = float(roc_auc_score(is_labelled, r, sample_weight=w)) - (12 * n_labelled) ** -0.5  # one standard error
    share = given_share or _limited(share, auroc)
    # Nothing is left out of what is searched: its numbers are brought to the level of those that were.
    G = K[n_labelled:]
    x = np.column_stack([_log_odds(G @ density[:, 0]), class_evidence(G @ classes, directions)[0]])
    kind = rows.dtype
    level = x.mean(axis=0).tolist(), (x.std(axis=0) + 1e-9).tolist()
    return Gate(
        features,
        density[:, 0],
        classes.astype(kind),
        directions.astype(kind),
        *level,
        coef.tolist(),
        intercept,
        share,
        apparent,
    )


def _limited(share: float, auroc: float) -> float:
    """The share, lowered if labelled rows are told from the gallery's better than it allows: few labels hide new rows.

    Taught rows of a gallery are like the labelled ones, so the AUROC is at most 1 - share / 2. Where next to nothing is
    new, more is taken for noise.
    """
    new = 1 - share
    return share - min(1.0, new / SOME_NEW) * max(0.0, (2 * auroc - 1) / SEPARATION - new)


def _ridge_by_folds(
    K: np.ndarray, metric: np.ndarray | None, T: np.ndarray, w: np.ndarray, fold: np.ndarray, ridge: float
) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients of the weighted ridge regression, and the value at each row without the rows of its fold."""
    parts = [np.flatnonzero((fold == k) & (w > 0)) for k in range(FOLDS)]
    sums = [((K[part] * w[part, None]).T @ K[part], K[part].T @ (w[part, None] * T[part])) for part in parts]
    A, b = sum(part[0] for part in sums) + ridge * np.asarray(metric), sum(part[1] for part in sums)
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
