"""Classes that were never seen: a closed-form family of maps that contains the plain cosine.

S_w and S_b are the covariances within and between classes. The map first whitens S_w, shrunk to its mean by a; then it
weighs the directions of S_b by (b′ / (b′ + 1))^p, b′ = b + h mean(b), since unseen classes vary a little in every
direction. a = 1, p = 0 is the plain cosine, p = 0 is WCCN, h = 0 is LDA's subspace, p = ½ is close to PLDA.

S_w has at most n directions and S_b at most one per class. All others share one weight each, so no matrix larger than
min(n, d) is decomposed, and none larger than the number of classes for another a.
"""

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from likewise.learn.maths.kernels import Basis, Features, FeatureSums, UnitRows, dual_basis, gram_basis
from likewise.learn.maths.labels import class_sums
from likewise.learn.maths.scatter import check_room, shrunk
from likewise.utils.arrays import dense


@dataclass(frozen=True)
class ShrinkageMap:
    """One map of the family: shrinkage a, spread h and power p. The default is the plain cosine."""

    shrink: float = 1.0
    spread: float = 1.0
    power: float = 0.0

    def learned_from(self, unit: UnitRows) -> np.ndarray:
        """The map (d, d) from the classes of these rows."""
        scatter = class_scatter(unit)
        T = scatter.whitening(self.shrink)
        BT = scatter.B @ T
        b, U = between_directions(BT @ BT.T)
        Q = BT.T @ U
        return T + (T @ Q * (self.weights(b, scatter.width) - 1)) @ Q.T

    def weights(self, b: np.ndarray, width: int) -> np.ndarray:
        """Weights of the directions between classes; all other directions have weight 1."""
        raised = self.spread * b.sum() / width or 1.0
        return ((b + raised) / (b + raised + 1) * (1 + raised) / raised) ** self.power


@dataclass(frozen=True)
class ClassScatter:
    """S_w = V diag(w) Vᵀ, V (d, q), and S_b = BᵀB."""

    w: np.ndarray
    V: np.ndarray
    B: np.ndarray

    @property
    def width(self) -> int:
        return len(self.V)

    def whitening(self, shrink: float) -> np.ndarray:
        """The symmetric T (d, d) with T S_w T = I, S_w shrunk."""
        along, outside = shrunk(self.w, self.width, shrink)
        T = (self.V * (along**-0.5 - outside**-0.5)) @ self.V.T
        T[np.diag_indices_from(T)] += outside**-0.5
        return T


def class_scatter(unit: UnitRows) -> ClassScatter:
    """Covariances within and between classes; through inner products where rows in memory are fewer than columns."""
    n, d = unit.engine.shape
    check_room(d, (n, d))
    basis, means = _from_rows(unit) if unit.pending is None and n < d else _from_sums(unit)
    share = unit.size / unit.size.sum()
    B = np.sqrt(share)[:, None] * (means - share @ means)
    B = B[unit.size > 0] if len(B) <= d else np.asarray(np.linalg.qr(B, mode="r"))
    return ClassScatter(basis.g / unit.size.sum(), basis.V, B)


def between_directions(BB: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Variances b between classes and coefficients U of their directions BᵀU, from the inner products BBᵀ."""
    b, U = scipy.linalg.eigh(BB, driver="evd", check_finite=False)
    significant = b > max(b[-1], 0.0) * 1e-6  # as small as the rounding of float32, one direction at least
    return b[significant], U[:, significant] / np.sqrt(b[significant])


def _from_rows(unit: UnitRows) -> tuple[Basis, np.ndarray]:
    """Eigenbasis of the rows about the means of their classes, and those means."""
    engine = unit.engine
    rows = dense(engine.rows(slice(None))).astype(np.float64)
    means = _means(class_sums(rows, engine.codes, engine.weights, engine.n_classes), unit)
    return dual_basis(rows - means[engine.codes], engine.weights), means


def _from_sums(unit: UnitRows) -> tuple[Basis, np.ndarray]:
    """The same from the Gram matrix of the rows, wherever they are."""
    G, sums = unit.engine.sum(FeatureSums(unit.pending, Features(), unit.n_classes))
    means = _means(sums, unit)
    return gram_basis(G - sums.T @ means, np.zeros(len(G)), 0.0, None), means


def _means(sums: np.ndarray, unit: UnitRows) -> np.ndarray:
    return np.asarray(sums / np.maximum(unit.size, np.finfo(float).tiny)[:, None])
