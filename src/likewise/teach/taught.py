"""A model taught by clicks: one more coordinate for each group that was taught, and how examples spread to others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from sklearn.preprocessing import normalize

from likewise.learn.base import SimilarityModel, finite_fit
from likewise.learn.maths.kernels import Features, mean_square_distance
from likewise.learn.maths.labels import sample_rows
from likewise.search.rank import Exact
from likewise.utils.arrays import top_k
from likewise.utils.onnx_graph import Graph


class Taught(SimilarityModel):
    """A base model and taught coordinates f: rows become [z, w f(z)], of unit length where those of the base are.

    z is the gallery side of the base at unit length. f(z) is exp(-γ ‖z - l‖²) A, a kernel with landmarks l and one
    column of A per group, brought closer to zero by a threshold: rows far from every group stay exactly what they were.
    It is positive for rows of the group and negative for rows marked wrong for it. It is made by `Teacher`, not by
    `fit`, and is saved and loaded like any model.

    Attributes
    ----------
    base_ : SimilarityModel
        The model before it was taught.
    landmarks_, gamma_, coefficients_ : the kernel, and A; γ is one number, or one per landmark.
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
    gamma_: Any
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
        model.landmarks_, model.gamma_, model.coefficients_ = features.landmarks, features.gamma, coefficients
        model.centre_, model.cosine_, model.scale_ = centre, bool(cosine), float(scale)
        model.weight_, model.threshold_ = float(weight), float(threshold)
        model.base_, model.n_features_in_ = base, base.n_features_in_
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

    def lifted(self, V: np.ndarray, kernel_part: np.ndarray | None = None) -> np.ndarray:
        """The gallery side from that of the base, so that a gallery is not transformed again."""
        f = self._kernel_part(V) if kernel_part is None else kernel_part
        return self._joined(V, self._beyond(f))

    def _beyond(self, f: np.ndarray) -> np.ndarray:
        return beyond(f, self.weight_, self.threshold_)

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
        return self._joined(V if self.cosine_ else self.base_._query_side(X), self._beyond(self._kernel_part(V)))

    @property
    def knows_classes(self) -> bool:
        """Whether `novelty` is available."""
        return self.base_.knows_classes

    def novelty(self, X: Any) -> np.ndarray:
        """As of the base, but rows of what was taught are known: 0 where a coordinate is that of a group, 1 at half."""
        f = self._kernel_part(self.base_.transform(X)).max(axis=1)
        return np.asarray(np.minimum(self.base_.novelty(X), 2 * (1 - f)))

    @property
    def _n_features_out(self) -> int:
        return len(self.centre_) + self.coefficients_.shape[1]

    def _write_onnx(self, graph: Graph, rows: str) -> tuple[str, str]:
        query, gallery = self.base_._write_onnx(graph, rows)
        z = graph.unit(graph.plus(gallery, -self.centre_))
        f = graph.mapped(graph.kernel(z, self.landmarks_, self.gamma_), self.coefficients_)
        above = graph.node("Relu", [graph.plus(f, -self.threshold_)])
        below = graph.node("Relu", [graph.plus(graph.times(f, -1.0), -self.threshold_)])
        f = graph.times(graph.node("Sub", [above, below]), np.sqrt(self.scale_) * self.weight_ / (1 - self.threshold_))
        query, gallery = graph.concatenated([query, f]), graph.concatenated([gallery, f])
        return (graph.unit(query), graph.unit(gallery)) if self.cosine_ else (query, gallery)


def beyond(f: np.ndarray, weight: float, threshold: float) -> np.ndarray:
    """The part of f beyond the threshold on either side, scaled to the weight at f = 1."""
    t = f.dtype.type(threshold)
    return np.asarray((f - np.clip(f, -t, t)) * f.dtype.type(weight / (1 - threshold)))


# ---------------------------------------------------------------------------------------------------------------------
# What a few examples say about the rest: spread over a graph of neighbours, then regressed in closed form.
#
# The neighbours of each row, the kernel of all rows with some landmarks and its Gram matrix depend only on the gallery
# and are computed once. A lesson is then a few products with a sparse matrix and one solve.

# Measured on held-out digits (20 marks, 30 labels; on a cosine and on a model of 60 labels): results hardly change
# around these values.
DEGREE = 10
SPREAD = 0.9
ROUNDS = 25
LANDMARKS = 500
OWN = 300
WIDTH = 1.5
RIDGE = 0.1
NARROW = 0.1  # the narrow kernel at the nearest neighbour of the median row
_BLOCK = 1 << 23


