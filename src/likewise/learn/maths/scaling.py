"""How rows are brought to length one before a map is learned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from likewise.utils.arrays import dense, like, minus, namespace, unit_rows
from likewise.utils.onnx_graph import Graph


@dataclass(frozen=True)
class Scaling:
    """How rows are brought to length one: as they are, by the signed roots of their columns, or standardised first.

    Roots bring large columns closer to small ones, which counts and histograms want. Standardised columns (`shift`,
    `factor`) are followed by a constant column that weighs as much as all of them together, so that a unit row still
    tells how far from the mean it was, and a linear map of it has a bias.
    """

    shift: Any = None
    factor: Any = None
    roots: bool = False

    @classmethod
    def standard(cls, mean: np.ndarray, variance: np.ndarray) -> Scaling:
        """From the moments of the columns; a column that is constant to float32 precision gets the factor 0."""
        varies = variance > (np.finfo(np.float32).eps * mean) ** 2
        deviation = np.sqrt(np.where(varies, variance, 1.0))
        return cls(mean, np.where(varies, 1 / (deviation * np.sqrt(len(mean))), 0.0))

    @property
    def name(self) -> str:
        return "roots" if self.roots else "unit" if self.shift is None else "standard"

    def __call__(self, X: Any) -> Any:
        """Unit rows; sparse rows stay sparse unless they are standardised."""
        if self.roots:
            return unit_rows(signed_roots(X))
        if self.shift is None:
            return unit_rows(X)
        rows = dense(X)
        rows = minus(rows, like(self.shift, rows)) * like(self.factor, rows)
        return unit_rows(namespace(rows).concat([rows, namespace(rows).ones_like(rows[:, :1])], axis=1))

    def write_onnx(self, graph: Graph, rows: str) -> str:
        """The same in an ONNX graph."""
        if self.roots:
            return graph.unit(graph.signed_roots(rows))
        if self.shift is None:
            return graph.unit(rows)
        standardised = graph.times(graph.plus(rows, -self.shift), self.factor)
        return graph.unit(graph.beside([standardised, graph.filled(rows, 1.0)]))


def signed_roots(X: Any) -> Any:
    """sign(x) √|x| of every entry; sparse rows stay sparse."""
    if sp.issparse(X):
        return X.sign().multiply(abs(X).sqrt()).tocsr()
    xp = namespace(X)
    return xp.sign(X) * xp.sqrt(xp.abs(X))


UNIT = Scaling()


def scaled(scaling: Scaling | None, rows: Any) -> Any:
    """Unit rows; None says that they have been scaled before."""
    return rows if scaling is None else scaling(rows)
