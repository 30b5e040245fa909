"""Kernel ridge regression of the class target, at full resolution: every row is a landmark, or as many as memory holds.

K is the RBF kernel of the unit rows, centred on both sides. The target P is one-hot / √n_c in the C - 1 directions in
which it varies, and the map is α = (K + λI)⁻¹ P by one Cholesky factor, λ in units of K's mean diagonal. The images of
the training rows follow without a product, P - λα, and so do those that each would have had if it had been left out,
P - α / diag (K + λI)⁻¹.

There is nothing to adapt here: training rows are all but interpolated, so the clamp finds no pair to move.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg
from scipy.linalg import solve_triangular

from likewise.core.anchoring import Coordinates, HeadSums, Images
from likewise.core.kernels import Basis, Features, FeatureSums, UnitRows
from likewise.core.labels import class_sums
from likewise.core.setting import Head, Setting
from likewise.errors import LikewiseError
from likewise.utils.arrays import dense


def class_target(size: np.ndarray) -> np.ndarray:
    """The target of a row of each class, (C, C - 1): one-hot / √n_c, centred, without its constant direction.

    Columns of a Householder reflection that takes √n_c to the first axis: orthonormal, and centred over the rows as
    they are. RMS row norm 1; a class without rows has no target.
    """
    there = np.maximum(size, 0.0)
    v = np.sqrt(there / there.sum())
    u = v.copy()
    u[0] += 1.0
    H = np.eye(len(v)) - np.outer(u, u) / u[0]  # |u|² = 2 u₀
    T = H[:, 1:] / np.sqrt(np.where(size > 0, size, np.inf))[:, None]
    return np.asarray(T * np.sqrt(there.sum() / max(len(v) - 1, 1)))


class ExactKernel:
    """All rows as landmarks, in memory: the n x n kernel, and a map for each ridge."""

    def __init__(self, unit: UnitRows, width: float, dtype: Any = None) -> None:
        engine = unit.engine
        rows = np.asarray(dense(engine.rows(slice(None))))
        self.unit, self.features = unit, Features(rows, unit.gamma(width))
        self.weights = np.ones(len(rows)) if engine.weights is None else engine.weights
        self.P = class_target(unit.size)[engine.codes]
        self._K, self.mean, self.mean_diagonal = self._centred(rows.astype(dtype or rows.dtype, copy=False))

    def _centred(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        """√w_i K_ij √w_j centred, the mean of K's rows, and the mean diagonal."""
        K = Features(rows, self.features.gamma)(rows)
        total = self.weights.sum()
        mean = np.asarray(self.weights.astype(K.dtype) @ K, dtype=np.float64) / total
        overall = float(self.weights @ mean / total)
        K -= mean.astype(K.dtype)
        K -= (mean - overall).astype(K.dtype)[:, None]
        if self.unit.engine.weights is not None:
            root = np.sqrt(self.weights).astype(K.dtype)
            K *= root
            K *= root[:, None]
        return K, mean, 1.0 - overall

    def encode(self, rows: Any) -> np.ndarray:
        """Unit rows as their kernel with all training rows, centred."""
        K = self.features(rows)
        K -= self.mean.astype(K.dtype)
        return np.asarray(K)

    def learn(self, setting: Setting, saved: Any = None, *, last: bool = False) -> KernelMap:
        """The map of a ridge; the `last` one overwrites the kernel by its factor. There are no rounds to be `saved`."""
        A = self._K if last else self._K.copy()
        dtype, n = A.dtype, len(A)
        ridge = max(setting.ridge * self.mean_diagonal, float(np.finfo(dtype).eps) * n)  # less would be rounding
        A[np.diag_indices(n)] += dtype.type(ridge)
        factor = _cholesky(A)
        roots = np.sqrt(self.weights)[:, None]
        alpha = roots * scipy.linalg.cho_solve((factor, False), (roots * self.P).astype(dtype), check_finite=False)
        # Its sum is zero but for rounding, which 1 / λ has made large in the one direction that K does not know.
        alpha -= np.outer(self.weights / self.weights.sum(), alpha.sum(axis=0))
        return KernelMap(self, alpha, ridge, factor)


