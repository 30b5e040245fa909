"""The anchored map from rows on an engine: what `Data`, `Fitted` and `LabelledRows` are for rows in memory.

One pass over all rows gives the Gram matrix of their features and the sums of each class, and so the eigenbasis and the
fixed solution; every round of clamping takes two more, one for the mean direction of each class and one for the pairs.
Settings are chosen on rows drawn by class that fit in memory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from likewise.core.anchored_blocks import (
    Clamp,
    ClampColumns,
    DirectionSums,
    FeatureSums,
    HeadSums,
    Images,
    Moments,
    Push,
)
from likewise.core.anchored_preparing import OneWidth, Preparation, TrainingImages
from likewise.core.engine import Columns, Engine
from likewise.core.heads import Head
from likewise.core.kernels import AS_IT_IS, Basis, Features, Scaling, gram_basis
from likewise.core.sampling import draw_landmarks
from likewise.core.unseen import Member, scatter, scatter_map
from likewise.core.whitening import check_room
from likewise.errors import LikewiseError
from likewise.selection.scaling import ColumnMoments, Given

__all__ = ["EngineData", "EngineFitted"]


class EngineData:
    """Unit rows on an engine, their mean and mean squared distance; rows are numbered in their own order."""

    reduction: ClassVar[None] = None

    def __init__(self, engine: Engine, scaling: Scaling = AS_IT_IS) -> None:
        self.engine, self.n_classes, self.scaling = engine, engine.n_classes, scaling
        pivot = self.scaling(self._some()).mean(axis=0, dtype=np.float64)
        total, squares = engine.sum(Moments(self.scaling, pivot))
        if not np.isfinite(total).all():
            raise LikewiseError("X contains NaN or infinity: every value must be finite")
        if not (squares > 0 or pivot.any()):
            raise LikewiseError("X holds zeros alone: there is nothing to learn a similarity from")
        self.size = np.bincount(engine.codes, engine.weights, minlength=engine.n_classes).astype(float)
        beyond = total / self.size.sum()
        self.mean = (pivot + beyond).astype(engine.dtype)
        self.mean_square_distance = float(2 * (squares / self.size.sum() - beyond @ beyond))

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
        moments = ColumnMoments.about(self._some())
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

    def _some(self) -> np.ndarray:
        """A hundred rows or so, for what is near their mean."""
        n = self.engine.shape[0]
        return self._at(np.arange(0, n, max(1, n // 100)))

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
