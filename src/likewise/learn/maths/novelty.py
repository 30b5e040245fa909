"""Rows unlike anything known: the distance to the nearest class, relative to the distance to all rows.

The relative Mahalanobis distance (Ren et al., 2021) of unit rows in their leading directions: with the covariance S
within classes and T of all rows, min_k |z - m_k|_S² - |z - m|_T². Without the second term, rows that are far from all
others, as short texts are, would count as unknown.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.preprocessing import normalize

from likewise.learn.maths.labels import sample_by_class, stratified_holdout
from likewise.learn.maths.scatter import leading_directions, shrunk_whitener

MOST_ROWS, MOST_DIRECTIONS = 5_000, 256  # more cost time and space, and tell unknown rows no better
SHRINKAGE = 0.3  # of both covariances to their mean eigenvalue
HELD_SHARE, KNOWN_SHARE = 0.2, 0.95  # this share of held-out known rows is within the limit


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
        d = X.shape[1]
        V = np.eye(d, dtype=X.dtype) if d <= MOST_DIRECTIONS else leading_directions(X[seen], None, MOST_DIRECTIONS)[1]
        model = cls(*_measures(X[seen] @ V, codes[seen], V), np.array([0.0, 1.0]))
        scale = np.quantile(model._distances(X[held]), (0.5, KNOWN_SHARE))
        return replace(model, scale=scale) if np.isfinite(scale).all() and scale[1] > scale[0] else None

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


def _measures(Z: np.ndarray, codes: np.ndarray, V: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Map, class means and background from rows Z in the directions V."""
    means = np.stack([Z[codes == code].mean(axis=0, dtype=np.float64) for code in np.unique(codes)])
    W = shrunk_whitener(Z - means[codes], SHRINKAGE)
    A = Z @ W
    mean = A.mean(axis=0)
    # Shrunk in the units of the rows, as the covariance within classes is, then brought into whitened coordinates.
    T = np.linalg.solve(W, shrunk_whitener(Z - Z.mean(axis=0), SHRINKAGE))
    parts = (V @ W, means @ W, np.vstack([mean, T]))
    return tuple(np.asarray(part, dtype=np.float32) for part in parts)  # type: ignore[return-value]
