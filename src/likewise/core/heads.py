"""From the images of an anchored map to what is searched: a cosine, or the square root of a posterior."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import softmax

from likewise.utils.onnx_graph import Graph

__all__ = ["Head", "unit"]


@dataclass(frozen=True)
class Head:
    """Images Z to rows of length one, so that an inner product is a cosine.

    Attributes
    ----------
    scale : RMS length of the training images.
    input, input_scale : weight of the centred input row appended to the image, and its RMS length; with two classes
        the image is a single number, and the cosine of numbers is only a sign.
    constant : a constant coordinate appended for the same reason.
    raw : True leaves the image out: the plain cosine of the centred input.
    means, temperature : class means of the training images and τ: the row becomes √softmax(score / τ) with
        score_k = z·μ_k - ½|μ_k|², the closed world's posterior; None is the cosine.
    """

    on_host: ClassVar[bool] = True

    scale: float = 1.0
    input: float = 0.0
    input_scale: float = 1.0
    constant: float = 0.0
    raw: bool = False
    means: np.ndarray | None = None
    temperature: float = 0.0

    def __call__(self, Z: np.ndarray, centred: Callable[[], np.ndarray]) -> np.ndarray:
        """Rows to search by; `centred` gives the centred input rows where they are needed."""
        if self.raw:
            return unit(centred())
        parts = [Z]
        if self.input:
            parts.append(centred() * Z.dtype.type(self.input * self.scale / self.input_scale))
        if self.constant:
            parts.append(np.full((len(Z), 1), self.constant * self.scale, dtype=Z.dtype))
        z = unit(np.hstack(parts) if len(parts) > 1 else Z)
        return z if self.means is None else self._posterior(z)

    def _posterior(self, z: np.ndarray) -> np.ndarray:
        means = np.asarray(self.means, dtype=z.dtype)
        scores = z @ means.T - np.einsum("ij,ij->i", means, means) / 2
        return np.sqrt(softmax(scores / z.dtype.type(self.temperature), axis=1))

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
        if self.means is None:
            return z
        means = np.asarray(self.means, np.float64)
        scores = graph.plus(graph.mapped(z, means.T), -np.einsum("ij,ij->i", means, means) / 2)
        return graph.posterior(scores, self.temperature)


def unit(Z: np.ndarray) -> np.ndarray:
    """Rows divided by their length; a zero row stays zero."""
    return Z / np.maximum(np.linalg.norm(Z, axis=1, keepdims=True), np.finfo(Z.dtype).tiny)
