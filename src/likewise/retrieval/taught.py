"""A model taught by clicks: the base model, and one more coordinate for each group that was taught."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.preprocessing import normalize

from likewise.base import SimilarityModel
from likewise.core.kernels import Features
from likewise.utils.onnx_graph import Graph

__all__ = ["Taught"]


class Taught(SimilarityModel):
    """A base model and taught coordinates f: rows become [z, w f(z)], of unit length where those of the base are.

    z is the gallery side of the base at unit length. f(z) is exp(-γ ‖z - l‖²) A, a kernel with landmarks l and one
    column of A per group, minus a threshold: rows far from every group stay exactly what they were. It is made by
    `Teacher`, not by `fit`, and is saved and loaded like any model.

    Attributes
    ----------
    base_ : SimilarityModel
        The model before it was taught.
    landmarks_, gamma_, coefficients_ : the kernel, and A.
    centre_ : subtracted from the gallery side of the base before it is scaled to unit length.
    cosine_ : bool
        Whether the base compares unit rows; the taught model then does too.
    weight_, threshold_ : float
        w, and the threshold.
    scale_ : float
        Scale of the taught part relative to the base's scores; 1 for a cosine.
    """

    base_: SimilarityModel
    landmarks_: np.ndarray
    coefficients_: np.ndarray
    centre_: np.ndarray
    gamma_: float
    scale_: float
    weight_: float
    threshold_: float
    cosine_: bool

    @classmethod
    def of(
        cls,
        base: SimilarityModel,
        features: Features,
        coefficients: np.ndarray,
        centre: np.ndarray,
        *,
        weight: float,
        threshold: float,
        cosine: bool,
        scale: float = 1.0,
    ) -> Self:
        """A taught model from its parts; `base` is shared, not copied."""
        model = cls()
        assert features.landmarks is not None
        model.landmarks_, model.gamma_, model.coefficients_ = features.landmarks, float(features.gamma), coefficients
        model.centre_, model.cosine_, model.scale_ = centre, bool(cosine), float(scale)
        model.weight_, model.threshold_ = float(weight), float(threshold)
        model.base_, model.n_features_in_ = base, base.n_features_in_
        if hasattr(base, "classes_"):
            model.classes_ = base.classes_
        return model

    def fit(self, X: Any, y: Any = None) -> Self:
        """Not supported: a taught model comes from `Teacher.learn()`."""
        raise NotImplementedError("Taught is made by Teacher.learn(), not by fit")

    @property
    def base(self) -> SimilarityModel:
        """The model before it was taught."""
        return self.base_

    @property
    def symmetric(self) -> bool:
        """Whether the query side of a row equals its gallery side."""
        return self.cosine_ or self.base_.symmetric

    def lifted(self, V: np.ndarray, kernel_part: np.ndarray | None = None) -> np.ndarray:
        """The gallery side from that of the base, so that a gallery is not transformed again."""
        f = self._kernel_part(V) if kernel_part is None else kernel_part
        return self._joined(V, self._above(f))

    def _above(self, f: np.ndarray) -> np.ndarray:
        """The part of f above the threshold, scaled to the weight at f = 1."""
        t = f.dtype.type(self.threshold_)
        return np.maximum(f - t, 0) * f.dtype.type(self.weight_ / (1 - self.threshold_))

    def _kernel_part(self, V: np.ndarray) -> np.ndarray:
        z = normalize(V - self.centre_.astype(V.dtype, copy=False))
        features = Features(self.landmarks_.astype(z.dtype, copy=False), self.gamma_)(z)
        return np.asarray(features @ self.coefficients_.astype(z.dtype, copy=False))

    def _joined(self, V: np.ndarray, f: np.ndarray) -> np.ndarray:
        joined = np.hstack([V, f * V.dtype.type(np.sqrt(self.scale_))])
        return normalize(joined) if self.cosine_ else joined

    def _gallery_side(self, X: Any) -> np.ndarray:
        return self.lifted(self.base_._gallery_side(X))

    def _query_side(self, X: Any) -> np.ndarray:
        V = self.base_._gallery_side(X)
        return self._joined(V if self.cosine_ else self.base_._query_side(X), self._above(self._kernel_part(V)))

    @property
    def _n_features_out(self) -> int:
        return len(self.centre_) + self.coefficients_.shape[1]

    def _write_onnx(self, graph: Graph, rows: str) -> tuple[str, str]:
        query, gallery = self.base_._write_onnx(graph, rows)
        z = graph.unit(graph.plus(gallery, -self.centre_))
        f = graph.mapped(graph.kernel(z, self.landmarks_, self.gamma_), self.coefficients_)
        f = graph.node("Relu", [graph.plus(f, -self.threshold_)])
        f = graph.times(f, np.sqrt(self.scale_) * self.weight_ / (1 - self.threshold_))
        query, gallery = graph.beside([query, f]), graph.beside([gallery, f])
        return (graph.unit(query), graph.unit(gallery)) if self.cosine_ else (query, gallery)
