"""What every regression gives, its settings, and the head: from images to the rows of length one that are searched."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar, Protocol

import numpy as np
from scipy.special import softmax
from sklearn.utils import gen_batches

from likewise.errors import LikewiseError
from likewise.learn.maths.engine import SavedRounds
from likewise.learn.maths.kernels import Features, Scaling, UnitRows
from likewise.utils.arrays import Array, dense, unit_rows
from likewise.utils.onnx_graph import Graph
from likewise.utils.validation import Interval, Options, StrOptions

MOST_AT_A_TIME = 4096  # rows whose kernel with all landmarks is held


class Regression(Protocol):
    """Labelled rows in some coordinates, and the maps that can be learned from them."""

    @property
    def unit(self) -> UnitRows: ...

    @property
    def features(self) -> Features: ...

    def encode(self, rows: Array) -> np.ndarray:
        """Unit rows in the coordinates that a map takes."""

    def learn(self, setting: Setting, saved: SavedRounds | None = None, *, last: bool = False) -> LearnedMap:
        """The map of a setting; `saved` keeps its rounds, and the `last` one may overwrite what was prepared."""

    def unfolded(self, L: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Projection and offset of the features themselves."""


@dataclass(frozen=True)
class LearnedMap:
    """A map L of the rows that a regression encodes.

    Attributes
    ----------
    rms : RMS length of the training images. images : those of training rows in memory, in label order.
    class_means : the mean over each class of the rows that a head gives.
    """

    regression: Regression
    L: np.ndarray
    rms: float
    images: Callable[[], np.ndarray]
    class_means: Callable[[OutputHead], np.ndarray]


# -- Settings ---------------------------------------------------------------------------------------------------------

SCALINGS = ("unit", "roots", "standard")
_POSITIVE, _NOT_NEGATIVE = Interval(Real, 0, None, closed="neither"), Interval(Real, 0, None, closed="left")
_COUNT = Interval(Integral, 1, None, closed="left")

SETTINGS: dict[str, Any] = {
    "gamma": _NOT_NEGATIVE, "ridge": _POSITIVE, "geometry": StrOptions({"one-hot", "lda"}), "adaptation": _NOT_NEGATIVE,
    "trust": _NOT_NEGATIVE, "input_weight": _NOT_NEGATIVE, "bias": _NOT_NEGATIVE,
    "raw_only": Options(bool, {True, False}), "temperature": _NOT_NEGATIVE, "scaling": StrOptions(set(SCALINGS)),
    "raw_weight": _NOT_NEGATIVE,
}  # fmt: skip
SIZES: dict[str, Any] = {"n_anchors": _COUNT, "raw_width": _COUNT, "whitening_width": _COUNT}  # None is a size too


def checked_settings(settings: dict[str, Any] | None, names: dict[str, Any] = SETTINGS) -> dict[str, Any]:
    """Settings that are not to be chosen, each of them valid; None leaves one to the search."""
    checked: dict[str, Any] = {}
    for name, value in (settings or {}).items():
        constraint = names.get(name, SIZES.get(name))
        if value is None and (name in SIZES or name in names):
            checked |= {name: None} if name in SIZES else {}
        elif constraint is None or not constraint.is_satisfied_by(value):
            expected = str(constraint) if constraint else f"one of {', '.join([*names, *SIZES])}"
            raise LikewiseError(f"settings={{{name!r}: {value!r}}}: expected {expected}")
        else:
            checked[name] = value
    return checked


@dataclass(frozen=True)
class Setting:
    """One point of the search; `gamma` is γ in units of 1 / mean squared distance, and 0 is the linear map."""

    gamma: float = 0.0
    ridge: float = 0.1
    geometry: str = "one-hot"
    adaptation: float = 0.0
    trust: float = 1.0
    input_weight: float = 0.0
    bias: float = 0.0
    raw_only: bool = False
    temperature: float = 0.0
    scaling: str = "unit"
    raw_weight: float = 0.0

    @property
    def bare(self) -> Setting:
        """What the regression needs: settings that differ in their head alone have one map."""
        return Setting(self.gamma, self.ridge, self.geometry, self.adaptation, self.trust)

    @property
    def is_anchored(self) -> bool:
        """Whether it asks for what a kernel at full resolution does not have."""
        return self.adaptation > 0 or self.geometry != "one-hot" or self.trust != 1.0

    def head(self, learned: LearnedMap, directions: np.ndarray | None = None) -> OutputHead:
        """The head of a map, with lengths and class means of the training images where it needs them."""
        bare = OutputHead(raw_only=self.raw_only)
        if self.input_weight or self.bias:
            input_scale = float(learned.regression.unit.rms)
            bare = OutputHead(learned.rms or 1.0, self.input_weight, input_scale, self.bias, self.raw_only)
        if self.temperature:
            bare = replace(bare, means=learned.class_means(bare), temperature=self.temperature)
        return replace(bare, raw_weight=self.raw_weight, directions=directions) if self.raw_weight else bare


