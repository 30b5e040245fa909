"""Building ONNX graphs from the operations that models are made of."""

from collections.abc import Callable
from typing import Any

import numpy as np

from likewise.errors import optional

OPSET = 17


class Graph:
    """Nodes and constants in the order in which they are made; every method returns the name of its result."""

    def __init__(self, dtype: type = np.float32) -> None:
        from onnx import helper

        self.dtype = dtype
        self.kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def node(self, kind: str, inputs: list[str], name: str | None = None, **attributes: Any) -> str:
        """Any operator of ONNX."""
        from onnx import helper

        name = name or f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    def constant(self, value: Any) -> str:
        """A number or an array, in the precision of the graph; 64-bit integers stay what they are."""
        from onnx import numpy_helper

        name = f"c{len(self.constants)}"
        value = np.asarray(value)
        value = value if value.dtype == np.int64 else value.astype(self.dtype)
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    # -- arithmetic ---------------------------------------------------------------------------------------------------

    def times(self, x: str, value: Any) -> str:
        """x * value."""
        return self.node("Mul", [x, self.constant(value)])

    def plus(self, x: str, value: Any) -> str:
        """x + value."""
        return self.node("Add", [x, self.constant(value)])

    def mapped(self, x: str, matrix: np.ndarray) -> str:
        """x @ matrix."""
        return self.node("MatMul", [x, self.constant(matrix)])

    def squares(self, x: str) -> str:
        """Squared lengths of the rows, (n, 1)."""
        return self.node("ReduceSum", [self.node("Mul", [x, x]), self.constant(np.array([1]))], keepdims=1)

    def unit(self, x: str) -> str:
        """Rows of length 1; a zero row stays zero."""
        length = self.node("Sqrt", [self.squares(x)])
        return self.node("Div", [x, self.node("Max", [length, self.constant(np.finfo(np.float32).tiny)])])

    def signed_roots(self, x: str) -> str:
        """sign(x) √|x| of every entry."""
        return self.node("Mul", [self.node("Sign", [x]), self.node("Sqrt", [self.node("Abs", [x])])])

    def concatenated(self, parts: list[str]) -> str:
        """The parts side by side, as columns of one matrix."""
        return self.node("Concat", parts, axis=1) if len(parts) > 1 else parts[0]

    def filled(self, x: str, value: float) -> str:
        """A column of one value, with as many rows as x."""
        return self.plus(self.times(self.squares(x), 0.0), value)

    # -- what models are made of --------------------------------------------------------------------------------------

    def kernel(self, x: str, landmarks: np.ndarray | None, gamma: float) -> str:
        """exp(-γ ‖x - l‖²) for each landmark l, or x without landmarks."""
        if landmarks is None:
            return x
        centre = landmarks.mean(axis=0)  # in their own precision, as the model computes it
        x, landmarks = self.plus(x, -centre), landmarks - centre
        squares = np.einsum("ij,ij->i", landmarks, landmarks)
        K = self.plus(self.mapped(x, 2 * landmarks.astype(np.float64).T), -squares)
        K = self.node("Min", [self.node("Sub", [K, self.squares(x)]), self.constant(0.0)])
        return self.node("Exp", [self.times(K, gamma)])

    def posterior(self, scores: str, temperature: float) -> str:
        """√softmax(scores / temperature)."""
        return self.node("Sqrt", [self.node("Softmax", [self.times(scores, 1 / temperature)], axis=1)])

    def compared(self, z: str, metric: str) -> tuple[str, str]:
        """The two sides of the cosine, or of minus the squared distance."""
        if metric != "distance":
            return 2 * (self.unit(z),)
        squares = self.squares(z)
        query = self.concatenated([self.times(z, 2.0), self.times(squares, -1.0), self.filled(z, -1.0)])
        return query, self.concatenated([z, self.filled(z, 1.0), squares])


def onnx_file(
    write: Callable[[Graph, str], tuple[str, str]], n_columns: int, dtype: type = np.float32, **metadata: str
) -> bytes:
    """An ONNX file with input `rows` and outputs `query` and `gallery`, all float32.

    `write` adds the two sides to a graph that computes in `dtype`, and returns their names. The names of `metadata` in
    the file begin with "likewise_".
    """
    onnx = optional("onnx", "the ONNX export", "serve")
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    graph = Graph(dtype)
    sides = write(graph, graph.node("Cast", ["rows"], to=graph.kind))
    for name, side in zip(("query", "gallery"), sides, strict=True):
        graph.node("Cast", [side], name, to=kind)
    inputs = [helper.make_tensor_value_info("rows", kind, ("n", n_columns))]
    outputs = [helper.make_tensor_value_info(name, kind, ("n", "r")) for name in ("query", "gallery")]
    described = helper.make_graph(graph.nodes, "likewise", inputs, outputs, graph.constants)
    model = helper.make_model(described, producer_name="likewise", opset_imports=[helper.make_opsetid("", OPSET)])
    model.ir_version = 9
    helper.set_model_props(model, {f"likewise_{name}": value for name, value in metadata.items()})
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())
