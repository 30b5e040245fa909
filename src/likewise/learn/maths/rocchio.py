"""What relevant pairs tell, in closed form: a metric in which they are close, and a kernel Rocchio with leave-one-out.

Rows have unit length. W (n_q, n_g) holds the weights of relevant pairs; the weights of a query sum to 1, or to 0 if
nothing is known of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from sklearn.preprocessing import normalize
from sklearn.utils import gen_batches

from likewise.utils.arrays import top_k

SKIPPED = 0.5  # weight of pairs known to be irrelevant; .25 to .5 gains up to .02 mAP, 1 loses as much
RBF_WIDTH = 4.5  # of exp(-4.5 ‖q - q'‖² / mean ‖q - q'‖²); 15 predicts worse
INTERCEPT = 0.1  # of both kernels; with 1 what is common to all relevant items drowns what a few queries tell
NEGATIVES = 10  # nearest irrelevant items of a query
_FAINT = 1e-7  # eigenvalues of a kernel below this share of the largest are rounding
_BLOCK = 512  # queries that are compared with all items at a time


# -- The metric -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PairScatter:
    """Over relevant pairs: `within`, half the mean of (q - g)(q - g)ᵀ, and `between`, the mean of q gᵀ about the mean.

    Relevant pairs are two draws around one centre, so the first is the covariance within classes that need no names,
    and the second that between them.
    """

    within: np.ndarray
    between: np.ndarray

    @classmethod
    def of(cls, Q: np.ndarray, G: np.ndarray, W: sp.csr_array, zeros: sp.csr_array, mean: np.ndarray) -> PairScatter:
        """From pairs of weights W, and `zeros`, pairs known to be irrelevant."""
        cross, total = _cross(Q, G, W, mean), _total(Q, G, W, mean)
        between = cross - SKIPPED * _cross(Q, G, zeros, mean) if zeros.nnz else cross
        return cls(total - cross, between)

    def root(self, shrinkage: float, power: float) -> np.ndarray:
        """T of the metric T Tᵀ, the inverse of the shrunk covariance within; `power` weighs directions by `between`.

        Its mean eigenvalue is 1.

        Power 0 weighs all alike; with 1/2 it is the difference of the inverse covariances within and in total, the
        log-likelihood ratio of related and random pairs.
        """
        T = self._whitening(shrinkage)
        if power:
            b, E = self._discriminants(shrinkage)
            T = (T @ E) * (b / (b + 1)) ** power
        return np.asarray(T * np.sqrt(len(T) / max(float((T * T).sum()), 1e-12)))

    @cached_property
    def _scale(self) -> float:
        return max(float(np.trace(self.within)) / len(self.within), 1e-12)

    @cached_property
    def _eigen(self) -> tuple[np.ndarray, np.ndarray]:
        values, V = scipy.linalg.eigh(self.within / self._scale, driver="evd", check_finite=False)
        return np.maximum(values, 0.0), V

    def _whitening(self, shrinkage: float) -> np.ndarray:
        values, V = self._eigen
        return np.asarray(V / np.sqrt((1 - shrinkage) * values + shrinkage))

    @cached_property
    def _discriminants(self) -> Callable[[float], tuple[np.ndarray, np.ndarray]]:
        """Variances between of the whitened directions, and their eigenvectors, by shrinkage."""

        @cache
        def of(shrinkage: float) -> tuple[np.ndarray, np.ndarray]:
            T = self._whitening(shrinkage)
            values, E = scipy.linalg.eigh(T.T @ (self.between / self._scale) @ T, driver="evd", check_finite=False)
            return np.maximum(values, 0.0), E

        return of


def _cross(Q: np.ndarray, G: np.ndarray, W: sp.csr_array, mean: np.ndarray) -> np.ndarray:
    P = W @ G - W.sum(axis=1)[:, None] * mean
    C = ((Q - mean).T @ P.astype(Q.dtype)).astype(np.float64) / W.sum()
    return np.asarray((C + C.T) / 2)


def _total(Q: np.ndarray, G: np.ndarray, W: sp.csr_array, mean: np.ndarray) -> np.ndarray:
    total = np.zeros((Q.shape[1],) * 2)
    for rows, weights in ((Q, W.sum(axis=1)), (G, W.sum(axis=0))):
        some = np.flatnonzero(weights)
        centred = (rows[some] - mean) * np.sqrt(weights[some])[:, None].astype(rows.dtype)
        total += centred.T @ centred
    return total / (2 * W.sum())


def square_root(M: np.ndarray) -> np.ndarray:
    """The symmetric root of a positive matrix."""
    values, V = scipy.linalg.eigh(M, driver="evd", check_finite=False)
    return np.asarray((V * np.sqrt(np.maximum(values, 0.0))) @ V.T)


# -- Kernel Rocchio ---------------------------------------------------------------------------------------------------


def nearest_irrelevant(Q: np.ndarray, G: np.ndarray, known: sp.csr_array) -> np.ndarray:
    """For each query the mean of its nearest items that are not among the known ones; (n_q, d)."""
    means, k = np.empty_like(Q), min(NEGATIVES, len(G))
    for block in gen_batches(len(Q), _BLOCK):
        S = Q[block] @ G.T
        part = known[block]
        S[np.repeat(np.arange(len(S)), np.diff(part.indptr)), part.indices] = -np.inf
        nearest = top_k(S, k, ordered=False)
        there = np.isfinite(np.take_along_axis(S, nearest, axis=1)).astype(Q.dtype)
        places = sp.csr_array((there.ravel(), nearest.ravel(), np.arange(len(S) + 1) * k), shape=S.shape)
        means[block] = (places @ G) / np.maximum(there.sum(axis=1), 1)[:, None]
    return means


@dataclass(frozen=True)
class KernelBasis:
    """The kernel of some queries, U diag(e) Uᵀ: of their rows, or an RBF kernel with landmarks among them.

    `A` maps features of a row, its own or its kernel with the landmarks, to the coordinates in which U is √e.
    """

    landmarks: np.ndarray | None
    A: np.ndarray
    U: np.ndarray
    e: np.ndarray

    @classmethod
    def of(cls, Q: np.ndarray, kernel: str, n_landmarks: int) -> KernelBasis:
        """Landmarks are the first rows; with as many as there are rows the kernel is exact."""
        if kernel == "linear":
            F = features(Q, None)
            e, V = _leading(F.T @ F)
            return cls(None, V, ((F @ V.astype(Q.dtype)) / np.sqrt(e)).astype(Q.dtype), e)
        L = Q[:n_landmarks]
        g, V = _leading(features(L, L))
        A = V / np.sqrt(g)
        if len(L) == len(Q):
            return cls(L, A, V.astype(Q.dtype), g)
        F = features(Q, L) @ A.astype(Q.dtype)
        e, E = _leading(F.T @ F)
        return cls(L, A @ E, ((F @ E.astype(Q.dtype)) / np.sqrt(e)).astype(Q.dtype), e)

    def coefficients(self, T: np.ndarray, ridge: float) -> np.ndarray:
        """What features are multiplied by to predict the targets T (n, t)."""
        return np.asarray(self.A @ ((np.sqrt(self.e) / (self.e + ridge))[:, None] * (self.U.T @ T)))


@dataclass(frozen=True)
class LeftOut:
    """Kernel ridge regression of targets T on queries, each predicted without itself or without a group."""

    basis: KernelBasis
    T: np.ndarray
    ridge: float

    @cached_property
    def shares(self) -> np.ndarray:
        return (self.basis.e / (self.basis.e + self.ridge)).astype(self.basis.U.dtype)

    @cached_property
    def residuals(self) -> np.ndarray:
        """Targets less what is fitted to them."""
        U = self.basis.U
        return np.asarray(self.T - U @ (self.shares[:, None] * (U.T @ self.T)))

    def alone(self, queries: np.ndarray) -> np.ndarray:
        """Predictions of some queries, each without itself."""
        h = np.einsum("ij,j,ij->i", self.basis.U[queries], self.shares, self.basis.U[queries])
        return np.asarray(self.T[queries] - self.residuals[queries] / np.maximum(1 - h, 1e-6)[:, None])

    def without(self, query: int, group: np.ndarray) -> np.ndarray:
        """The prediction of a query without the queries of a group that starts with it."""
        U = self.basis.U[group].astype(np.float64)
        A = np.eye(len(group)) - (U * self.shares) @ U.T
        A[np.diag_indices(len(A))] += 1e-9
        x = scipy.linalg.solve(A, np.eye(len(group), 1).ravel(), assume_a="pos", check_finite=False)
        return np.asarray(self.T[query] - x.astype(self.T.dtype) @ self.residuals[group])


def features(X: np.ndarray, L: np.ndarray | None) -> np.ndarray:
    """Those of the linear kernel x·x' + c, or with landmarks c + exp(-γ ‖x - l‖²); c is an intercept."""
    if L is None:
        return np.hstack([X, np.full((len(X), 1), INTERCEPT**0.5, X.dtype)])
    squares = np.einsum("ij,ij->i", X, X)[:, None] + np.einsum("ij,ij->i", L, L)
    return INTERCEPT + np.exp(np.minimum(rbf_gamma(L) * (2 * (X @ L.T) - squares), 0.0))


def rbf_gamma(L: np.ndarray) -> float:
    """4.5 over the mean squared distance of landmarks."""
    spread = float(np.einsum("ij,ij->i", L, L).mean()) - float(np.sum(L.mean(axis=0) ** 2))
    return RBF_WIDTH / max(2 * spread, 1e-3)


def _leading(K: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues above rounding, and their vectors."""
    values, V = scipy.linalg.eigh(K.astype(np.float64), driver="evd", check_finite=False)
    some = values > max(_FAINT * values[-1], 1e-30)
    return values[some], V[:, some]


def row_weights(R: sp.csr_array) -> sp.csr_array:
    """Rows that sum to 1, or to 0 where there is nothing."""
    return normalize(R, norm="l1")
