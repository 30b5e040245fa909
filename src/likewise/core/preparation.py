"""Which regression the rows get: anchored in an eigenbasis, or a kernel at full resolution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.extmath import randomized_svd

from likewise.core.anchoring import anchored_regression
from likewise.core.kernel_ridge import ExactKernel, LandmarkKernel
from likewise.core.kernels import UnitRows, sample, scaled
from likewise.utils.arrays import dense

MOST_BYTES = 10**9  # for the kernel, where nobody has said otherwise
ENOUGH_ROWS = 2_000  # for leading directions: more change nothing


@dataclass(frozen=True)
class Preparation:
    """What a caller has decided about kernels and columns.

    `kernel_size` landmarks are few on purpose: they are anchored like a linear map. None is full resolution: all rows
    if their n x n kernel fits into `memory` bytes, else as many landmarks as three m x m matrices leave room for.
    The raw part beside the learned one has at most `raw_width` columns.
    """

    kernel_size: int | None = None
    n_landmarks: int | None = 1000
    seed: int = 0
    memory: int = MOST_BYTES
    raw_width: int | None = None

    def __call__(self, unit: UnitRows, width: float) -> Any:
        """The regression of one kernel width; 0 is linear."""
        rng = np.random.default_rng(self.seed)
        if not self.full_resolution(width):
            return anchored_regression(unit, unit.kernel(width, self.kernel_size or 1, rng), self.n_landmarks, rng)
        if not self.holds_kernel(unit.engine.shape):
            return LandmarkKernel(unit, unit.kernel(width, self.most_landmarks, rng))
        if not hasattr(unit.engine, "X"):  # on disk or elsewhere, and few enough to be brought here
            unit = UnitRows(sample(unit.engine, unit.engine.shape[0], rng)[0], unit.scaling)
        n = unit.engine.shape[0]
        dtype = unit.engine.dtype if n * n * unit.engine.dtype.itemsize <= self.memory else np.float32
        return ExactKernel(unit, width, dtype)

    def full_resolution(self, width: float) -> bool:
        """Whether a kernel of this width takes as many landmarks as there is room for."""
        return bool(width) and self.kernel_size is None

    def holds_kernel(self, shape: tuple[int, int]) -> bool:
        """Whether n x n numbers in single precision fit, and the rows themselves."""
        n, d = shape
        return 4 * n * max(n, d) <= self.memory

    def raw_directions(self, unit: UnitRows) -> np.ndarray | None:
        """The leading directions of the raw part, (d, raw_width), from some rows; None where it is no wider anyway."""
        if self.raw_width is None or unit.engine.shape[1] <= self.raw_width:
            return None
        some = sample(unit.engine, ENOUGH_ROWS, np.random.default_rng(self.seed))[0]
        X = dense(scaled(unit.pending, some.X))
        X = X - X.mean(axis=0)
        return np.asarray(randomized_svd(X, self.raw_width, n_iter=2, random_state=0)[2].T)

    @property
    def most_landmarks(self) -> int:
        return max(int(np.sqrt(self.memory / 24)), 1)
