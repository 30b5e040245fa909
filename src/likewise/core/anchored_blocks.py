"""What a block of rows contributes to an anchored map: sums, since rows on an engine are never all in memory.

The features of a block (unit rows, or their kernel with landmarks) are made anew in each pass and never kept.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from likewise.core import anchored_tensors as tensors
from likewise.core.anchoring import confidence_of, cosine_clamp, directions, moves, reach
from likewise.core.class_sums import class_sums
from likewise.core.device import Device
from likewise.core.engine import Maker, RowBlock, Task
from likewise.core.heads import Head
from likewise.core.kernels import Basis, Features, Scaling
from likewise.core.passes import Gallery, excess
from likewise.core.targets import class_starts
from likewise.core.whitening import add_gram, mirrored

__all__ = ["Clamp", "ClampColumns", "DirectionSums", "FeatureSums", "HeadSums", "Images", "Moments", "Push"]


@dataclass(frozen=True)
class Moments:
    """Sum of the unit rows, and of their squared lengths, about a row near their mean."""

    scaling: Scaling
    pivot: np.ndarray

    def __call__(self, block: RowBlock) -> tuple[np.ndarray, ...]:
        X, w = self.scaling(block.rows) - self.pivot, _weights(block)
        return np.asarray(w @ X), np.array(w @ np.einsum("ij,ij->i", X, X))

    def on(self, device: Device) -> Task:
        return tensors.moments(device, self)


@dataclass(frozen=True)
class FeatureSums:
    """Gram matrix of the features, (q, q), and their sum in each class, (n_classes, q)."""

    features: Features
    n_classes: int
    own_threads: ClassVar[bool] = True  # one q x q sum at a time
    rows: ClassVar[int] = 2048  # whose features are held at a time

    def __call__(self, block: RowBlock) -> tuple[np.ndarray, ...]:
        G, sums = None, None
        for first in range(0, len(block.codes), self.rows):
            part = block.part(slice(first, first + self.rows))
            phi = self.features.of(part.rows)
            G = add_gram(np.zeros((phi.shape[1],) * 2, order="F") if G is None else G, phi, part.weights)
            of_part = class_sums(phi, part.codes, part.weights, self.n_classes)
            sums = of_part if sums is None else sums + of_part
        assert G is not None
        assert sums is not None
        return mirrored(G), sums

    def on(self, device: Device) -> Task:
        return tensors.feature_sums(device, self.features, self.n_classes)


@dataclass(frozen=True)
class Images:
    """Rows to their images z of length one: the features, their eigenbasis, and a map L."""

    features: Features
    basis: Basis
    L: np.ndarray

    def rows(self, block: RowBlock) -> np.ndarray:
        """F of a block."""
        return self.basis.rows(self.features.of(block.rows))

    def of(self, F: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Directions and lengths of the images of rows F."""
        return directions(F @ self.L.astype(F.dtype))


@dataclass(frozen=True)
class DirectionSums:
    """Sum of the images' directions in each class, (n_classes, r)."""

    images: Images
    n_classes: int

    def __call__(self, block: RowBlock) -> tuple[np.ndarray, ...]:
        z, _ = self.images.of(self.images.rows(block))
        return (class_sums(z, block.codes, block.weights, self.n_classes),)

    def on(self, device: Device) -> Task:
        return tensors.direction_sums(device, self.images, self.n_classes)


@dataclass(frozen=True)
class Clamp:
    """One round: images, class means of their directions (None: full confidence), and what the clamp needs."""

    images: Images
    means: np.ndarray | None
    confidence: float
    size: np.ndarray
    q: float

    def confidence_of(self, z: np.ndarray, codes: np.ndarray) -> np.ndarray:
        return np.ones(len(z)) if self.means is None else confidence_of(z, self.means[codes], self.confidence)

    def columns(self, F: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> Gallery:
        """Rows F as columns, each standing for `weights` of them."""
        return self.gallery(self.images.of(F)[0], codes, weights)

    def gallery(self, z: np.ndarray, codes: np.ndarray, weights: np.ndarray | None) -> Gallery:
        """The same from the directions of their images."""
        weights = np.ones(len(codes)) if weights is None else weights
        v = self.confidence_of(z, codes)
        return Gallery(z, class_starts(codes, len(self.size)), weights, z * (weights * v)[:, None])


@dataclass(frozen=True)
class ClampColumns:
    """All rows as columns of a round."""

    clamp: Clamp

    def __call__(self, block: RowBlock) -> Gallery:
        return self.clamp.columns(self.clamp.images.rows(block), block.codes, _weights(block))

    def on(self, device: Device) -> Maker:
        return tensors.clamp_columns(device, self.clamp)


@dataclass(frozen=True)
class Push:
    """FᵀΔ of a block against some columns, (p, r)."""

    clamp: Clamp
    columns: tuple[Gallery, ...] = ()

    def against(self, columns: tuple[Gallery, ...]) -> Push:
        """The same with other columns."""
        return replace(self, columns=columns)

    def __call__(self, block: RowBlock) -> tuple[np.ndarray, ...]:
        clamp = self.clamp
        F = clamp.images.rows(block)
        z, norms = clamp.images.of(F)
        target = cosine_clamp(clamp.size)
        T = sum(excess(z, block.codes, columns, target) for columns in self.columns)
        scale = reach(norms, clamp.q) * _weights(block)
        moved = moves(z, clamp.confidence_of(z, block.codes), np.asarray(T), scale, clamp.size)
        return (F.T @ moved.astype(F.dtype),)

    def on(self, device: Device) -> Task:
        return tensors.push(device, self.clamp, self.columns)


@dataclass(frozen=True)
class HeadSums:
    """Sum in each class of what a head makes of the images, (n_classes, width)."""

    images: Images
    head: Head
    mean: np.ndarray
    n_classes: int

    def __call__(self, block: RowBlock) -> tuple[np.ndarray, ...]:
        F = self.images.rows(block)
        Z = F @ self.images.L.astype(F.dtype)
        z = self.head(Z, lambda: np.asarray(self.images.features.scaling(block.rows) - self.mean, dtype=F.dtype))
        return (class_sums(z, block.codes, block.weights, self.n_classes),)

    def on(self, device: Device) -> Task:
        return tensors.head_sums(device, self)


def _weights(block: RowBlock) -> np.ndarray:
    return np.ones(len(block.codes)) if block.weights is None else block.weights
