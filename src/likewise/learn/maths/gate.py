"""Which rows of a gallery are of classes that were taught: labelled rows compared with the gallery's own.

Where labelled rows are as dense as the gallery's, a row is of a taught class; where the gallery has rows and labels are
few, it is new. The ratio r of the two densities is estimated twice. A ridge regression on an RBF kernel separates
labelled rows (1) from gallery rows (0). A logistic regression then weighs its value with what the learned map says of a
row: how long its image is, and how close to the nearest class. Labelled rows take part with the value and the image
that they would have had if they had been left out; else they would look too sure.

Half of the labelled rows have a ratio above 1 / π, π the share of gallery rows that are of taught classes: π is one by
the median of r, and a row is of a taught class with probability g = min(1, π r). Labelled rows are seldom drawn as the
gallery is: after each of three rounds a class of labelled rows gets the weight that it has in the gallery.

Nothing is drawn at random: the same rows give the same gate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from sklearn.linear_model import LogisticRegression

from likewise.learn.maths.kernel_ridge import factor_raised
from likewise.learn.maths.kernels import Features, mean_square_distance
from likewise.utils.arrays import unit_rows

MOST_ROWS = 2_000  # of each side that a gate is learned from
LANDMARKS = 1_000  # of both sides together; 600 rank up to half a point worse
KERNEL_WIDTH = 2.0  # γ in units of 1 / mean squared distance
RIDGE = 3.0
INVERSE_PENALTY = 0.1  # C of the logistic regression
ROUNDS = 3
LEAST_VALUE = 0.01  # of the ridge regression, whose log odds are taken
MOST_LOG_RATIO = 50.0
CLASS_WEIGHTS = (0.1, 10.0)  # limits
_TINY = 1e-12


def class_evidence(Z: np.ndarray, means: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What images say about the classes whose mean directions are `means` (k, r).

    The length of each image and its best score z·μ - ½|μ|², (n, 2); and the class of that score.
    """
    z, means = unit_rows(Z), means.astype(Z.dtype)
    scores = z @ means.T - np.einsum("kr,kr->k", means, means) / 2
    return np.column_stack([np.linalg.norm(Z, axis=1), scores.max(axis=1)]), scores.argmax(axis=1)


@dataclass(frozen=True)
class Gate:
    """The probability that a row is of a taught class.

    Attributes
    ----------
    features, density : a kernel of unit rows, and the coefficients of the ridge regression on it.
    centre, scale : of the three numbers that the logistic regression takes. coef, intercept : that regression.
    share : the share of gallery rows that are of taught classes.
    reach : 1 / the ratio of the most known-looking gallery rows; far above the share, if no row looks known.
    """

    features: Features
    density: np.ndarray
    centre: np.ndarray
    scale: np.ndarray
    coef: np.ndarray
    intercept: float
    share: float
    reach: float

    def log_ratio(self, rows: np.ndarray, evidence: np.ndarray) -> np.ndarray:
        """Log of the density of labelled rows by that of the gallery, (n,), at unit rows with `class_evidence`."""
        value = self.features(rows) @ self.density.astype(rows.dtype)
        x = (np.column_stack([_log_odds(value), evidence]) - self.centre) / self.scale
        return np.asarray(np.minimum(_expanded(x) @ self.coef + self.intercept, MOST_LOG_RATIO))

    def __call__(self, rows: np.ndarray, evidence: np.ndarray) -> np.ndarray:
        """The probability that each row is of a taught class."""
        return np.minimum(1.0, self.share * np.exp(self.log_ratio(rows, evidence)))


def learn_gate(
    labelled: np.ndarray,
    evidence: np.ndarray,
    codes: np.ndarray,
    gallery: np.ndarray,
    gallery_evidence: np.ndarray,
    best: np.ndarray,
) -> Gate:
    """The gate between labelled unit rows, with the evidence of their left-out images, and a sample of a gallery.

    `codes` are the classes of the labelled rows, `best` those that the gallery's rows are closest to.
    """
    n_labelled, n = len(labelled), len(labelled) + len(gallery)
    rows = np.concatenate([labelled, gallery])
    gamma = KERNEL_WIDTH / max(mean_square_distance(rows, None), _TINY)
    half = LANDMARKS // 2
    landmarks = rows[np.concatenate([evenly(n_labelled, half), n_labelled + evenly(len(gallery), half)])]
    features, metric = Features(landmarks, gamma), Features(landmarks.astype(np.float64), gamma).metric()
    K, evidence = features(rows).astype(np.float64), np.concatenate([evidence, gallery_evidence])
    target, size = (np.arange(n) < n_labelled).astype(float), np.bincount(codes).astype(float)
    weight = np.ones(n_labelled)
    for _ in range(ROUNDS):
        w = np.concatenate([weight * len(gallery) / weight.sum(), np.ones(len(gallery))])
        w *= n / w.sum()
        density, value = _ridge_left_out(K, metric, target, w)  # type: ignore[arg-type]
        x = np.column_stack([_log_odds(value), evidence])
        centre, scale = x.mean(axis=0), x.std(axis=0) + 1e-9
        F = _expanded((x - centre) / scale)
        regression = LogisticRegression(C=INVERSE_PENALTY, max_iter=200).fit(F, target, w)
        coef, intercept = regression.coef_[0], float(regression.intercept_[0])
        r = np.exp(np.minimum(F @ coef + intercept, MOST_LOG_RATIO))
        share = min(1.0, 1.0 / max(_weighted_median(r[:n_labelled], weight), _TINY))
        known = np.minimum(1.0, share * r[n_labelled:])
        per_row = (np.bincount(best, known, minlength=len(size))[: len(size)] + 1) / np.maximum(size, 1)
        weight = np.clip(per_row * size.sum() / (per_row @ size), *CLASS_WEIGHTS)[codes]
    reach = float(1 / max(np.quantile(r[n_labelled:], 0.95), _TINY))
    return Gate(features, density, centre, scale, coef, intercept, share, reach)


def _ridge_left_out(
    K: np.ndarray, metric: np.ndarray, target: np.ndarray, w: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients of the weighted ridge regression, and the value at each row if it had been left out."""
    factor, _ = factor_raised((K * w[:, None]).T @ K + RIDGE * metric, 0.0)
    coef = scipy.linalg.cho_solve((factor, False), K.T @ (w * target), check_finite=False)
    half = scipy.linalg.solve_triangular(factor, K.T, trans=1, check_finite=False)
    leverage = np.minimum(w * np.einsum("mn,mn->n", half, half), 1 - 1e-6)
    return coef, (K @ coef - leverage * target) / (1 - leverage)


def _expanded(x: np.ndarray) -> np.ndarray:
    """With squares, and products with the first column."""
    return np.column_stack([x, x**2, x[:, :1] * x[:, 1:]])


def _log_odds(value: np.ndarray) -> np.ndarray:
    value = np.clip(value.astype(np.float64), LEAST_VALUE, 1 - LEAST_VALUE)
    return np.asarray(np.log(value / (1 - value)))


def evenly(n: int, most: int) -> np.ndarray:
    """At most so many of n places, evenly spread."""
    return np.unique(np.linspace(0, n - 1, min(most, n)).astype(int))


def _weighted_median(values: np.ndarray, weights: np.ndarray) -> float:
    order = np.argsort(values, kind="stable")
    total = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(total, total[-1] / 2)])