@dataclass(frozen=True)
class KernelRidge:
    """Ridge regression on a kernel of the rows, ready for any target: features, their values Φ, and a Cholesky.

    Φ = [phi, phi_added]: columns of the fixed landmarks, which all lessons share, and those of a lesson.
    """

    features: Features
    phi: np.ndarray
    phi_added: np.ndarray
    factor: tuple[np.ndarray, bool]

    def coefficients(self, T: np.ndarray) -> np.ndarray:
        """(ΦᵀΦ + λK)⁻¹ Φᵀ T."""
        T = T.astype(self.phi.dtype)
        right = np.vstack([self.phi.T @ T, self.phi_added.T @ T]).astype(float)
        return np.asarray(scipy.linalg.cho_solve(self.factor, right, overwrite_b=True), dtype=np.float32)

    def values(self, A: np.ndarray) -> np.ndarray:
        """Φ A for coefficients A."""
        m = self.phi.shape[1]
        return np.asarray(self.phi @ A[:m] + self.phi_added @ A[m:])


@dataclass(frozen=True)
class GalleryGraph:
    """Unit rows z, their graph of neighbours, and the kernel for regressing on z.

    `narrow` is γ of a kernel that hardly reaches the nearest neighbour of a row.
    """

    z: np.ndarray
    graph: sp.csr_array
    features: Features
    phi: np.ndarray
    gram: np.ndarray
    narrow: float

    def spread(self, Y: np.ndarray) -> np.ndarray:
        """(1 - a)(I - aS)⁻¹ Y, S the normalised graph: label spreading of each column of Y."""
        places: dict[bytes, int] = {}  # lessons that differ in one mark share most columns: each is spread once
        back = [places.setdefault(column.tobytes(), len(places)) for column in Y.T]
        F = Y = Y[:, np.unique(back, return_index=True)[1]].astype(np.float32)
        for _ in range(ROUNDS):
            F = np.float32(SPREAD) * (self.graph @ F) + np.float32(1 - SPREAD) * Y
        return np.asarray(F[:, back])

    def ridge(self, T: np.ndarray) -> KernelRidge:
        """Kernel ridge regression for targets T; the rows where they are largest, equally many
        per column, become landmarks too."""
        assert self.features.landmarks is not None
        each = min(max(1, OWN // T.shape[1]), len(T))
        top = np.argpartition(T.T, len(T) - each, axis=1)[:, len(T) - each :]
        largest = np.unique(top[np.take_along_axis(T.T, top, axis=1) > 0.5])
        added = Features(self.z[largest], self.features.gamma)
        phi_added = added.blockwise(self.z)
        landmarks = np.vstack([self.features.landmarks, added.landmarks])
        factor = scipy.linalg.cho_factor(self._gram(phi_added, added).astype(float), overwrite_a=True)
        return KernelRidge(Features(landmarks, self.features.gamma), self.phi, phi_added, factor)

    def _gram(self, phi_added: np.ndarray, added: Features) -> np.ndarray:
        """ΦᵀΦ + λK for all landmarks; the block of the fixed ones is already computed."""
        m = self.phi.shape[1]
        kernel = np.vstack([added(self.features.landmarks), added(added.landmarks)])
        right = np.vstack([self.phi.T @ phi_added, phi_added.T @ phi_added]) + np.float32(RIDGE) * kernel
        gram = np.block([[self.gram, right[:m]], [right[:m].T, right[m:]]])
        gram[np.diag_indices_from(gram)] += np.float32(1e-4 * np.trace(gram) / len(gram))
        return gram

    def near(self, Z: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """Neighbours of each unit row, none of them on the graph, and their weights, which sum to 1."""
        neighbors = []
        step = max(1, _BLOCK // len(self.z))
        for start in range(0, len(Z), step):
            S = Z[start : start + step].astype(self.z.dtype) @ self.z.T
            rows = top_k(S, DEGREE)
            W = np.maximum(np.take_along_axis(S, rows, axis=1), 1e-6) ** 3
            neighbors += list(zip(rows, W / W.sum(axis=1, keepdims=True), strict=True))
        return neighbors


def build_graph(z: np.ndarray, rng: np.random.Generator) -> GalleryGraph:
    """Compute everything that depends only on unit rows z."""
    z = np.ascontiguousarray(z, dtype=np.float32)
    landmarks = z[sample_rows(len(z), LANDMARKS, rng)]
    features = Features(landmarks, WIDTH / max(mean_square_distance(z, None), 1e-12))
    phi = features(z)
    gram = phi.T @ phi + np.float32(RIDGE) * features(landmarks)
    columns, cosines = _nearest(z)
    return GalleryGraph(z, _graph(columns, cosines), features, phi, gram, _narrow(cosines, float(features.gamma)))


def _nearest(z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The nearest other rows of each row, in any order, and their cosines, both (n, k)."""
    n, k = len(z), min(DEGREE, len(z) - 1)
    columns, cosines = np.empty((n, k), np.int64), np.empty((n, k), np.float32)
    engine, step = Exact(z), max(1, _BLOCK // n)
    for i in range(0, n, step):
        part = z[i : i + step]
        near = engine.candidates(part, k + 1)
        C = np.einsum("nkr,nr->nk", z[near], part)
        C[near == np.arange(i, i + len(part))[:, None]] = -np.inf
        places = np.argsort(-C, axis=1, kind="stable")[:, :k]  # without the row itself, or without the last one
        columns[i : i + step] = np.take_along_axis(near, places, axis=1)
        cosines[i : i + step] = np.take_along_axis(C, places, axis=1)
    return columns, cosines


def _narrow(cosines: np.ndarray, wide: float) -> float:
    """γ of a kernel that is NARROW at the nearest neighbour of the median row; not narrower than 100 times the wide."""
    if not cosines.size:
        return wide
    distance = float(np.median(2 - 2 * cosines.max(axis=1)))
    return float(np.clip(-np.log(NARROW) / max(distance, 1e-12), wide, 100 * wide))


def _graph(columns: np.ndarray, cosines: np.ndarray) -> sp.csr_array:
    """Cubed cosines with the nearest rows, made symmetric and normalised by both degrees."""
    n, k = columns.shape
    values = np.maximum(cosines, 0).ravel() ** 3
    W = sp.csr_array((values, (np.repeat(np.arange(n), k), columns.ravel())), shape=(n, n))
    W = W.maximum(W.T).tocsr()
    degree = 1 / np.sqrt(np.maximum(np.asarray(W.sum(axis=1)).ravel(), 1e-12))
    D = sp.diags_array(degree.astype(np.float32))
    return sp.csr_array(D @ W @ D)


# ---------------------------------------------------------------------------------------------------------------------
# Large galleries: cells of similar rows, so that a lesson looks only at those that it may reach

CENTRES = 1_000  # cells: each is a thousandth of the gallery, and finding them costs a product per row and centre
AROUND = 3  # cells that an example may reach, in addition to those of similar rows
_ASSIGNED = 1 << 16  # rows assigned at a time


@dataclass(frozen=True)
class Partition:
    """Rows by the nearest of some centres: cell i has the rows order[starts[i]:starts[i + 1]]."""

    centres: Exact
    order: np.ndarray
    starts: np.ndarray

    @classmethod
    def of(cls, Z: np.ndarray, directions: Callable[[slice], np.ndarray], n: int) -> Self:
        """Partition of n unit rows, which `directions` gives by ranges; the centres are some of the rows Z."""
        centres = Exact(Z[np.unique(np.linspace(0, len(Z) - 1, CENTRES).astype(int))])
        cell = np.empty(n, np.int32)
        for start in range(0, n, _ASSIGNED):
            part = slice(start, min(n, start + _ASSIGNED))
            cell[part] = centres.candidates(np.ascontiguousarray(directions(part), np.float32), 1)[:, 0]
        starts = np.concatenate([[0], np.cumsum(np.bincount(cell, minlength=len(centres)))])
        return cls(centres, np.argsort(cell, kind="stable").astype(np.int32), starts)

    @classmethod
    def of_lists(cls, index: Any) -> Self:
        """The inverted lists of a faiss index: they are such cells, and need not be found again."""
        import faiss

        lists = index.invlists
        rows = [faiss.rev_swig_ptr(lists.get_ids(i), lists.list_size(i)) for i in range(lists.nlist)]
        starts = np.concatenate([[0], np.cumsum([len(part) for part in rows])])
        return cls(Exact(index.quantizer.reconstruct_n(0, lists.nlist)), np.concatenate(rows).astype(np.int32), starts)

    def around(self, near: np.ndarray, examples: np.ndarray) -> np.ndarray:
        """Rows of the cells of some unit rows, and of the first few cells of examples, in ascending order."""
        cells = [np.empty(0, np.int64)]
        for Z, k in ((near, 1), (examples, min(AROUND, len(self.centres)))):
            if len(Z):
                cells.append(self.centres.candidates(np.ascontiguousarray(Z, np.float32), k).ravel())
        parts = [self.order[self.starts[i] : self.starts[i + 1]] for i in np.unique(np.concatenate(cells))]
        return np.sort(np.concatenate([np.empty(0, np.int32), *parts])).astype(np.int64)
