"""What every regression gives, its settings, and the head: from images to the rows of length one that are searched."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np
from scipy.special import softmax
from sklearn.utils import gen_batches

from likewise.errors import LikewiseError
from likewise.learn.maths.gate import Gate
from likewise.learn.maths.kernels import BaseMap, Features, Scaling, UnitRows
from likewise.utils.arrays import Array, dense, unit_rows
from likewise.utils.onnx_graph import Graph
from likewise.utils.validation import COUNT, NOT_NEGATIVE, POSITIVE, SHARE, StrOptions

MOST_AT_A_TIME = 4096  # rows whose kernel with all landmarks is held


class Regression(Protocol):
    """Labelled rows in some coordinates, and the maps that can be learned from them."""

    @property
    def unit(self) -> UnitRows: ...

    @property
    def features(self) -> Features: ...

    def encode(self, rows: Array) -> np.ndarray:
        """Unit rows in the coordinates that a map takes."""

    def learn(self, setting: Setting, *, last: bool = False) -> LearnedMap:
        """The map of a setting; the `last` one may overwrite what was prepared."""

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

    L: np.ndarray
    rms: float
    images: Callable[[], np.ndarray]
    class_means: Callable[[OutputHead], np.ndarray]


# -- Settings ---------------------------------------------------------------------------------------------------------

SCALINGS = ("unit", "roots", "standard")
Settings = dict[str, Any]  # plain values by name, as JSON holds them


class Constraint(Protocol):
    """What scikit-learn's `Interval` and `StrOptions` are."""

    def is_satisfied_by(self, value: object) -> bool: ...


SETTINGS: dict[str, Constraint] = {
    "gamma": NOT_NEGATIVE, "ridge": POSITIVE, "geometry": StrOptions({"one-hot", "lda"}), "adaptation": NOT_NEGATIVE,
    "trust": NOT_NEGATIVE, "bias": NOT_NEGATIVE, "temperature": NOT_NEGATIVE, "scaling": StrOptions(set(SCALINGS)),
    "share": SHARE, "shrink": SHARE, "spread": POSITIVE, "power": SHARE,
}  # fmt: skip
SIZES: dict[str, Constraint] = dict.fromkeys(("n_anchors", "raw_width", "whitening_width"), COUNT)  # or None


def checked_settings(settings: Settings | None, names: dict[str, Constraint] = SETTINGS) -> Settings:
    """Settings that are not to be chosen, each of them valid; None leaves one to the search."""
    checked: Settings = {}
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
    """One point of the search; `gamma` is γ in units of 1 / mean squared distance, and 0 is the linear map.

    `share` is that of the learned part in a score, and the others what the base part is: `ShrinkageMap`.
    """

    gamma: float = 0.0
    ridge: float = 0.1
    geometry: str = "one-hot"
    adaptation: float = 0.0
    trust: float = 1.0
    bias: float = 0.0
    temperature: float = 0.0
    scaling: str = "unit"
    share: float = 1.0

    @property
    def bare(self) -> Setting:
        """What the regression needs: settings that differ in their head alone have one map."""
        return Setting(self.gamma, self.ridge, self.geometry, self.adaptation, self.trust)

    @property
    def is_anchored(self) -> bool:
        """Whether it asks for what a kernel at full resolution does not have."""
        return self.adaptation > 0 or self.geometry != "one-hot" or self.trust != 1.0

    def head(self, learned: LearnedMap) -> OutputHead:
        """The head of a map, with lengths and class means of the training images where it needs them."""
        head = OutputHead(learned.rms or 1.0, self.bias) if self.bias else OutputHead()
        if self.temperature:
            head = replace(head, means=learned.class_means(head), temperature=self.temperature)
        return head


# -- From images to the rows that are searched ------------------------------------------------------------------------


@dataclass(frozen=True)
class OutputHead:
    """Images Z to rows of length one, so that an inner product is a cosine.

    `scale` is the RMS length of the training images, and `bias` weighs a constant coordinate: with two classes the
    image is a single number, and the cosine of numbers is only a sign. With class means and a `temperature` τ the row
    becomes √softmax(score / τ), score_k = z·μ_k - ½|μ_k|²: a posterior.
    """

    on_host: ClassVar[bool] = True

    scale: float = 1.0
    bias: float = 0.0
    temperature: float = 0.0
    means: np.ndarray | None = None

    def __call__(self, Z: np.ndarray) -> np.ndarray:
        if self.bias:
            Z = np.hstack([Z, np.full((len(Z), 1), self.bias * self.scale, dtype=Z.dtype)])
        z = unit_rows(Z)
        if self.means is None:
            return np.asarray(z)
        means = self.means.astype(z.dtype)
        scores = z @ means.T - np.einsum("ij,ij->i", means, means) / 2
        return np.asarray(np.sqrt(softmax(scores / z.dtype.type(self.temperature), axis=1)))

    def write_onnx(self, graph: Graph, z: str) -> str:
        """The same in an ONNX graph."""
        if self.bias:
            z = graph.concatenated([z, graph.filled(z, self.bias * self.scale)])
        z = graph.unit(z)
        if self.means is None:
            return z
        means = np.asarray(self.means, np.float64)
        scores = graph.plus(graph.mapped(z, means.T), -np.einsum("ij,ij->i", means, means) / 2)
        return graph.posterior(scores, self.temperature)


