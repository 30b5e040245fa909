"""Classes that were never seen: a closed-form family of maps that contains the plain cosine.

S_w and S_b are the covariances within and between classes. The map first whitens S_w, shrunk to its mean by a; then it
weighs the directions of S_b by (b′ / (b′ + 1))^p, b′ = b + h mean(b), since unseen classes vary a little in every
direction. a = 1, p = 0 is the plain cosine, p = 0 is WCCN, h = 0 is LDA's subspace, p = ½ is close to PLDA.
"""

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from likewise.core.kernels import Features, FeatureSums, UnitRows
from likewise.core.whitening import check_room


@dataclass(frozen=True)
class ShrinkageMap:
    """One map of the family: shrinkage a, spread h and power p. The default is the plain cosine."""

    shrink: float = 1.0
    spread: float = 1.0
    power: float = 0.0
    scaling: str = "unit"

    def learned_from(self, unit: UnitRows) -> np.ndarray:
        """The map (d, d) from the classes of these rows."""
        found = directions(*scatter(unit), self.shrink)
        return found.T * found.weights(self)


@dataclass(frozen=True)
class Directions:
    """T_a Q and the variances b between classes along it, for one shrinkage."""

    T: np.ndarray
    b: np.ndarray

    def weights(self, chosen: ShrinkageMap) -> np.ndarray:
        raised = self.b + chosen.spread * self.b.mean()
        return (raised / (raised + 1)) ** chosen.power


def scatter(unit: UnitRows) -> tuple[np.ndarray, np.ndarray]:
    """Covariances within and between classes, S_w and S_b."""
    engine, total = unit.engine, unit.size.sum()
    check_room(engine.shape[1], engine.shape)
    G, sums = engine.sum(FeatureSums(unit.pending, Features(), engine.n_classes))
    there = unit.size > 0
    means, mean = sums[there] / unit.size[there][:, None], sums.sum(axis=0) / total
    about_zero = (means * (unit.size[there] / total)[:, None]).T @ means
    return G / total - about_zero, about_zero - np.outer(mean, mean)


def directions(S_w: np.ndarray, S_b: np.ndarray, shrink: float) -> Directions:
    """The directions of S_b where S_w, shrunk to its mean, is the identity."""
    values, V = scipy.linalg.eigh(S_w, driver="evd", check_finite=False)
    values = np.maximum(values, 0.0)
    shrunk = (1 - shrink) * values + shrink * values.mean()
    T = V / np.sqrt(np.maximum(shrunk, 1e-12 * max(shrunk.max(), 1e-300)))
    b, Q = scipy.linalg.eigh(T.T @ S_b @ T, driver="evd", check_finite=False)
    return Directions(T @ Q, np.maximum(b, 0.0))
