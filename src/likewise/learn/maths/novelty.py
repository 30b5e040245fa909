"""Rows unlike anything known: the distance to the nearest class, relative to the distance to all rows.

The relative Mahalanobis distance (Ren et al., 2021) of unit rows in their leading directions: with the covariance S
within classes and T of all rows, min_k |z - m_k|_S² - |z - m|_T². Without the second term, rows that are far from all
others, as short texts are, would count as unknown.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from sklearn.preprocessing import normalize
from sklearn.utils.extmath import randomized_svd

from likewise.learn.maths.labels import sample_by_class, stratified_holdout

MOST_ROWS, MOST_DIRECTIONS = 5_000, 256  # more cost time and space, and tell unknown rows no better
SHRINKAGE = 0.3  # of both covariances to their mean eigenvalue
HELD_SHARE, KNOWN_SHARE = 0.2, 0.95  # of known rows that were held out so many are within the limit


@dataclass(frozen=True)
class NoveltyModel:
    """What rows are compared with.

    Attributes
    ----------
    map, means : a map (d, q) that whitens rows within classes, and the class means (k, q) after it.
    background : (q + 1, q) mean of all rows after the map, followed by a map that whitens them.
    scale : (2,) relative distances of known rows that were held out: their median, and that below which 95 % are.
    """

    map: np.ndarray
    means: np.ndarray
    background: np.ndarray
    scale: np.ndarray

    @classmethod
    def of(cls, X: Any, codes: np.ndarray, rng: np.random.Generator) -> Self | None:
        """From labelled rows; None for sparse ones, whose map would be large, and where nothing can be held out."""
        if sp.issparse(X):
            return None
        some = sample_by_class(codes, MOST_ROWS, rng)
        X, codes = _unit(np.asarray(X)[some]), np.unique(codes[some], return_inverse=True)[1]
        seen, held = stratified_holdout(codes, HELD_SHARE, rng)
        if not len(held) or len(seen) <= codes.max() + 1:
            return None
        V = _directions(X[seen], rng)
        found = cls(*_measures(X[seen] @ V, codes[seen], V), np.array([0.0, 1.0]))
        scale = np.quantile(found._distances(X[held]), (0.5, KNOWN_SHARE))
        return replace(found, scale=scale) if np.isfinite(scale).all() and scale[1] > scale[0] else None

    def novelty(self, X: Any) -> np.ndarray:
        """Relative distance of each row to the nearest class: 0 at the median of known rows, unknown above 1."""
        middle, limit = self.scale
        return (self._distances(_unit(X)) - middle) / (limit - middle)

    def _distances(self, X: np.ndarray) -> np.ndarray:
        Z = (X @ self.map.astype(X.dtype)).astype(np.float64)
        M, (mean, *whitener) = self.means.astype(np.float64), self.background.astype(np.float64)
        to_class = np.einsum("nq,nq->n", Z, Z)[:, None] + np.einsum("kq,kq->k", M, M) - 2 * Z @ M.T
        to_all = (Z - mean) @ np.asarray(whitener)
        return np.asarray(to_class.min(axis=1) - np.einsum("nq,nq->n", to_all, to_all))


def _unit(X: Any) -> np.ndarray:
    X = X.toarray() if sp.issparse(X) else np.asarray(X)
    return np.asarray(normalize(X if X.dtype.kind == "f" else X.astype(np.float32)))


def _directions(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Leading directions of the rows, (d, q); all where they are few."""
    n, d = X.shape
    if d <= MOST_DIRECTIONS:
        return np.eye(d, dtype=X.dtype)
    seed = int(rng.integers(2**31))
    return np.asarray(randomized_svd(X, min(MOST_DIRECTIONS, n), random_state=seed)[2].T)


def _measures(Z: np.ndarray, codes: np.ndarray, V: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Map, class means and background from rows Z in the directions V."""
    means = np.stack([Z[codes == code].mean(axis=0, dtype=np.float64) for code in np.unique(codes)])
    W = _whitener(Z - means[codes])
    A = Z @ W
    mean = A.mean(axis=0)
    # Shrunk in the units of the rows, as the covariance within classes is, then brought into whitened coordinates.
    T = np.linalg.solve(W, _whitener(Z - Z.mean(axis=0)))
    parts = (V @ W, means @ W, np.vstack([mean, T]))
    return tuple(np.asarray(part, dtype=np.float32) for part in parts)  # type: ignore[return-value]


def _whitener(R: np.ndarray) -> np.ndarray:
    """W with W Wᵀ the inverse of the shrunk covariance of centred rows."""
    S = (R.T @ R).astype(np.float64) / len(R)
    mean = max(float(np.trace(S)) / len(S), 1e-12)
    L = scipy.linalg.cholesky((1 - SHRINKAGE) * S + SHRINKAGE * mean * np.eye(len(S)), lower=True)
    return np.asarray(scipy.linalg.solve_triangular(L, np.eye(len(S)), lower=True).T)
