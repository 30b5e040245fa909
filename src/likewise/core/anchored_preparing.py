"""Rows made ready for an anchored map: of length one, behind a kernel of one width, in the eigenbasis of features."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from likewise.core.anchoring import (
    AnchoredRows,
    LabelledRows,
    Rounds,
    adapt,
    class_means,
    fixed_target,
    labelled_rows,
)
from likewise.core.heads import Head
from likewise.core.kernels import AS_IT_IS, Basis, Features, Scaling, basis, mean_square_distance

__all__ = ["Data", "Fitted", "OneWidth", "Preparation", "Setting", "TrainingImages"]


@dataclass(frozen=True)
class Setting:
    """One point of the search; `width` is γ in units of 1 / mean squared distance, and 0 is the linear map."""

    width: float = 0.0
    ridge: float = 0.1
    lda: bool = False
    pull: float = 0.0
    confidence: float = 1.0
    input: float = 0.0
    constant: float = 0.0
    raw: bool = False
    temperature: float = 0.0
    scaling: str = "unit"


@dataclass(frozen=True)
class Data:
    """Unit rows with their classes and weights; how they came to be, and the directions they were reduced to."""

    X: Any
    codes: np.ndarray
    n_classes: int
    weights: np.ndarray | None
    scaling: Scaling = AS_IT_IS
    reduction: np.ndarray | None = None

    @property
    def n(self) -> int:
        """Rows."""
        return int(self.X.shape[0])

    def part(self, rows: np.ndarray) -> Data:
        weights = None if self.weights is None else self.weights[rows]
        return replace(self, X=self.X[rows], codes=self.codes[rows], weights=weights)

    def prepared(self, prepare: Preparation, width: float) -> Fitted:
        """The features of one kernel width in their eigenbasis."""
        return prepare(self, width)

    @cached_property
    def mean(self) -> np.ndarray:
        w = np.ones(self.X.shape[0]) if self.weights is None else self.weights
        return np.asarray(w @ self.X / w.sum())

    def centred(self, X: Any) -> np.ndarray:
        """Rows less the mean of this data, dense."""
        return np.asarray((X.toarray() if hasattr(X, "toarray") else X) - self.mean, dtype=X.dtype)


class TrainingImages(Protocol):
    """What a head takes of the training rows under a map; they may be anywhere."""

    @property
    def mean_square_distance(self) -> float:
        """Of the input rows to each other."""

    def rms(self) -> float:
        """The RMS length of the images."""

    def class_means(self, head: Head) -> np.ndarray:
        """The mean in each class of what a head makes of the images."""


SomeData = TypeVar("SomeData")
SomeRows = TypeVar("SomeRows", bound=AnchoredRows)


@dataclass(frozen=True)
class OneWidth(Generic[SomeData, SomeRows]):
    """Rows in the eigenbasis of their features: what all maps of one width have in common."""

    data: SomeData
    features: Features
    basis: Basis
    rows: SomeRows

    def map(self, setting: Setting, saved: Rounds | None = None) -> np.ndarray:
        """The anchored map L of one setting, in the eigenbasis."""
        target = fixed_target(self.rows, setting.ridge, setting.lda)
        return adapt(self.rows, target, setting.ridge, setting.pull, setting.confidence, saved)

    def head(self, L: np.ndarray, setting: Setting) -> Head:
        """The head of a map."""
        return _head_of(self, L, setting)

    def images(self, L: np.ndarray) -> TrainingImages:
        """The training rows under a map."""
        raise NotImplementedError


class Fitted(OneWidth[Data, LabelledRows]):
    """One width of rows in memory."""

    def images(self, L: np.ndarray) -> TrainingImages:
        return LabelledImages(self.data, self.rows, self.rows.images(L))


@dataclass(frozen=True)
class LabelledImages:
    """Images Z of rows in memory, sorted by label as the rows are."""

    data: Data
    rows: LabelledRows
    Z: np.ndarray

    @property
    def mean_square_distance(self) -> float:
        return mean_square_distance(self.data.X, self.data.weights)

    def rms(self) -> float:
        squares = np.einsum("ij,ij->i", self.Z, self.Z, dtype=np.float64)
        return float(np.sqrt(np.average(squares, weights=self.rows.weights)))

    def class_means(self, head: Head) -> np.ndarray:
        order = np.argsort(self.data.codes, kind="stable")
        z = head(self.Z, lambda: self.data.centred(self.data.X[order]))
        return class_means(z, self.rows)


@dataclass(frozen=True)
class Preparation:
    """How rows are brought into their eigenbasis: the number of kernel landmarks and of columns, and a seed."""

    kernel_size: int
    n_landmarks: int | None
    seed: int

    def __call__(self, data: Data, width: float) -> Fitted:
        rng = np.random.default_rng(self.seed)
        features = self._kernel(data, width, rng) if width else Features(scaling=data.scaling)
        phi = features(data.X)
        found = basis(phi, data.weights, features.metric())
        rows = labelled_rows(
            found.rows(phi), found.g, found.unit, data.codes, data.n_classes, data.weights, self.n_landmarks, rng
        )
        return Fitted(data, features, found, rows)

    def _kernel(self, data: Data, width: float, rng: np.random.Generator) -> Features:
        landmarks = data.X[np.sort(rng.permutation(data.X.shape[0])[: self.kernel_size])]
        landmarks = landmarks.toarray() if hasattr(landmarks, "toarray") else np.asarray(landmarks)
        return Features(landmarks, width / max(mean_square_distance(data.X, data.weights), 1e-12), data.scaling)


def _head_of(fitted: OneWidth[Any, Any], L: np.ndarray, setting: Setting) -> Head:
    """The head of a map: lengths and class means of the training images."""
    if not (setting.input or setting.constant or setting.temperature):
        return Head(raw=setting.raw)
    images = fitted.images(L)
    input_scale = float(np.sqrt(max(images.mean_square_distance / 2, 1e-12)))
    head = Head(images.rms() or 1.0, setting.input, input_scale, setting.constant, setting.raw)
    if not setting.temperature:
        return head
    return replace(head, means=images.class_means(head), temperature=setting.temperature)
