"""The examples of a lesson themselves: a narrow kernel puts them where they were said to belong."""

from typing import NamedTuple

import numpy as np

from likewise.learn.maths.kernels import Features

# Measured with the settings of `likewise.teach.learning`: results hardly change around these values.
RIGHT = 1.5  # least coordinate of an example
# Minus this is the most of a row marked wrong: below rows of other kinds, yet hardly longer for other queries.
WRONG = 0.45
MISSED = 0.05  # examples closer to what they should be are not corrected
CORRECTIONS = 3  # times
MOST_CORRECTED = 600  # examples, those that are furthest off first
DAMPING = 1e-2  # of the corrections, for examples that are nearly equal and contradict each other


class Wanted(NamedTuple):
    """Unit rows of examples, and bounds of the coordinate of each group there, (m, g) both."""

    Z: np.ndarray
    low: np.ndarray
    high: np.ndarray

    def missing(self, F: np.ndarray) -> np.ndarray:
        """What has to be added to F to be within the bounds."""
        return np.clip(F, self.low, self.high) - F


def bounds(belongs: np.ndarray, other: np.ndarray, by_label: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """At least RIGHT where an example belongs, at most -WRONG where it was marked wrong.

    In a group with a label, rows that do not belong need not fall below 0: most of them merely have another label.
    """
    most = np.where(by_label, 0, -WRONG)
    low = np.where(belongs & ~other, RIGHT, -np.inf)
    return low.astype(np.float32), np.where(other, most, np.inf).astype(np.float32)


def corrections(goal: Wanted, F: np.ndarray, narrow: float, alone: bool = False) -> tuple[Features, np.ndarray]:
    """A narrow kernel at examples, and coefficients that bring their coordinates F into the bounds.

    Examples that the corrections of others would push out of their bounds join in. A group leaves the coordinates of
    other groups' examples as they are, unless each is to be solved `alone`.
    """
    missing, bounded = goal.missing(F), np.isfinite(goal.low) | np.isfinite(goal.high)
    features, B = Features(goal.Z[:1], narrow), np.zeros_like(F[:1])  # adds nothing
    chosen, now = np.empty(0, np.int64), F
    for _ in range(CORRECTIONS):
        new = _furthest(goal, now, chosen)
        if not len(new):
            break
        chosen = np.concatenate([chosen, new])
        features = Features(goal.Z[chosen], narrow)
        B = _solved(features, missing[chosen], bounded[chosen] if alone else None)
        now = F + features(goal.Z) @ B
    return features, B


def _furthest(goal: Wanted, F: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Examples out of their bounds, the furthest first, without those already known."""
    off = np.abs(goal.missing(F)).max(axis=1, initial=0)
    off[known] = 0
    rows = np.argsort(-off, kind="stable")[: MOST_CORRECTED - len(known)]
    return rows[off[rows] > MISSED]


def _solved(features: Features, missing: np.ndarray, bounded: np.ndarray | None) -> np.ndarray:
    """Coefficients that add what is missing at the landmarks; with `bounded`, by these rows of each column only."""
    K = features(features.landmarks).astype(float)
    K[np.diag_indices_from(K)] += DAMPING
    if bounded is None:
        return np.linalg.solve(K, missing).astype(np.float32)
    B = np.zeros(missing.shape, np.float32)
    for column, rows in enumerate(bounded.T):
        B[rows, column] = np.linalg.solve(K[np.ix_(rows, rows)], missing[rows, column])
    return B
