"""The anchored map from rows that are not in memory: everything it takes of them are sums over blocks.

The features of a block (unit rows, or their kernel with landmarks) are made anew in each pass and never kept. One pass
gives their Gram matrix and class sums, and so the eigenbasis and the fixed solution; every round of clamping takes two
more, one for the mean direction of each class and one for the pairs. Settings are chosen on rows drawn by class that
fit in memory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from likewise.anchored import tensors
from likewise.anchored.anchoring import confidence_of, cosine_clamp, directions, moves, reach
from likewise.anchored.choosing import OneWidth, Preparation, TrainingImages
from likewise.anchored.heads import Head
from likewise.anchored.open_world import Member, scatter, scatter_map
from likewise.anchored.scaling import ColumnMoments, Given
from likewise.engines.blocks import class_sums
from likewise.engines.contract import Columns, Engine, Maker, RowBlock, Task
from likewise.engines.device import Device
from likewise.errors import LikewiseError
from likewise.inputs import AS_IT_IS, Basis, Features, Scaling, gram_basis
from likewise.passes import Gallery, excess
from likewise.sketches import draw_landmarks
from likewise.targets import class_starts
from likewise.whitening import add_gram, check_room, mirrored

__all__ = ["EngineData", "EngineFitted"]


# ---------------------------------------------------------------------------------------------------------------------
# What a block contributes


@dataclass(frozen=True)
class Moments:
    """Sum of the unit rows, and of their squared lengths (1, or 0 for a zero row)."""

    scaling: Scaling

    def __call__(self, block: RowBlock) -> tuple[np.ndarray, ...]:
        X, w = self.scaling(block.rows), _weights(block)
        return np.asarray(w @ X), np.array(w @ np.einsum("ij,ij->i", X, X))

    def on(self, device: Device) -> Task:
        return tensors.moments(device, self.scaling)


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


# ---------------------------------------------------------------------------------------------------------------------
# Rows on an engine, in place of `Data`, `LabelledRows` and `Fitted`


class EngineData:
    """Unit rows on an engine, their mean and mean squared distance; rows are numbered in their own order."""

    reduction: ClassVar[None] = None

    def __init__(self, engine: Engine, scaling: Scaling = AS_IT_IS) -> None:
        self.engine, self.n_classes, self.scaling = engine, engine.n_classes, scaling
        total, squares = engine.sum(Moments(self.scaling))
        if not np.isfinite(total).all():
            raise LikewiseError("X contains NaN or infinity: every value must be finite")
        if not squares > 0:
            raise LikewiseError("X holds zeros alone: there is nothing to learn a similarity from")
        self.size = np.bincount(engine.codes, engine.weights, minlength=engine.n_classes).astype(float)
        self.mean = (total / self.size.sum()).astype(engine.dtype)
        centre = total / self.size.sum()
        self.mean_square_distance = float(2 * (squares / self.size.sum() - centre @ centre))

    @property
    def n(self) -> int:
        """Rows."""
        return self.engine.shape[0]

    def scaled(self, name: str) -> EngineData:
        """The same rows under a scaling by name; to standardise them takes one pass."""
        if name == self.scaling.name:
            return self
        if name == "unit":
            return EngineData(self.engine)
        n = self.engine.shape[0]
        moments = ColumnMoments.about(self._at(np.arange(0, n, max(1, n // 100))))
        return EngineData(self.engine, moments.scaling(self.engine.sum(moments), self.size.sum()))

    def sample(self, most: int, rng: np.random.Generator) -> tuple[Given, np.ndarray]:
        """About `most` rows drawn by class, in memory and in their own order, and their numbers; all if no more."""
        engine, n = self.engine, self.engine.shape[0]
        places = np.arange(n) if most >= n else draw_landmarks(engine.codes, engine.n_classes, most, rng)
        places = places[np.argsort(engine.order[places])]
        weights = None if engine.weights is None else engine.weights[places]
        given = Given(self._at(places), engine.codes[places], engine.n_classes, weights, None)
        return given, engine.order[places]

    def prepared(self, prepare: Preparation, width: float) -> EngineFitted:
        """The features of one kernel width in their eigenbasis, with the columns that every row is compared with."""
        rng = np.random.default_rng(prepare.seed)
        features = self._kernel(prepare, width, rng) if width else Features(scaling=self.scaling)
        check_room(self.engine.shape[1] if features.landmarks is None else len(features.landmarks), self.engine.shape)
        G, sums = self.engine.sum(FeatureSums(features, self.n_classes))
        mean = sums.sum(axis=0) / self.size.sum()
        basis = gram_basis(G, mean, float(self.size.sum()), features.metric())
        rows = EngineRows(self, features, basis, sums @ basis.V - np.outer(self.size, basis.offset))
        return EngineFitted(self, features, basis, rows.with_columns(prepare.n_landmarks, rng))

    def map(self, member: Member) -> np.ndarray:
        """The map of one member of the open world's family."""
        check_room(self.engine.shape[1], self.engine.shape)
        G, sums = self.engine.sum(FeatureSums(Features(scaling=self.scaling), self.n_classes))
        there = self.size > 0
        S_w, S_b = scatter(G, sums[there], self.size[there], sums.sum(axis=0) / self.size.sum())
        return scatter_map(S_w, S_b, member)

    def _kernel(self, prepare: Preparation, width: float, rng: np.random.Generator) -> Features:
        numbers = np.sort(rng.permutation(self.engine.shape[0])[: prepare.kernel_size])
        places = np.argsort(self.engine.order)[numbers]  # rows that count, numbered in their own order
        gamma = width / max(self.mean_square_distance, 1e-12)
        return Features(self.scaling(self._at(places)), gamma, self.scaling)

    def _at(self, places: np.ndarray) -> np.ndarray:
        """Rows by their places in label order, in the order given."""
        rows = self.engine.take(places).rows(slice(None))
        return np.asarray(rows)[np.argsort(np.argsort(places, kind="stable"), kind="stable")]


