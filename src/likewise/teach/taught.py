"""Coordinates of what was taught: a base model's vectors, and next to them one number for each concept."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
import scipy.linalg
from sklearn.preprocessing import normalize

from likewise.learn.base import SimilarityModel, finite_fit
from likewise.learn.maths.kernels import Features
from likewise.teach.scorers import Space
from likewise.utils.onnx_graph import Graph

THRESHOLD = 0.2  # coordinates closer to zero are zero
WEIGHT = 1.0  # of a coordinate relative to a unit row: 1.5 takes more from queries of other concepts
GAMMA = 0.7  # of the kernel exp(-γ ‖u - l‖²)
RIDGE, EXACT = 0.1, 0.01  # of the regression, and where examples are


class ChangedRows(NamedTuple):
    """Rows that a lesson reached, in ascending order, and their coordinates, (m, g)."""

    rows: np.ndarray
    values: np.ndarray


class Taught(SimilarityModel):
    """A base model and taught coordinates f: rows become [z, w f(z)], of unit length where those of the base are.

    z is the gallery side of the base at unit length. f has a column for each concept: exp(-γ ‖u - l‖²) A, a kernel with
    landmarks l that was regressed on the scores of the concept, brought closer to zero by a threshold, so that rows far
    from every concept stay exactly what they were. It is made by `Teacher`, not by `fit`, and is saved like any model.

    Attributes
    ----------
    base_ : SimilarityModel
        The model before it was taught.
    centre_, directions_, spreads_ : the space that concepts are scored in.
    landmarks_, coefficients_ : l and A.
    cosine_ : bool
        Whether the base compares unit rows; the taught model then does too.
    scale_ : float
        The scale of the taught part relative to the base's scores, 1 for a cosine.
    """

    base_: SimilarityModel
    centre_: np.ndarray
    directions_: np.ndarray
    spreads_: np.ndarray
    landmarks_: np.ndarray
    coefficients_: np.ndarray
    scale_: float
    cosine_: bool

    @classmethod
    def of(
        cls,
        base: SimilarityModel,
        space: Space,
        U: np.ndarray,
        F: np.ndarray,
        is_example: np.ndarray,
        *,
        cosine: bool,
        scale: float = 1.0,
    ) -> Self:
        """A taught model from some rows u and their coordinates, (m, g), which examples have nearly exactly."""
        model, K = cls(), Features(U, GAMMA)(U).astype(np.float64)
        K[np.diag_indices_from(K)] += np.where(is_example, EXACT, RIDGE)
        model.landmarks_ = U
        model.coefficients_ = scipy.linalg.solve(K, F, assume_a="pos", overwrite_a=True).astype(np.float32)
        model.centre_, model.directions_, model.spreads_ = space
        model.scale_, model.cosine_ = float(scale), bool(cosine)
        model.base_, model.n_features_in_ = base, base.n_features_in_
        model.calibration_ = base.calibration_  # rows without a coordinate score as before
        if hasattr(base, "classes_"):
            model.classes_ = base.classes_
        return model

    def _check_loaded(self) -> None:
        """As for any model; a lesson, which is saved without its base, is checked once it has one."""
        if hasattr(self, "base_"):
            super()._check_loaded()

    @finite_fit
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

    def learned_from(self, X: Any) -> np.ndarray:
        """Whether the model before any lesson learned from each row of X."""
        return self.base_.learned_from(X)

    def base_part(self, V: np.ndarray) -> np.ndarray:
        """The vectors of the model before any lesson, from those of this one."""
        model: Taught = self
        while isinstance(model.base_, Taught):
            model = model.base_
        V = V[:, : len(model.centre_)]
        return np.asarray(normalize(V)) if model.cosine_ else V

    def coordinates(self, V: np.ndarray) -> np.ndarray:
        """f of the gallery side of the base, (n, g), before the threshold."""
        U = Space(self.centre_, self.directions_, self.spreads_)(V)
        return Features(self.landmarks_, GAMMA).blockwise(U, self.coefficients_)

    def joined(self, V: np.ndarray, f: np.ndarray) -> np.ndarray:
        """[z, w f] from a side of the base and coordinates beyond the threshold."""
        both = np.hstack([V, f * V.dtype.type(WEIGHT * np.sqrt(self.scale_))])
        return normalize(both) if self.cosine_ else both

    def _gallery_side(self, X: Any) -> np.ndarray:
        V = self.base_._gallery_side(X)
        return self.joined(V, beyond(self.coordinates(V)))

    def _query_side(self, X: Any) -> np.ndarray:
        V = self.base_._gallery_side(X)
        return self.joined(V if self.cosine_ else self.base_._query_side(X), beyond(self.coordinates(V)))

    @property
    def knows_classes(self) -> bool:
        """Whether `novelty` is available."""
        return self.base_.knows_classes

    def novelty(self, X: Any) -> np.ndarray:
        """As of the base, but rows of what was taught are known: 0 where a coordinate is that of a group, 1 at half."""
        f = self.coordinates(self.base_.transform(X)).max(axis=1)
        return np.asarray(np.minimum(self.base_.novelty(X), 2 * (1 - f)))

    @property
    def _n_features_out(self) -> int:
        return len(self.centre_) + self.coefficients_.shape[1]

    def _write_onnx(self, graph: Graph, rows: str) -> tuple[str, str]:
        query, gallery = self.base_._write_onnx(graph, rows)
        z = graph.unit(graph.mapped(graph.plus(gallery, -self.centre_), self.directions_))
        u = graph.times(graph.concatenated([z, graph.unit(graph.times(z, 1 / self.spreads_))]), np.sqrt(0.5))
        f = graph.mapped(graph.kernel(u, self.landmarks_, GAMMA), self.coefficients_)
        above = graph.node("Relu", [graph.plus(f, -THRESHOLD)])
        below = graph.node("Relu", [graph.plus(graph.times(f, -1.0), -THRESHOLD)])
        f = graph.times(graph.node("Sub", [above, below]), np.sqrt(self.scale_) * WEIGHT / (1 - THRESHOLD))
        query, gallery = graph.concatenated([query, f]), graph.concatenated([gallery, f])
        return (graph.unit(query), graph.unit(gallery)) if self.cosine_ else (query, gallery)


def beyond(f: np.ndarray) -> np.ndarray:
    """The part of f beyond the threshold on either side, 1 where f is."""
    t = f.dtype.type(THRESHOLD)
    return np.asarray((f - np.clip(f, -t, t)) / (1 - t))
