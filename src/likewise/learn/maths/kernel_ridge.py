"""Kernel ridge regression of the class target, at full resolution: every row is a landmark, or as many as memory holds.

K is the RBF kernel of the unit rows, centred on both sides. The target P is one-hot / √n_c in the C - 1 directions in
which it varies, and the map is α = (K + λI)⁻¹ P by one Cholesky factor, λ in units of K's mean diagonal. The images of
the training rows follow without a product, P - λα, and so do those that each would have had if it had been left out,
P - α / diag (K + λI)⁻¹.

There is nothing to adapt here: training rows are all but interpolated, so the clamp finds no pair to move.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import scipy.linalg
from numpy.typing import DTypeLike
from scipy.linalg import solve_triangular

from likewise.learn.maths.anchoring import Coordinates, HeadSums, Images, anchored_regression
from likewise.learn.maths.kernels import (
    BaseMap,
    Basis,
    Features,
    FeatureSums,
    UnitRows,
    compact,
    completed,
    padded,
    sample,
    scaled,
)
from likewise.learn.maths.labels import class_sums, class_target
from likewise.learn.maths.scatter import factor_raised, half_whitened, leading_directions, raised_ridge, upper_factor
from likewise.learn.maths.setting import LearnedMap, OutputHead, Regression, Setting
from likewise.utils.arrays import Array

MOST_BYTES = 10**9  # for the kernel, by default
ENOUGH_ROWS = 1_500  # for leading directions: more change nothing


class _CentredKernel:
    """The kernel of unit rows with landmarks, less its `mean` over the rows learned from."""

    unit: UnitRows
    features: Features
    mean: np.ndarray

    def encode(self, rows: Array) -> np.ndarray:
        """Unit rows as their kernel with the landmarks, centred."""
        K = self.features(rows)
        K -= self.mean.astype(K.dtype)
        return np.asarray(K)

    def unfolded(self, L: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Projection and offset of the features themselves."""
        return L, self.mean @ L


class ExactKernel(_CentredKernel):
    """All rows as landmarks, in memory: the n x n kernel, and a map for each ridge."""

    def __init__(self, unit: UnitRows, gamma: float, dtype: DTypeLike | None = None, memory: int = MOST_BYTES) -> None:
        engine = unit.engine
        rows = compact(engine.rows(slice(None)))
        self.unit, self.features, self.memory = unit, Features(rows, unit.gamma(gamma)), memory
        self.weights = np.ones(rows.shape[0]) if engine.weights is None else engine.weights
        self.P = class_target(unit.size)[engine.codes]
        self._K, self.mean, self.mean_diagonal = self._centred(dtype or rows.dtype)

    def _centred(self, dtype: DTypeLike) -> tuple[np.ndarray, np.ndarray, float]:
        """√w_i K_ij √w_j centred, the mean of K's rows, and the mean diagonal."""
        rows = self.features.landmarks.astype(dtype, copy=False)
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

    def learn(self, setting: Setting, *, last: bool = False) -> LearnedMap:
        """The map of a ridge; the `last` one overwrites the kernel by its factor."""
        factor, ridge = self._factor(setting.ridge * self.mean_diagonal, last)
        roots = np.sqrt(self.weights)[:, None]
        targets = (roots * self.P).astype(factor.dtype)
        alpha = roots * scipy.linalg.cho_solve((factor, False), targets, check_finite=False)
        # Its sum is zero but for rounding, which 1 / λ has made large in the one direction that K does not know.
        alpha -= np.outer(self.weights / self.weights.sum(), alpha.sum(axis=0))
        precision = self.features.landmarks.dtype
        images = (self.P - ridge * alpha / self.weights[:, None]).astype(precision)
        rms = float(np.sqrt(self.weights @ np.einsum("ij,ij->i", images, images) / self.weights.sum()))
        means = partial(self._class_means, alpha, factor)
        return LearnedMap(alpha.astype(precision), rms, lambda: images, means)

    def _factor(self, ridge: float, last: bool) -> tuple[np.ndarray, float]:
        """The upper Cholesky factor of K + λI, and λ.

        Where all values of the kernel are close to one, single precision leaves K indefinite by more than λ: then K is
        computed again in double precision, or with a larger ridge where memory does not hold that.
        """
        A = self._K if last else self._K.copy()
        ridge = max(ridge, float(np.finfo(A.dtype).eps) * len(A))  # less would be rounding
        while True:
            A[np.diag_indices(len(A))] += A.dtype.type(ridge)
            factor = upper_factor(A)
            if factor is not None:
                return factor, ridge
            wider = A.dtype != np.float64 and 8 * len(A) ** 2 <= self.memory
            if not wider:
                ridge = raised_ridge(ridge, self.weights.max())
            dtype = np.float64 if wider else A.dtype
            del A  # before another one is allocated
            A = self._centred(dtype)[0]

    def left_out(self, alpha: np.ndarray, factor: np.ndarray) -> np.ndarray:
        """Images that each row would have had if it had been left out."""
        (potri,) = scipy.linalg.get_lapack_funcs(("potri",), (factor,))
        inverse = potri(factor, lower=0, overwrite_c=0)[0].diagonal()
        return np.asarray(self.P - alpha / (self.weights * inverse)[:, None])

    def _class_means(self, alpha: np.ndarray, factor: np.ndarray, head: OutputHead) -> np.ndarray:
        """Of images left out: fitted ones are closer to their target than any other."""
        z = head(self.left_out(alpha, factor).astype(self.features.landmarks.dtype))
        sums = class_sums(z, self.unit.engine.codes, self.unit.engine.weights, self.unit.n_classes)
        return np.asarray(sums / np.maximum(self.unit.size, 1e-300)[:, None])


