"""The settings of a map, and its head: from images to the rows of length one that are searched."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.special import softmax
from sklearn.utils import gen_batches

from likewise.learn.maths.kernels import Features
from likewise.learn.maths.scaling import Scaling
from likewise.utils.arrays import dense, unit_rows
from likewise.utils.onnx_graph import Graph

MOST_AT_A_TIME = 4096  # rows whose kernel with all landmarks is held


@dataclass(frozen=True)
class LearnedMap:
    """What a regression learned: a map L of the rows it encodes, features(rows) @ projection - offset as it is kept.

    Attributes
    ----------
    rms : RMS length of the training images. images : those of training rows in memory, in label order.
    class_means : the mean of what a head makes of the images of each class.
    """

    regression: Any
    L: np.ndarray
    rms: float
    images: Callable[[], np.ndarray]
    class_means: Callable[[Head], np.ndarray]

    @property
    def features(self) -> Features:
        return self.regression.features

    @property
    def kept(self) -> tuple[np.ndarray, np.ndarray]:
        """Projection and offset."""
        projection, offset = self.regression.unfolded(self.L)
        return np.ascontiguousarray(projection), offset

    @property
    def input_scale(self) -> float:
        """RMS length of the centred training rows."""
        return float(self.regression.unit.rms)


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
    beside: float = 0.0

    def head(self, learned: LearnedMap, directions: np.ndarray | None = None) -> Head:
        """The head of a map, with lengths and class means of the training images where it needs them."""
        bare = Head(raw=self.raw)
        if self.input or self.constant:
            bare = Head(learned.rms or 1.0, self.input, learned.input_scale, self.constant, self.raw)
        if self.temperature:
            bare = replace(bare, means=learned.class_means(bare), temperature=self.temperature)
        return replace(bare, beside=self.beside, directions=directions) if self.beside else bare


@dataclass(frozen=True)
class Head:
    """Images Z to rows of length one, so that an inner product is a cosine.

    `beside` is the weight w of the raw cosine in the score: learned + w raw, divided by 1 + w. It orders what the
    learned part leaves tied, near-duplicates first. `directions` reduce the raw part, (d, p).

    `scale` is the RMS length of the training images; `input` weighs the centred input row appended to the image, whose
    RMS length is `input_scale`, and `constant` a constant coordinate: with two classes the image is a single number,
    and the cosine of numbers is only a sign. `raw` leaves the image out: the plain cosine of the centred input. With
    class means and a `temperature` τ the row becomes √softmax(score / τ), score_k = z·μ_k - ½|μ_k|²: a posterior.
    """

    on_host: ClassVar[bool] = True

    scale: float = 1.0
    input: float = 0.0
    input_scale: float = 1.0
    constant: float = 0.0
    raw: bool = False
    temperature: float = 0.0
    beside: float = 0.0
    means: np.ndarray | None = None
    directions: np.ndarray | None = None

    def __call__(self, Z: np.ndarray, centred: Callable[[], np.ndarray]) -> np.ndarray:
        """Rows to search by; `centred` gives the centred input rows where they are needed."""
        if self.raw:
            return unit_rows(centred())
        parts = [Z]
        if self.input:
            parts.append(centred() * Z.dtype.type(self.input * self.scale / self.input_scale))
        if self.constant:
            parts.append(np.full((len(Z), 1), self.constant * self.scale, dtype=Z.dtype))
        z = unit_rows(np.hstack(parts) if len(parts) > 1 else Z)
        z = z if self.means is None else self._posterior(z)
        return self._with_raw(z, centred()) if self.beside else z

    def _posterior(self, z: np.ndarray) -> np.ndarray:
        means = np.asarray(self.means, dtype=z.dtype)
        scores = z @ means.T - np.einsum("ij,ij->i", means, means) / 2
        return np.sqrt(softmax(scores / z.dtype.type(self.temperature), axis=1))

    def _with_raw(self, z: np.ndarray, x: np.ndarray) -> np.ndarray:
        x = x if self.directions is None else x @ self.directions.astype(x.dtype)
        learned, raw = np.sqrt([1 / (1 + self.beside), self.beside / (1 + self.beside)]).astype(z.dtype)
        return np.hstack([z * learned, unit_rows(x) * raw])

    def write_onnx(self, graph: Graph, z: str, centred: Callable[[], str]) -> str:
        """The same in an ONNX graph."""
        if self.raw:
            return graph.unit(centred())
        parts = [z]
        if self.input:
            parts.append(graph.times(centred(), self.input * self.scale / self.input_scale))
        if self.constant:
            parts.append(graph.filled(z, self.constant * self.scale))
        z = graph.unit(graph.beside(parts))
        if self.means is not None:
            means = np.asarray(self.means, np.float64)
            scores = graph.plus(graph.mapped(z, means.T), -np.einsum("ij,ij->i", means, means) / 2)
            z = graph.posterior(scores, self.temperature)
        if not self.beside:
            return z
        x = centred() if self.directions is None else graph.mapped(centred(), self.directions)
        learned, raw = np.sqrt([1 / (1 + self.beside), self.beside / (1 + self.beside)])
        return graph.beside([graph.times(z, learned), graph.times(graph.unit(x), raw)])


@dataclass(frozen=True)
class MappedSide:
    """Raw rows to what is searched: scaled, reduced, their features mapped, and the head on top."""

    scaling: Scaling
    reduction: np.ndarray | None
    features: Features
    projection: np.ndarray
    offset: np.ndarray
    centre: Any
    head: Head

    def __call__(self, X: Any) -> np.ndarray:
        """The rows of X, some at a time where each has a kernel with many landmarks."""
        if self.features.is_linear or X.shape[0] <= MOST_AT_A_TIME:
            return self._mapped(X)
        return np.vstack([self._mapped(X[part]) for part in gen_batches(X.shape[0], MOST_AT_A_TIME)])

    def _mapped(self, X: Any) -> np.ndarray:
        X = self.scaling(X)
        if self.reduction is not None:
            X = unit_rows(np.asarray(dense(X @ self.reduction.T.astype(X.dtype))))
        Z = np.asarray(self.features(X) @ self.projection.astype(X.dtype)) - self.offset.astype(X.dtype)
        return self.head(Z, lambda: np.asarray(dense(X) - self.centre, dtype=X.dtype))

    def write_onnx(self, graph: Graph, rows: str) -> str:
        """The same in an ONNX graph."""
        x = self.scaling.write_onnx(graph, rows)
        x = x if self.reduction is None else graph.unit(graph.mapped(x, self.reduction.T))
        features = self.features.write_onnx(graph, x)
        z = graph.plus(graph.mapped(features, self.projection), -self.offset)
        return self.head.write_onnx(graph, z, lambda: graph.plus(x, -np.asarray(self.centre)))
