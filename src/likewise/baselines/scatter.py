"""Class means and within-class covariances, and their spectra, for whitening, RCA, LDA and ridge regression."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh

from likewise.core.class_sums import class_sums

__all__ = ["Scatter", "Spectrum", "principal_directions", "scatter", "spectrum", "within"]


@dataclass(frozen=True)
class Scatter:
    """The mean of all rows (d,), of each class (k, d), and the class sizes (k,)."""

    mean: np.ndarray
    centres: np.ndarray
    sizes: np.ndarray


@dataclass(frozen=True)
class Spectrum:
    """A covariance as eigenvalues (q,), ascending, and eigenvectors (d, q); q < d if rows are fewer than columns."""

    values: np.ndarray
    vectors: np.ndarray

    def whitener(self, shrinkage: float) -> np.ndarray:
        """((1 − a)S + a·mean(S)·I)^(−½) as rows in the eigenbasis, shape (q, d)."""
        values = (1 - shrinkage) * self.values + shrinkage * self.values.mean()
        floor = np.finfo(np.float64).eps * len(values) * values.max(initial=np.finfo(np.float64).tiny)
        return self.vectors.T / np.sqrt(np.maximum(values, floor))[:, None]


def scatter(X: np.ndarray, y: np.ndarray) -> Scatter:
    """Means in float64, whatever the precision of X."""
    sizes = np.bincount(y)
    sums = class_sums(X, y, None, len(sizes))
    return Scatter(sums.sum(axis=0) / len(y), sums / sizes[:, None], sizes)


def within(X: np.ndarray, y: np.ndarray, classes: Scatter) -> Spectrum:
    """Spectrum of the covariance of rows about the mean of their class, divided by n."""
    return spectrum(X - classes.centres.astype(X.dtype)[y], extra=classes.centres - classes.mean)


def spectrum(R: np.ndarray, extra: np.ndarray | None = None) -> Spectrum:
    """Spectrum of RᵀR/n for residual rows R.

    With fewer rows than columns only the span of R and of the `extra` rows is kept: no d×d matrix is formed.
    """
    n, d = R.shape
    basis = None
    if n < d:
        basis = _row_space(R if extra is None else np.vstack([R, extra]))
        R = R @ basis
    values, vectors = eigh((R.T @ R).astype(np.float64) / n, driver="evd")  # twice as fast as the default
    vectors = vectors if basis is None else basis @ vectors
    return Spectrum(np.maximum(values, 0), vectors)


def principal_directions(X: np.ndarray, r: int) -> np.ndarray:
    """The r leading principal directions of centred rows, (r, d), or as many as the rows span; signs are fixed."""
    covariance = spectrum(X)
    values, vectors = covariance.values[::-1][:r], covariance.vectors[:, ::-1][:, :r]
    kept = max(1, int(np.sum(values > values[0] * np.finfo(np.float32).eps)))
    directions = vectors[:, :kept].T
    largest = np.take_along_axis(directions, np.abs(directions).argmax(axis=1)[:, None], axis=1)
    return np.ascontiguousarray(directions * np.where(largest < 0, -1, 1), dtype=X.dtype)


def _row_space(R: np.ndarray) -> np.ndarray:
    """An orthonormal basis (d, q) of the rows of R."""
    _, s, Vt = np.linalg.svd(R.astype(np.float64), full_matrices=False)
    return Vt[s > s[0] * np.finfo(np.float32).eps].T if s[0] > 0 else Vt[:1].T