def joined(g: float | np.ndarray, learned: np.ndarray, base: np.ndarray) -> np.ndarray:
    """[√g learned, √(1 - g) base]: the inner product is √(g g′) of one cosine plus √((1 - g)(1 - g′)) of the other."""
    g = np.reshape(np.asarray(g, learned.dtype), (-1, 1))
    return np.hstack([np.sqrt(g) * learned, np.sqrt(1 - g) * base])


@dataclass(frozen=True)
class Embedding:
    """Raw rows to what is searched: scaled, reduced, their features mapped and a head on top, next to the base part.

    The `share` of the learned part is constant, or with a `gate` that times the probability of being taught. A
    `rotation` (r, n_components) takes all that to its leading directions, of length one again.
    """

    scaling: Scaling
    reduction: np.ndarray | None
    features: Features
    projection: np.ndarray
    offset: np.ndarray
    head: OutputHead
    base: BaseMap
    share: float
    gate: Gate | None = None
    rotation: np.ndarray | None = None

    def __call__(self, X: Array) -> np.ndarray:
        """The rows of X, some at a time where each has a kernel with many landmarks."""
        if X.dtype == np.float32 and self.projection.dtype != np.float32:
            return self._single(X)
        if X.shape[0] <= MOST_AT_A_TIME or (self.features.is_linear and self.gate is None):
            return self._vectors(X)
        return np.vstack([self._vectors(X[part]) for part in gen_batches(X.shape[0], MOST_AT_A_TIME)])

    @cached_property
    def _single(self) -> Embedding:
        """The same with matrices in single precision: to convert them takes longer than a query."""
        base = BaseMap(self.base.centre.astype(np.float32), self.base.B.astype(np.float32))
        rotation = None if self.rotation is None else self.rotation.astype(np.float32)
        projection, offset = self.projection.astype(np.float32), self.offset.astype(np.float32)
        return replace(self, projection=projection, offset=offset, base=base, rotation=rotation)

    def _vectors(self, X: Array) -> np.ndarray:
        return self.of_unit(self.unit(X))

    def of_unit(self, x: Array) -> np.ndarray:
        """Vectors of unit rows."""
        g = self.share if self.gate is None else self.share * self.gate(x)
        V = joined(g, self.head(self.images(x)), self.base(x))
        return V if self.rotation is None else np.asarray(unit_rows(V @ self.rotation.astype(V.dtype, copy=False)))

    def unit(self, X: Array) -> Array:
        """Rows of length one, reduced."""
        x = self.scaling(X)
        if self.reduction is not None:
            x = unit_rows(np.asarray(dense(x @ self.reduction.T.astype(x.dtype))))
        return x

    def images(self, x: Array) -> np.ndarray:
        """Images of unit rows."""
        return np.asarray(self.features(x) @ self.projection.astype(x.dtype, copy=False)) - self.offset.astype(x.dtype)

    def write_onnx(self, graph: Graph, rows: str) -> str:
        """The same in an ONNX graph."""
        x = self.scaling.write_onnx(graph, rows)
        x = x if self.reduction is None else graph.unit(graph.mapped(x, self.reduction.T))
        z = graph.plus(graph.mapped(self.features.write_onnx(graph, x), self.projection), -self.offset)
        learned, base = self.head.write_onnx(graph, z), self.base.write_onnx(graph, x)
        if self.gate is None:
            parts = [graph.times(learned, self.share**0.5), graph.times(base, (1 - self.share) ** 0.5)]
        else:
            g = graph.times(self.gate.write_onnx(graph, x), self.share)
            pairs = [(learned, g), (base, graph.plus(graph.times(g, -1.0), 1.0))]
            parts = [graph.node("Mul", [part, graph.node("Sqrt", [w])]) for part, w in pairs]
        whole = graph.concatenated(parts)
        return whole if self.rotation is None else graph.unit(graph.mapped(whole, self.rotation))