@dataclass(frozen=True)
class KernelMap:
    """A map α of the kernel of all rows."""

    kernel: ExactKernel
    alpha: np.ndarray
    ridge: float
    factor: np.ndarray

    @property
    def features(self) -> Features:
        return self.kernel.features

    @property
    def projection(self) -> np.ndarray:
        return self.alpha.astype(self.features.landmarks.dtype)

    L = projection

    @property
    def offset(self) -> np.ndarray:
        return np.asarray(self.kernel.mean @ self.alpha)

    @property
    def rms(self) -> float:
        w = self.kernel.weights
        return float(np.sqrt(w @ np.einsum("ij,ij->i", self.images(), self.images()) / w.sum()))

    @property
    def input_scale(self) -> float:
        return self.kernel.unit.rms

    def images(self) -> np.ndarray:
        """Images of the training rows, in label order."""
        images = self.kernel.P - self.ridge * self.alpha / self.kernel.weights[:, None]
        return images.astype(self.features.landmarks.dtype)

    @cached_property
    def left_out(self) -> np.ndarray:
        """Images that each row would have had if it had been left out."""
        (potri,) = scipy.linalg.get_lapack_funcs(("potri",), (self.factor,))
        inverse = potri(self.factor, lower=0, overwrite_c=0)[0].diagonal()
        return np.asarray(self.kernel.P - self.alpha / (self.kernel.weights * inverse)[:, None])

    def class_means(self, head: Head) -> np.ndarray:
        """The mean of what a head makes of images left out: fitted ones are closer to their target than any other."""
        unit = self.kernel.unit
        images = self.left_out.astype(self.features.landmarks.dtype)
        z = head(images, lambda: unit.centred(self.features.landmarks))
        sums = class_sums(z, unit.engine.codes, unit.engine.weights, unit.n_classes)
        return np.asarray(sums / np.maximum(unit.size, 1e-300)[:, None])


def _cholesky(A: np.ndarray) -> np.ndarray:
    """The upper factor, in place of a symmetric matrix."""
    try:
        return np.asarray(scipy.linalg.cholesky(A.T, overwrite_a=True, check_finite=False))  # Aᵀ is in LAPACK's order
    except scipy.linalg.LinAlgError:
        raise LikewiseError("the kernel of these rows has no Cholesky factor: pass a larger ridge") from None


# ---------------------------------------------------------------------------------------------------------------------
# More rows than that


class LandmarkKernel:
    """Some rows as landmarks: the same regression, from one pass that sums their kernel with all rows.

    With T the Cholesky factor of the landmarks' own kernel, F = K T⁻¹ has the inner products of the kernel, and the map
    is (FᵀF + λI)⁻¹ FᵀP, by a second factor; it costs m² per row, and no row is visited again.
    """

    def __init__(self, unit: UnitRows, features: Features) -> None:
        self.unit, self.features = unit, features
        G, sums = unit.engine.sum(FeatureSums(unit.pending, features, unit.n_classes))
        total = unit.size.sum()
        self.mean = sums.sum(axis=0) / total
        G -= total * np.outer(self.mean, self.mean)
        self.T = _cholesky(features.metric())  # type: ignore[arg-type]
        left = solve_triangular(self.T, G, trans=1, overwrite_b=True, check_finite=False)
        self.FF = solve_triangular(self.T, left.T, trans=1, overwrite_b=True, check_finite=False)
        targets = class_target(unit.size)
        FP = (sums - np.outer(unit.size, self.mean)).T @ targets
        self.FP = solve_triangular(self.T, FP, trans=1, check_finite=False)

    def encode(self, rows: Any) -> np.ndarray:
        """Unit rows as their kernel with the landmarks, centred."""
        K = self.features(rows)
        return np.asarray(K - self.mean.astype(K.dtype))

    def learn(self, setting: Setting, saved: Any = None, *, last: bool = False) -> LandmarkMap:
        """The map of a ridge."""
        A, ridge = self.FF if last else self.FF.copy(), setting.ridge * (1.0 - float(self.mean.mean()))
        A[np.diag_indices(len(A))] += ridge
        L = scipy.linalg.cho_solve((_cholesky(A), False), self.FP, check_finite=False)
        squares = float(np.sum(L * (self.FP - ridge * L)))
        return LandmarkMap(self, solve_triangular(self.T, L, check_finite=False), squares)


@dataclass(frozen=True)
class LandmarkMap:
    """A map of the kernel with some landmarks; `squares` is Σ |z|² over the training rows."""

    kernel: LandmarkKernel
    projection: np.ndarray
    squares: float

    @property
    def L(self) -> np.ndarray:
        return self.projection

    @property
    def features(self) -> Features:
        return self.kernel.features

    @property
    def offset(self) -> np.ndarray:
        return np.asarray(self.kernel.mean @ self.projection)

    @property
    def rms(self) -> float:
        return float(np.sqrt(self.squares / self.kernel.unit.size.sum()))

    @property
    def input_scale(self) -> float:
        return self.kernel.unit.rms

    def images(self) -> np.ndarray:
        """Images of the training rows, in label order, where they are in memory."""
        unit = self.kernel.unit
        return self.kernel.encode(unit.engine.rows(slice(None))) @ self.projection.astype(unit.engine.dtype)

    def class_means(self, head: Head) -> np.ndarray:
        """The mean of what a head makes of the images of each class, in one more pass."""
        unit = self.kernel.unit
        basis = Basis(self.projection, np.empty(0), self.offset, 1.0)
        images = Images(Coordinates(unit.pending, self.features, basis), np.eye(self.projection.shape[1]))
        task = HeadSums(images, head, unit.pending, unit.mean, unit.n_classes)
        return np.asarray(unit.engine.sum(task)[0] / np.maximum(unit.size, 1e-300)[:, None])