@dataclass(frozen=True)
class EngineRows:
    """Rows F that are made block by block; what `LabelledRows` is in memory.

    `class_totals` are the sums of F in each class; `columns` are the rows of F that every row is compared with, their
    classes and what each stands for, or None for all rows.
    """

    data: EngineData
    features: Features
    basis: Basis
    class_totals: np.ndarray
    columns: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None

    @property
    def g(self) -> np.ndarray:
        return self.basis.g

    @property
    def unit(self) -> float:
        return self.basis.unit

    @property
    def size(self) -> np.ndarray:
        return self.data.size

    @cached_property
    def class_factors(self) -> np.ndarray:
        """FᵀP for P one-hot / √n_c, (p, n_classes)."""
        return self.class_totals.T / np.sqrt(np.maximum(self.size, np.finfo(float).tiny))

    def with_columns(self, n_landmarks: int | None, rng: np.random.Generator) -> EngineRows:
        """The same with `n_landmarks` columns drawn by class, all rows if None."""
        engine = self.data.engine
        if n_landmarks is None:
            return self
        places = np.arange(engine.shape[0])
        if n_landmarks < len(places):
            places = np.sort(draw_landmarks(engine.codes, engine.n_classes, n_landmarks, rng))
        codes = engine.codes[places]
        weights = np.ones(len(places)) if engine.weights is None else engine.weights[places]
        drawn = np.bincount(codes, weights, minlength=engine.n_classes)
        F = self.basis.rows(self.features.of(self.data._at(places)))
        return replace(self, columns=(F, codes, weights * (self.size[codes] / drawn[codes])))

    def images(self, L: np.ndarray) -> Images:
        """The images of the rows under a map."""
        return Images(self.features, self.basis, L)

    def rms(self, L: np.ndarray) -> float:
        """The RMS length of the images: FᵀF is diagonal, so no row has to be seen."""
        return float(np.sqrt(np.sum(self.g[:, None] * L**2) / self.size.sum()))

    def push(self, L: np.ndarray, confidence: float) -> np.ndarray:
        """FᵀΔ, by how much the clamp wants each row's image moved."""
        engine, images, means = self.data.engine, self.images(L), None
        if confidence:
            (sums,) = engine.sum(DirectionSums(images, engine.n_classes))
            means = sums / np.maximum(self.size, np.finfo(float).tiny)[:, None]
        clamp = Clamp(images, means, confidence, self.size, self.rms(L))
        if self.columns is None:
            columns: Columns = engine.columns(ClampColumns(clamp), 4 * L.shape[1])
        else:
            columns = clamp.columns(*self.columns)
        return engine.sum_against(Push(clamp), columns)[0]


class EngineFitted(OneWidth[EngineData, EngineRows]):
    """One width of rows on an engine; what `Fitted` is in memory."""

    def images(self, L: np.ndarray) -> TrainingImages:
        return EngineImages(self.data, self.rows, L)


@dataclass(frozen=True)
class EngineImages:
    """Images of rows under a map, made block by block; what `LabelledImages` is in memory."""

    data: EngineData
    rows: EngineRows
    L: np.ndarray

    @property
    def mean_square_distance(self) -> float:
        return self.data.mean_square_distance

    def rms(self) -> float:
        return self.rows.rms(self.L)

    def class_means(self, head: Head) -> np.ndarray:
        data = self.data
        (sums,) = data.engine.sum(HeadSums(self.rows.images(self.L), head, data.mean, data.n_classes))
        return np.asarray(sums / np.maximum(data.size, np.finfo(float).tiny)[:, None])