# -- From images to the rows that are searched ------------------------------------------------------------------------


@dataclass(frozen=True)
class OutputHead:
    """Images Z to rows of length one, so that an inner product is a cosine.

    `raw_weight` is the weight w of the raw cosine in the score: learned + w raw, divided by 1 + w. It orders what the
    learned part leaves tied, near-duplicates first. `directions` reduce the raw part, (d, p).

    `scale` is the RMS length of the training images; `input_weight` weighs the centred input row appended to the image,
    whose RMS length is `input_scale`, and `bias` a constant coordinate: with two classes the image is a single number,
    and the cosine of numbers is only a sign. `raw_only` leaves the image out: the plain cosine of the centred input.
    With class means and a `temperature` τ the row becomes √softmax(score / τ), score_k = z·μ_k - ½|μ_k|²: a posterior.
    """

    on_host: ClassVar[bool] = True

    scale: float = 1.0
    input_weight: float = 0.0
    input_scale: float = 1.0
    bias: float = 0.0
    raw_only: bool = False
    temperature: float = 0.0
    raw_weight: float = 0.0
    means: np.ndarray | None = None
    directions: np.ndarray | None = None

    def __call__(self, Z: np.ndarray, centred: Callable[[], np.ndarray]) -> np.ndarray:
        """Rows to search by; `centred` gives the centred input rows where they are needed."""
        if self.raw_only:
            return unit_rows(centred())
        parts = [Z]
        if self.input_weight:
            parts.append(centred() * Z.dtype.type(self.input_weight * self.scale / self.input_scale))
        if self.bias:
            parts.append(np.full((len(Z), 1), self.bias * self.scale, dtype=Z.dtype))
        z = unit_rows(np.hstack(parts) if len(parts) > 1 else Z)
        if self.means is not None:
            means = self.means.astype(z.dtype)
            scores = z @ means.T - np.einsum("ij,ij->i", means, means) / 2
            z = np.sqrt(softmax(scores / z.dtype.type(self.temperature), axis=1))
        if not self.raw_weight:
            return z
        x = centred()
        x = x if self.directions is None else x @ self.directions.astype(x.dtype)
        learned, raw = np.sqrt([1 / (1 + self.raw_weight), self.raw_weight / (1 + self.raw_weight)]).astype(z.dtype)
        return np.hstack([z * learned, unit_rows(x) * raw])

    def write_onnx(self, graph: Graph, z: str, centred: Callable[[], str]) -> str:
        """The same in an ONNX graph."""
        if self.raw_only:
            return graph.unit(centred())
        parts = [z]
        if self.input_weight:
            parts.append(graph.times(centred(), self.input_weight * self.scale / self.input_scale))
        if self.bias:
            parts.append(graph.filled(z, self.bias * self.scale))
        z = graph.unit(graph.concatenated(parts))
        if self.means is not None:
            means = np.asarray(self.means, np.float64)
            scores = graph.plus(graph.mapped(z, means.T), -np.einsum("ij,ij->i", means, means) / 2)
            z = graph.posterior(scores, self.temperature)
        if not self.raw_weight:
            return z
        x = centred() if self.directions is None else graph.mapped(centred(), self.directions)
        learned, raw = np.sqrt([1 / (1 + self.raw_weight), self.raw_weight / (1 + self.raw_weight)])
        return graph.concatenated([graph.times(z, learned), graph.times(graph.unit(x), raw)])


@dataclass(frozen=True)
class Embedding:
    """Raw rows to what is searched: scaled, reduced, their features mapped, and the head on top."""

    scaling: Scaling
    reduction: np.ndarray | None
    features: Features
    projection: np.ndarray
    offset: np.ndarray
    centre: np.ndarray
    head: OutputHead

    def __call__(self, X: Array) -> np.ndarray:
        """The rows of X, some at a time where each has a kernel with many landmarks."""
        if self.features.is_linear or X.shape[0] <= MOST_AT_A_TIME:
            return self._mapped(X)
        return np.vstack([self._mapped(X[part]) for part in gen_batches(X.shape[0], MOST_AT_A_TIME)])

    def _mapped(self, X: Array) -> np.ndarray:
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
