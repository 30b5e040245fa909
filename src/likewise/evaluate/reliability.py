"""How far stated probabilities are from what happens: the reliability curve and the expected calibration error."""

from typing import Any, NamedTuple

import numpy as np

from likewise.errors import LikewiseError

BINS = 15


class Reliability(NamedTuple):
    """Mean stated probability, share that came true and weight of each bin of probabilities that holds any."""

    stated: np.ndarray
    found: np.ndarray
    weight: np.ndarray

    @property
    def error(self) -> float:
        """Expected calibration error: the mean of |stated - found| over bins, by their weight."""
        return float(np.average(np.abs(self.stated - self.found), weights=self.weight))


def reliability(P: Any, same: Any, *, sample_weight: Any = None, bins: int = BINS) -> Reliability:
    """The reliability curve of probabilities P of pairs that match or not, in `bins` of equal width.

    Examples
    --------
    >>> reliability([0.1, 0.1, 0.9, 0.9], [False, False, True, False]).error
    0.25
    """
    p, y = np.asarray(P, dtype=np.float64).ravel(), np.asarray(same, dtype=bool).ravel()
    w = np.ones(p.shape) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64).ravel()
    if not len(p) == len(y) == len(w) > 0:
        raise LikewiseError(f"P has {p.size} values, same {y.size} and sample_weight {w.size}: expected as many, not 0")
    place = np.minimum((p * bins).astype(int), bins - 1)
    weight, stated, found = (np.bincount(place, values, bins) for values in (w, w * p, w * y))
    filled = weight > 0
    return Reliability(stated[filled] / weight[filled], found[filled] / weight[filled], weight[filled])


def balanced(same: Any) -> np.ndarray:
    """Weights under which matching pairs and others count alike: most pairs are others, and would hide the rest."""
    y = np.asarray(same, dtype=bool)
    share = y.mean()
    return np.where(y, 0.5 / share, 0.5 / (1 - share))
