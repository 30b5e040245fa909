"""Which regression the rows get: anchored in an eigenbasis, or a kernel at full resolution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from sklearn.utils.extmath import randomized_svd

from likewise.learn.maths.anchoring import anchored_regression
from likewise.learn.maths.kernel_ridge import MOST_BYTES, ExactKernel, LandmarkKernel
from likewise.learn.maths.kernels import UnitRows, sample
from likewise.learn.maths.scaling import scaled
from likewise.learn.maths.setting import Regression
from likewise.learn.maths.whitening import fixed_signs
from likewise.utils.arrays import dense

ENOUGH_ROWS = 1_500  # for leading directions: more change nothing
EXACT_DIRECTIONS = 512  # columns
_TINY = 1e-300


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

    def __call__(self, unit: UnitRows, gamma: float, saved_sums: Any = None) -> Regression:
        """The regression for one γ, 0 is linear; `saved_sums` keeps the sums of the landmarks' pass while it lasts."""
        rng = np.random.default_rng(self.seed)
        if not self.full_resolution(gamma):
            return anchored_regression(unit, unit.kernel(gamma, self.n_landmarks or 1, rng), self.n_anchors, rng)
        if not self.holds_kernel(unit.engine.shape):
            return LandmarkKernel(unit, unit.kernel(gamma, self.most_landmarks, rng), saved_sums)
        if not unit.engine.in_memory:  # on disk or elsewhere, and few enough to be brought here
            unit = UnitRows(sample(unit.engine, unit.engine.shape[0], rng)[0], unit.scaling)
        n = unit.engine.shape[0]
        dtype = unit.engine.dtype if n * n * unit.engine.dtype.itemsize <= self.memory else np.float32
        return ExactKernel(unit, gamma, dtype, self.memory)

    def full_resolution(self, gamma: float) -> bool:
        """Whether a kernel of this γ takes as many landmarks as there is room for."""
        return bool(gamma) and self.n_landmarks is None

    def holds_kernel(self, shape: tuple[int, int]) -> bool:
        """Whether n x n numbers in single precision fit, and the rows themselves."""
        n, d = shape
        return 4 * n * max(n, d) <= self.memory

    def raw_directions(self, unit: UnitRows) -> np.ndarray:
        """The leading directions of the raw part, (d, p), half whitened: divided by the root of their deviation.

        Whitening brings the cosine of unlike rows closer to zero, so that the raw part costs less; near-duplicates
        stay close. Learned from some rows, once.
        """
        if unit.raw_directions is not None:
            return unit.raw_directions
        some = sample(unit.engine, ENOUGH_ROWS, np.random.default_rng(self.seed))[0]
        weights = np.ones(some.X.shape[0]) if some.row_weights is None else some.row_weights
        X = dense(scaled(unit.pending, some.X))
        X = (X - unit.mean) * np.sqrt(weights)[:, None].astype(X.dtype)
        unit.raw_directions = half_whitened(*_leading_directions(X, min(self.raw_width or X.shape[1], *X.shape)))
        return unit.raw_directions

    @property
    def most_landmarks(self) -> int:
        return max(int(np.sqrt(self.memory / 40)), 1)


def half_whitened(values: np.ndarray, V: np.ndarray) -> np.ndarray:
    """Directions V divided by the roots of their singular values, without those that hardly vary."""
    kept = values >= 1e-3 * values[0]
    V, values = V[:, kept], np.maximum(values[kept] / max(values[0], _TINY), 1e-3)
    return np.asarray(V * fixed_signs(V) / np.sqrt(values))


def _leading_directions(X: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Singular values of X, largest first, and right singular vectors as columns."""
    if X.shape[1] > EXACT_DIRECTIONS:
        _, values, Vt = randomized_svd(X, width, n_iter=1, random_state=0)
        return values, Vt.T
    return gram_directions(X.T.astype(np.float64) @ X.astype(np.float64), width)


def gram_directions(G: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
    """The same from XᵀX."""
    squares, V = scipy.linalg.eigh(G)
    return np.sqrt(np.maximum(squares[::-1][:width], 0.0)), V[:, ::-1][:, :width]