# -- More rows than that -----------------------------------------------------------------------------------------------


class LandmarkKernel(_CentredKernel):
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
        self.T = factor_raised(features.metric(), 0.0)[0]  # type: ignore[arg-type]
        left = solve_triangular(self.T, G, trans=1, overwrite_b=True, check_finite=False)
        self.FF = solve_triangular(self.T, left.T, trans=1, overwrite_b=True, check_finite=False)
        FP = (sums - np.outer(unit.size, self.mean)).T @ class_target(unit.size)
        self.FP = solve_triangular(self.T, FP, trans=1, check_finite=False)

    def learn(self, setting: Setting, *, last: bool = False) -> LearnedMap:
        """The map of a ridge."""
        factor, ridge = factor_raised(self.FF, setting.ridge * max(1.0 - float(self.mean.mean()), 0.0))
        L = scipy.linalg.cho_solve((factor, False), self.FP, check_finite=False)
        rms = float(np.sqrt(np.sum(L * (self.FP - ridge * L)) / self.unit.size.sum()))
        projection, engine = solve_triangular(self.T, L, check_finite=False), self.unit.engine

        def images() -> np.ndarray:
            return self.encode(engine.rows(slice(None))) @ projection.astype(engine.dtype)

        return LearnedMap(projection, rms, images, partial(self._class_means, projection))

    def _class_means(self, projection: np.ndarray, head: OutputHead) -> np.ndarray:
        """In one more pass."""
        unit, basis = self.unit, Basis(projection, np.empty(0), self.mean @ projection, 1.0)
        images = Images(Coordinates(unit.pending, self.features, basis), np.eye(projection.shape[1]))
        task = HeadSums(images, head, unit.n_classes)
        return np.asarray(unit.engine.sum(task)[0] / np.maximum(unit.size, 1e-300)[:, None])


# -- Which regression the rows get: anchored in an eigenbasis, or a kernel at full resolution --------------------------


@dataclass(frozen=True)
class RegressionFactory:
    """Makes the regression of some rows: what a caller has decided about kernels and sizes.

    `n_landmarks` landmarks are few on purpose: they are anchored like a linear map. None is full resolution: all rows
    if their n x n kernel fits into `memory` bytes, else as many landmarks as leave room for five m x m matrices in
    double precision. An anchored map compares each row with `n_anchors` columns, None with all rows. The raw part of
    a vector has at most `raw_width` columns.
    """

    n_landmarks: int | None = None
    n_anchors: int | None = 1000
    seed: int = 0
    memory: int = MOST_BYTES
    raw_width: int | None = 256

    def __call__(self, unit: UnitRows, gamma: float) -> Regression:
        """The regression for one γ, 0 is linear."""
        rng = np.random.default_rng(self.seed)
        if not self.full_resolution(gamma):
            return anchored_regression(unit, unit.kernel(gamma, self.n_landmarks or 1, rng), self.n_anchors, rng)
        if not self.holds_kernel(unit.engine.shape):
            most = max(int(np.sqrt(self.memory / 40)), 1)
            return LandmarkKernel(unit, unit.kernel(gamma, most, rng))
        if not unit.engine.in_memory:  # on disk or elsewhere, and few enough to be brought here
            unit = UnitRows(sample(unit.engine, unit.engine.shape[0], rng)[0], unit.scaling)
        n, dtype = unit.engine.shape[0], unit.engine.dtype
        dtype = dtype if n * n * dtype.itemsize <= self.memory else np.dtype(np.float32)
        return ExactKernel(unit, gamma, dtype, self.memory)

    def full_resolution(self, gamma: float) -> bool:
        """Whether a kernel of this γ takes as many landmarks as there is room for."""
        return bool(gamma) and self.n_landmarks is None

    def holds_kernel(self, shape: tuple[int, int]) -> bool:
        """Whether n x n numbers in single precision fit, and the rows themselves."""
        n, d = shape
        return 4 * n * max(n, d) <= self.memory

    def base_map(self, unit: UnitRows, share: float) -> BaseMap:
        """The base part: the leading directions of the rows, half whitened, that is divided by √ of their deviation.

        Whitening brings the cosine of unlike rows closer to zero, so that this part costs less; near-duplicates stay
        close. Where the base part is all there is, it is the plain cosine. Learned from some rows, once. Its width is
        always the same.
        """
        half = bool(share)
        if half not in unit.base_maps:
            width = self.base_width(unit.source.shape[1])
            if unit.directions is None:
                some = sample(unit.engine, ENOUGH_ROWS, np.random.default_rng(self.seed))[0]
                weights = np.ones(some.X.shape[0]) if some.row_weights is None else some.row_weights
                rows = compact(scaled(unit.pending, some.X))
                unit.directions = leading_directions(rows, weights, min(width, *rows.shape), unit.mean)
            V = unit.directions[1]
            B = half_whitened(*unit.directions) if half else completed(V, min(width, len(V)))
            unit.base_maps[half] = BaseMap(unit.mean, padded(B, width))
        return unit.base_maps[half]

    def base_width(self, d: int) -> int:
        """Columns of the base part of rows of d columns; standardised rows have one more."""
        return min(self.raw_width or d + 1, d + 1)
