"""Discriminant analysis from relevant pairs instead of labels.

A relevant pair is two draws around the same centre, as two rows of one class are. So over relevant pairs (q, g) the
covariance of q with g is that between classes, S_b, and what is left of the total covariance is that within, S_w.
Random pairs among them only lower S_b, and leave its directions as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from sklearn.preprocessing import normalize

from likewise.errors import LikewiseError
from likewise.learn.maths.kernels import Basis, Features, gram_basis, mean_square_distance
from likewise.learn.maths.labels import sample_rows
from likewise.learn.maths.scatter import leading_directions, shrunk
from likewise.utils.arrays import dense

WIDTH = 500  # directions that are learned in, and landmarks of the kernel
MOST_ROWS = 10_000  # of the gallery that the directions are taken from
WIDEST = 2_000  # wider rows are reduced to WIDTH directions first
SKIPPED = 0.5  # weight of the pairs known to be irrelevant; .25 to .5 gains up to .02 mAP, 1 loses as much
FAINT = 1e-3  # directions below this share of the largest weight are dropped


@dataclass(frozen=True)
class PairSetting:
    """Kernel, shrinkage of S_w to its mean, and the power that weighs the directions of S_b."""

    kernel: str = "linear"
    shrinkage: float = 0.3
    power: float = 1.0


@dataclass(frozen=True)
class Reduction:
    """Unit rows, wide or sparse ones in their leading directions V (d, r) and of unit length again."""

    V: np.ndarray | None = None

    @classmethod
    def of(cls, X: Any, rng: np.random.Generator) -> Reduction:
        if not sp.issparse(X) and X.shape[1] <= WIDEST:
            return cls()
        X = normalize(X[sample_rows(X.shape[0], MOST_ROWS, rng)])
        return cls(leading_directions(X, None, min(WIDTH, *X.shape))[1])

    def __call__(self, X: Any) -> np.ndarray:
        rows = normalize(X)
        return np.asarray(dense(rows) if self.V is None else normalize(dense(rows @ self.V.astype(rows.dtype))))


@dataclass(frozen=True)
class PairSpace:
    """Unit rows, or their kernel with landmarks, in the leading directions of a gallery and about its mean."""

    features: Features
    basis: Basis

    @classmethod
    def of(cls, G: np.ndarray, kernel: str, rng: np.random.Generator) -> PairSpace:
        """From the unit rows of a gallery; the kernel is exp(-‖x - l‖² / mean ‖x - x′‖²)."""
        G = G[sample_rows(len(G), MOST_ROWS, rng)]
        features = Features()
        if kernel == "rbf":
            landmarks = np.unique(G[sample_rows(len(G), WIDTH, rng)], axis=0)
            features = Features(landmarks, 1 / max(mean_square_distance(G, None), 1e-12))
        phi = features(G).astype(np.float64)
        basis = gram_basis(phi.T @ phi, phi.mean(axis=0), len(phi), features.metric())
        if not len(basis.g):
            raise LikewiseError("the rows of the gallery all point the same way: there is nothing to tell apart")
        return cls(features, replace(basis, V=basis.V[:, :WIDTH], g=basis.g[:WIDTH], offset=basis.offset[:WIDTH]))

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return np.asarray(self.basis(self.features(X)), dtype=np.float64)


def pair_scatter(A: np.ndarray, B: np.ndarray, R: sp.csr_array) -> tuple[np.ndarray, np.ndarray]:
    """S_w and S_b from rows A of queries, B of items and their relevance R; a stored zero is a pair to keep apart."""
    positive, zero = _weights(R, R.data.clip(0)), _weights(R, (R.data <= 0).astype(float))
    S_b = _cross(A, B, positive)
    S_w = _total(A, B, positive) - S_b
    return S_w, S_b - SKIPPED * _cross(A, B, zero) if zero.nnz else S_b


def pair_map(S_w: np.ndarray, S_b: np.ndarray, setting: PairSetting) -> np.ndarray:
    """The map (q, r): S_w whitened, then the directions of S_b by their weights, faint ones dropped."""
    values, V = scipy.linalg.eigh(S_w, driver="evd", check_finite=False)
    within, _ = shrunk(np.maximum(values, 0.0), len(values), setting.shrinkage)
    T = V / np.sqrt(np.maximum(within, 1e-12 * within.max(initial=1e-300)))
    b, Q = scipy.linalg.eigh(T.T @ S_b @ T, driver="evd", check_finite=False)
    weights = (np.maximum(b, 0.0) / (np.maximum(b, 0.0) + 1)) ** setting.power  # what relevant pairs share of each
    kept = weights >= FAINT * weights.max(initial=0.0)
    return np.asarray((T @ Q)[:, kept] * weights[kept])


def _weights(R: sp.csr_array, values: np.ndarray) -> sp.csr_array:
    weighted = sp.csr_array((values, R.indices, R.indptr), shape=R.shape, copy=True)
    weighted.eliminate_zeros()
    return weighted


def _cross(A: np.ndarray, B: np.ndarray, R: sp.csr_array) -> np.ndarray:
    C = A.T @ (R @ B) / R.sum()
    return np.asarray((C + C.T) / 2)


def _total(A: np.ndarray, B: np.ndarray, R: sp.csr_array) -> np.ndarray:
    w_q, w_g = (np.asarray(R.sum(axis=axis)).ravel() for axis in (1, 0))
    return np.asarray((A.T @ (w_q[:, None] * A) + B.T @ (w_g[:, None] * B)) / (2 * R.sum()))
