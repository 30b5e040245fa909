"""Do two rows match? Thresholds by the share of false accepts, the ROC curve, its area and the equal error rate."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import auc, roc_curve

from likewise.errors import LikewiseError
from likewise.utils.arrays import Array, evenly_spaced

RATES = (1e-1, 1e-2, 1e-3, 1e-4)
FEWEST = 10  # false accepts behind a threshold: fewer are chance
MOST_PAIRS = 2_000_000
MOST_POINTS = 500  # of the curve


class Threshold(NamedTuple):
    """A score from which on pairs are accepted, and the shares of other and of matching pairs that are."""

    false_accept: float
    true_accept: float
    score: float


class Verification(NamedTuple):
    """Area under the ROC curve, equal error rate, thresholds, and the curve: shares accepted of others and matches."""

    auroc: float
    equal_error: float
    thresholds: list[Threshold]
    curve: np.ndarray
    n_same: int
    n_other: int

    def summary(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "AUROC": self.auroc,
            "EER": self.equal_error,
            "thresholds": [threshold._asdict() for threshold in self.thresholds],
            "n_same": self.n_same,
            "n_other": self.n_other,
        }


def verification(scores: ArrayLike, same: ArrayLike) -> Verification:
    """Verification of pairs by their scores; thresholds for those of `RATES` that the pairs allow.

    Examples
    --------
    >>> verification([0.9, 0.8, 0.7, 0.1], [True, False, True, False]).auroc
    0.75
    """
    s, y = np.asarray(scores, dtype=np.float64).ravel(), np.asarray(same, dtype=bool).ravel()
    n_same, n_other = int(y.sum()), int((~y).sum())
    if not n_same or not n_other:
        raise LikewiseError(f"same holds {n_same} matching and {n_other} other pairs: expected some of both")
    accepted, matching, at = roc_curve(y, s)
    thresholds = []
    for rate in RATES:
        if rate * n_other >= FEWEST:
            place = int(np.searchsorted(accepted, rate, side="right")) - 1
            thresholds.append(Threshold(float(accepted[place]), float(matching[place]), float(min(at[place], s.max()))))
    missed = 1 - matching
    equal = int(np.argmin(np.abs(accepted - missed)))
    points = np.unique(np.linspace(0, len(accepted) - 1, MOST_POINTS).astype(int))
    curve, error = np.stack([accepted, matching])[:, points], (accepted[equal] + missed[equal]) / 2
    return Verification(float(auc(accepted, matching)), float(error), thresholds, curve, n_same, n_other)


def some_pairs(
    model: Any, X: Array, y: ArrayLike, G: Array | None = None, y_g: ArrayLike | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Scores and matches of pairs of rows of X with others, or with rows of G; of many an even part."""
    y_q, y_g = np.asarray(y), np.asarray(y if y_g is None else y_g)
    queries, items = (evenly_spaced(len(labels), int(MOST_PAIRS**0.5)) for labels in (y_q, y_g))
    S = model.similarity(X[queries], (X if G is None else G)[items])
    counts = (queries[:, None] != items) | (G is not None)  # a row is not paired with itself
    return S[counts], (y_q[queries][:, None] == y_g[items])[counts]
