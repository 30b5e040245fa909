"""A model's two sides as one ONNX graph: rows in, `query` and `gallery` out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from likewise.anchored import AnchoredSLR
from likewise.base import SimilarityModel
from likewise.baselines import (
    OASIS,
    Cosine,
    Euclid,
    Kernelised,
    LDAPosterior,
    LogisticPosterior,
    SVMPosterior,
    WithInput,
)
from likewise.baselines.common import LinearBaseline
from likewise.core.heads import Head
from likewise.errors import LikewiseError, MissingExtraError
from likewise.retrieval.taught import Taught
from likewise.slr import SLR

__all__ = ["onnx_graph"]

OPSET = 17
Sides = tuple[str, str]


def onnx_graph(model: SimilarityModel) -> bytes:
    """The ONNX file: input `rows` (n, d), outputs `query` and `gallery` (n, r), all float32."""
    try:
        from onnx import TensorProto, checker, helper
    except ImportError as error:
        raise MissingExtraError("the ONNX export", "serve") from error
    # Kernel features nearly depend on each other, so that their coefficients are large and cancel: float32 would keep
    # three or four digits of the result.
    graph = Graph(np.float64 if getattr(model, "landmarks_", None) is not None else np.float32)
    sides = graph.sides(graph.node("Cast", ["rows"], to=graph.kind), model)
    for name, side in zip(("query", "gallery"), sides, strict=True):
        graph.node("Cast", [side], name, to=TensorProto.FLOAT)
    shape = ("n", int(model.n_features_in_))
    described = helper.make_graph(
        graph.nodes,
        "likewise",
        [helper.make_tensor_value_info("rows", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ("n", "r")) for name in ("query", "gallery")],
        graph.constants,
    )
    made = helper.make_model(described, producer_name="likewise", opset_imports=[helper.make_opsetid("", OPSET)])
    made.ir_version = 9
    checker.check_model(made)
    return bytes(made.SerializeToString())


class Graph:
    """Nodes and constants in the order in which they are made; every method returns the name of its result."""

    def __init__(self, dtype: type = np.float32) -> None:
        from onnx import helper

        self.dtype = dtype
        self.kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def sides(self, x: str, model: SimilarityModel) -> Sides:
        """Query and gallery side of the rows x."""
        for kind, write in _WRITERS.items():
            if isinstance(model, kind):
                return write(self, x, model)
        raise LikewiseError(f"{type(model).__name__} cannot be written as an ONNX graph: its sides are not known to it")

    def node(self, kind: str, inputs: list[str], name: str | None = None, **attributes: Any) -> str:
        from onnx import helper

        name = name or f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    def constant(self, value: Any) -> str:
        from onnx import numpy_helper

        name = f"c{len(self.constants)}"
        value = np.asarray(value)
        value = value if value.dtype == np.int64 else value.astype(self.dtype)
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    # -- arithmetic ---------------------------------------------------------------------------------------------------

    def times(self, x: str, value: Any) -> str:
        return self.node("Mul", [x, self.constant(value)])

    def plus(self, x: str, value: Any) -> str:
        return self.node("Add", [x, self.constant(value)])

    def mapped(self, x: str, matrix: np.ndarray) -> str:
        """x @ matrix."""
        return self.node("MatMul", [x, self.constant(matrix)])

    def squares(self, x: str) -> str:
        """Sums of squares of the rows, (n, 1)."""
        return self.node("ReduceSum", [self.node("Mul", [x, x]), self.constant(np.array([1]))], keepdims=1)

    def unit(self, x: str) -> str:
        """Rows at length 1; a zero row stays zero."""
        length = self.node("Sqrt", [self.squares(x)])
        return self.node("Div", [x, self.node("Max", [length, self.constant(np.finfo(np.float32).tiny)])])

    def beside(self, parts: list[str]) -> str:
        return self.node("Concat", parts, axis=1) if len(parts) > 1 else parts[0]

    def filled(self, x: str, value: float) -> str:
        """A column of one value, as long as x."""
        return self.plus(self.times(self.squares(x), 0.0), value)

    # -- what models are made of --------------------------------------------------------------------------------------

    def kernel(self, x: str, landmarks: np.ndarray | None, gamma: float) -> str:
        """exp(-γ ‖x - l‖²), or x where there is no kernel."""
        if landmarks is None:
            return x
        centre = landmarks.mean(axis=0)  # in their own precision, as the model has them
        x, landmarks = self.plus(x, -centre), landmarks - centre
        squares = np.einsum("ij,ij->i", landmarks, landmarks)
        K = self.plus(self.mapped(x, 2 * landmarks.astype(np.float64).T), -squares)
        K = self.node("Min", [self.node("Sub", [K, self.squares(x)]), self.constant(0.0)])
        return self.node("Exp", [self.times(K, gamma)])

    def posterior(self, scores: str, temperature: float) -> str:
        return self.node("Sqrt", [self.node("Softmax", [self.times(scores, 1 / temperature)], axis=1)])

    def compared(self, z: str, metric: str) -> Sides:
        """The two sides of a cosine, or of minus the squared distance."""
        if metric != "distance":
            z = self.unit(z)
            return z, z
        squares = self.squares(z)
        query = self.beside([self.times(z, 2.0), self.times(squares, -1.0), self.filled(z, -1.0)])
        return query, self.beside([z, self.filled(z, 1.0), squares])

    def head(self, z: str, centred: Callable[[], str], head: Head) -> str:
        if head.raw:
            return self.unit(centred())
        parts = [z]
        if head.input:
            parts.append(self.times(centred(), head.input * head.scale / head.input_scale))
        if head.constant:
            parts.append(self.filled(z, head.constant * head.scale))
        z = self.unit(self.beside(parts))
        if head.means is None:
            return z
        mu = np.asarray(head.means, np.float64)
        return self.posterior(self.plus(self.mapped(z, mu.T), -np.einsum("ij,ij->i", mu, mu) / 2), head.temperature)


def _slr(g: Graph, x: str, model: SLR) -> Sides:
    if model.query_components_.shape[1] != model.components_.shape[1]:
        widths = f"{model.query_components_.shape[1]} and {model.components_.shape[1]}"
        raise LikewiseError(f"SLR compares rows of widths {widths}, which an ONNX graph with one input cannot take")
    x = g.unit(x) if getattr(model, "unit_rows_", False) else x
    return g.mapped(x, model.query_components_.T), g.mapped(x, model.components_.T)


def _anchored(g: Graph, x: str, model: AnchoredSLR) -> Sides:
    if model.shift_ is not None:
        x = g.beside([g.times(g.plus(x, -model.shift_), model.factor_), g.filled(x, 1.0)])
    x = g.unit(x)
    x = x if model.reduction_ is None else g.unit(g.mapped(x, model.reduction_.T))
    z = g.plus(g.mapped(g.kernel(x, model.landmarks_, model.gamma_), model.projection_), -model.offset_)
    head = Head(**model.head_, means=model.class_means_)
    side = g.head(z, lambda: g.plus(x, -np.asarray(model.centre_)), head)
    return side, side


def _cosine(g: Graph, x: str, model: Cosine) -> Sides:
    return g.compared(g.plus(x, -model.mean_) if model.centre else x, "cosine")


def _euclid(g: Graph, x: str, model: Euclid) -> Sides:
    return g.compared(g.plus(x, -model.mean_), "distance")


def _linear(g: Graph, x: str, model: LinearBaseline) -> Sides:
    x = g.unit(x) if model.normalize else x
    return g.compared(g.plus(g.mapped(x, model.components_.T), -model.offset_), model.metric_)


def _logistic(g: Graph, x: str, model: LogisticPosterior) -> Sides:
    x = g.unit(x) if model.normalize else x
    offset = model.intercept_ - model.components_ @ model.mean_
    side = g.posterior(g.plus(g.mapped(x, model.components_.T), offset), model.temperature_)
    return side, side


def _lda_posterior(g: Graph, x: str, model: LDAPosterior) -> Sides:
    x = g.unit(x) if model.normalize else x
    side = g.posterior(g.plus(g.mapped(x, model.components_.T), model.intercept_), model.temperature_)
    return side, side


def _svm(g: Graph, x: str, model: SVMPosterior) -> Sides:
    features = g.kernel(g.unit(x), model.landmarks_, model.gamma_)
    side = g.posterior(g.plus(g.mapped(features, model.components_.T), model.intercept_), model.temperature_)
    return side, side


def _with_input(g: Graph, x: str, model: WithInput) -> Sides:
    x = g.unit(x)
    image = g.unit(g.plus(g.mapped(x, model.components_.T), -model.offset_))
    row = g.unit(g.plus(x, -model.mean_))
    side = g.beside([g.times(image, np.sqrt(1 - model.weight_)), g.times(row, np.sqrt(model.weight_))])
    return side, side


def _kernelised(g: Graph, x: str, model: Kernelised) -> Sides:
    features = g.kernel(g.unit(x), model.landmarks_, model.gamma_)
    return g.sides(g.mapped(features, model.whitener_), model._fitted())


def _oasis(g: Graph, x: str, model: OASIS) -> Sides:
    x = g.unit(x) if model.normalize else x
    return g.mapped(x, model.W_), x


def _taught(g: Graph, x: str, model: Taught) -> Sides:
    query, gallery = g.sides(x, model.base)
    z = g.unit(g.plus(gallery, -model.centre_))
    f = g.mapped(g.kernel(z, model.landmarks_, model.gamma_), model.coefficients_)
    f = g.node("Relu", [g.plus(f, -model.threshold_)])
    f = g.times(f, np.sqrt(model.scale_) * model.weight_ / (1 - model.threshold_))
    sides = [g.beside([side, f]) for side in (query, gallery)]
    return (g.unit(sides[0]), g.unit(sides[1])) if model.cosine_ else (sides[0], sides[1])


_WRITERS: dict[type, Callable[[Graph, str, Any], Sides]] = {
    SLR: _slr,
    AnchoredSLR: _anchored,
    Taught: _taught,
    Cosine: _cosine,
    Euclid: _euclid,
    OASIS: _oasis,
    Kernelised: _kernelised,
    LogisticPosterior: _logistic,
    LDAPosterior: _lda_posterior,
    SVMPosterior: _svm,
    WithInput: _with_input,
    LinearBaseline: _linear,
}
