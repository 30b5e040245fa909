"""What a block contributes, in the library of its rows: the tasks of `blocks` for torch, or any other array API.

Rows and their features stay on the device; sums come back to the host, where they are added in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from likewise.core.anchoring import LARGEST_PUSH, cosine_clamp
from likewise.core.class_sums import class_sums
from likewise.core.device import Device
from likewise.core.engine import RowBlock
from likewise.core.kernels import Features, kernel_centre
from likewise.core.passes import Gallery
from likewise.utils.arrays import to_host

if TYPE_CHECKING:
    from likewise.core.anchored_blocks import Clamp, HeadSums, Images, Moments

__all__ = ["clamp_columns", "direction_sums", "feature_sums", "head_sums", "moments", "push"]

Sums = Callable[[RowBlock], tuple[np.ndarray, ...]]


class FeaturesThere:
    """Features of rows on a device: of length one, or their kernel with landmarks."""

    def __init__(self, device: Device, features: Features) -> None:
        self.xp, self.gamma, scaling = device.xp, features.gamma, features.scaling
        parts = (None if part is None else device.put(part) for part in (scaling.shift, scaling.factor))
        self.shift, self.factor = parts
        self.landmarks = self.centre = None
        if features.landmarks is not None:
            self.centre = device.put(kernel_centre(features.landmarks))
            self.landmarks = device.put(features.landmarks) - self.centre

    def __call__(self, rows: Any) -> Any:
        X, xp = self.scaled(rows), self.xp
        if self.landmarks is None:
            return X
        X = X - self.centre
        near = 2 * (X @ self.landmarks.T) - _squares(xp, X)[:, None] - _squares(xp, self.landmarks)
        return xp.exp(xp.clip(near, max=0.0) * self.gamma)

    def scaled(self, rows: Any) -> Any:
        """Rows of length one, as `Scaling` has it; what is shorter than rounding stays as it is."""
        xp = self.xp
        if self.shift is not None:
            rows = (rows - self.shift) * self.factor
            rows = xp.concat([rows, xp.ones_like(rows[:, :1])], axis=1)
        norms = xp.linalg.vector_norm(rows, axis=1)
        short = norms < 10 * float(xp.finfo(rows.dtype).eps)
        return rows / xp.where(short, xp.ones_like(norms), norms)[:, None]


class ImagesThere:
    """Images of rows on a device under a map L, as `Images` has them."""

    def __init__(self, device: Device, images: Images) -> None:
        self.xp, self.features = device.xp, FeaturesThere(device, images.features)
        self.V, self.offset, self.L = (device.put(part) for part in (images.basis.V, images.basis.offset, images.L))

    def rows(self, block: RowBlock) -> Any:
        """F of a block."""
        return self.features(block.rows) @ self.V - self.offset

    def of(self, F: Any) -> tuple[Any, Any]:
        """Directions and lengths of the images of rows F."""
        Z = F @ self.L
        norms = self.xp.clip(self.xp.linalg.vector_norm(Z, axis=1), min=float(self.xp.finfo(Z.dtype).smallest_normal))
        return Z / norms[:, None], norms


def moments(device: Device, task: Moments) -> Sums:
    """Sum of the unit rows, and of their squared lengths, about a row near their mean."""
    features, pivot = FeaturesThere(device, Features(scaling=task.scaling)), device.put(task.pivot, device.wide)

    def sums(block: RowBlock) -> tuple[np.ndarray, ...]:
        X, w = device.xp.astype(features(block.rows), device.wide) - pivot, _weights(device, block, device.wide)
        return to_host(w @ X), np.asarray(float(w @ _squares(device.xp, X)))

    return sums


def feature_sums(device: Device, features: Features, n_classes: int) -> Sums:
    """Gram matrix of the features, and their sum in each class."""
    there = FeaturesThere(device, features)

    def sums(block: RowBlock) -> tuple[np.ndarray, ...]:
        phi = device.xp.astype(there(block.rows), device.wide)
        weighted = phi if block.weights is None else phi * _weights(device, block, device.wide)[:, None]
        return to_host(phi.T @ weighted), device.class_sums(phi, block.codes, block.weights, n_classes)

    return sums


def direction_sums(device: Device, images: Images, n_classes: int) -> Sums:
    """Sum of the images' directions in each class."""
    there = ImagesThere(device, images)

    def sums(block: RowBlock) -> tuple[np.ndarray, ...]:
        z, _ = there.of(there.rows(block))
        return (device.class_sums(z, block.codes, block.weights, n_classes),)

    return sums


def clamp_columns(device: Device, clamp: Clamp) -> Callable[[RowBlock], Gallery]:
    """All rows as columns of a round, on the host."""
    there = ImagesThere(device, clamp.images)

    def columns(block: RowBlock) -> Gallery:
        z, _ = there.of(there.rows(block))
        return clamp.gallery(np.asarray(to_host(z)), block.codes, block.weights)

    return columns


def push(device: Device, clamp: Clamp, columns: tuple[Gallery, ...]) -> Sums:
    """FᵀΔ of a block against some columns; Δ as in `anchoring.moves`."""
    there, target, r = ImagesThere(device, clamp.images), cosine_clamp(clamp.size), clamp.images.L.shape[1]
    brought = [device.columns(part) for part in columns]
    means = None if clamp.means is None else device.put(clamp.means)
    share, xp = float(len(clamp.size) / clamp.size.sum()), device.xp

    def confidence(z: Any, codes: np.ndarray) -> Any:
        if means is None:
            return xp.ones_like(z[:, 0])
        own = xp.take(means, device.indices(codes), axis=0)
        return xp.clip(xp.linalg.vecdot(z, own) / clamp.confidence, min=0.0, max=1.0) ** 2

    def sums(block: RowBlock) -> tuple[np.ndarray, ...]:
        F = there.rows(block)
        z, norms = there.of(F)
        T = sum(device.excess(z, block.codes, part, target) for part in brought)
        wanted = -share * (confidence(z, block.codes)[:, None] * T[:, :r] + T[:, r:])
        wanted = wanted - z * xp.linalg.vecdot(z, wanted)[:, None]
        reach = clamp.q * xp.clip(clamp.q / norms, max=LARGEST_PUSH) * _weights(device, block)
        return (to_host(F.T @ (wanted * reach[:, None])),)

    return sums


def head_sums(device: Device, task: HeadSums) -> Sums:
    """Sum in each class of what a head makes of the images, which come to the host for it."""
    there, scaling = ImagesThere(device, task.images), task.images.features.scaling

    def sums(block: RowBlock) -> tuple[np.ndarray, ...]:
        Z = np.asarray(to_host(there.rows(block) @ there.L))
        z = task.head(Z, lambda: np.asarray(scaling(to_host(block.rows)) - task.mean, dtype=Z.dtype))
        return (class_sums(z, block.codes, block.weights, task.n_classes),)

    return sums


def _squares(xp: Any, X: Any) -> Any:
    """Squared lengths of the rows."""
    return xp.linalg.vecdot(X, X)


def _weights(device: Device, block: RowBlock, dtype: Any = None) -> Any:
    return device.put(np.ones(len(block.codes)) if block.weights is None else block.weights, dtype)
