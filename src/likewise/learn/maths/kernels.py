"""What a map is learned on: rows of length one, or their RBF kernel with landmarks; and the eigenbasis of either."""

from __future__ import annotations

import copy
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, cast

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import DTypeLike
from sklearn.utils import gen_batches

from likewise.errors import LikewiseError
from likewise.learn.maths.engine import Engine, MemoryEngine, RowBlock
from likewise.learn.maths.labels import class_sums, draw_landmarks, sample_rows
from likewise.learn.maths.scatter import (
    EXACT_WIDTH,
    add_gram,
    check_room,
    fixed_signs,
    mirrored,
    reduced_rows,
    weighted_product,
)
from likewise.utils.arrays import Array, dense, is_foreign, like, minus, namespace, to_host, unit_rows, wide
from likewise.utils.onnx_graph import Graph

_CACHED = 1 << 18  # values of a kernel that are computed at a time: 1 MB


# -- How rows are brought to length one --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scaling:
    """How rows are brought to length one: as they are, by the signed roots of their columns, or standardised first.

    Roots bring large columns closer to small ones, which counts and histograms want. Standardised columns (`shift`,
    `factor`) are followed by a constant column that weighs as much as all of them together, so that a unit row still
    says how far from the mean it was, and a linear map of it has a bias.
    """

    shift: Array = None
    factor: Array = None
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

    def __call__(self, X: Array) -> Array:
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
        return graph.unit(graph.concatenated([standardised, graph.filled(rows, 1.0)]))


def signed_roots(X: Array) -> Array:
    """sign(x) √|x| of every entry; sparse rows stay sparse."""
    if sp.issparse(X):
        return X.sign().multiply(abs(X).sqrt()).tocsr()
    xp = namespace(X)
    return xp.sign(X) * xp.sqrt(xp.abs(X))


UNIT = Scaling()


def scaled(scaling: Scaling | None, rows: Array) -> Array:
    """Unit rows; None says that they have been scaled before."""
    return rows if scaling is None else scaling(rows)


# -- The kernel of unit rows with landmarks ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Features:
    """Unit rows themselves (landmarks None), or exp(-γ ‖x - l‖²) for each landmark l."""

    landmarks: Array = None
    gamma: float = 0.0

    @property
    def is_linear(self) -> bool:
        return self.landmarks is None

    def width(self, d: int) -> int:
        """Number of features of rows of d columns."""
        return d if self.landmarks is None else int(self.landmarks.shape[0])

    def __call__(self, X: Array) -> Array:
        """Features of unit rows, (n, q); sparse rows stay sparse where there is no kernel."""
        if self.landmarks is None:
            return X
        if sp.issparse(X):
            if sp.issparse(self.landmarks):  # in double precision, since no centre can be subtracted
                rows, landmarks = wide(X), wide(self.landmarks)
                K = _rbf(dense(rows @ landmarks.T), squared_lengths(rows), squared_lengths(landmarks), self.gamma)
                return np.asarray(K, dtype=X.dtype)
            landmarks = like(self.landmarks, X)
            return _rbf(X @ landmarks.T, squared_lengths(X), squared_lengths(landmarks), self.gamma)
        held = not is_foreign(X) and X.dtype == self.landmarks.dtype
        centre, landmarks, squares = self._about_centre if held else _about_centre(like(self.landmarks, X))
        rows = landmarks if X is self.landmarks else minus(X, centre)  # times its own transpose is half the work
        return _rbf(rows @ landmarks.T, squared_lengths(rows), squares, self.gamma)

    def blockwise(self, X: np.ndarray, A: np.ndarray | None = None) -> np.ndarray:
        """Features of unit rows in memory, or their product with A, in blocks that stay in a core's cache."""
        step = max(1, _CACHED // max(1, self.width(X.shape[1])))
        parts = (self(X[start : start + step]) for start in range(0, len(X), step))
        return np.concatenate([part if A is None else part @ A for part in parts])

    @cached_property
    def _about_centre(self) -> tuple[Array, Array, Array]:
        return _about_centre(self.landmarks)  # once, not for every query

    def metric(self) -> np.ndarray | None:
        """The inner products of the features' coefficients: the landmarks' own kernel matrix (Nyström), or I."""
        if self.landmarks is None:
            return None
        K = np.asarray(self(self.landmarks), dtype=np.float64)
        K[np.diag_indices_from(K)] += 1e-6  # float32 kernels: below this there is only rounding
        return K

    def write_onnx(self, graph: Graph, x: str) -> str:
        """The same in an ONNX graph."""
        return graph.kernel(x, self.landmarks, self.gamma)


def compact(X: Array) -> Array:
    """Rows as an array, but sparse rows of many columns as they are: their inner products are cheap."""
    return X if sp.issparse(X) and X.shape[1] > EXACT_WIDTH else np.asarray(dense(X))


def _about_centre(landmarks: Array) -> tuple[Array, Array, Array]:
    """The mean of dense landmarks, these less their mean, and their squared lengths.

    Where all rows are close together γ is large, and products of whole rows would leave nothing but rounding of their
    distances.
    """
    centre = namespace(landmarks).mean(landmarks, axis=0)
    landmarks = landmarks - centre
    return centre, landmarks, squared_lengths(landmarks)


def _rbf(products: Array, squares: Array, landmark_squares: Array, gamma: float) -> Array:
    """exp(-γ ‖x - l‖²) from the inner products of x and l and their squared lengths; overwrites the products."""
    K = products
    K *= 2
    K -= squares[:, None]
    K -= landmark_squares
    K *= gamma
    if is_foreign(K):
        xp = namespace(K)
        return xp.exp(xp.clip(K, max=0.0))
    return np.exp(np.minimum(K, 0, out=K), out=K)  # in place: these are the largest arrays of a fit


def squared_lengths(X: Array) -> Array:
    """Squared length of each row."""
    if sp.issparse(X):
        return np.asarray(X.multiply(X).sum(axis=1)).ravel()
    return namespace(X).linalg.vecdot(X, X) if is_foreign(X) else np.einsum("ij,ij->i", X, X)


def mean_square_distance(X: Array, weights: np.ndarray | None) -> float:
    """Mean of ‖x_i - x_j‖² over all pairs, no pair visited: 2 (mean ‖x‖² - ‖mean x‖²), about the mean if dense."""
    w = np.ones(X.shape[0]) if weights is None else weights
    mean = np.asarray(w @ X, dtype=np.float64) / w.sum()
    if not sp.issparse(X):
        return float(2 * (w @ squared_lengths(X - mean.astype(X.dtype))) / w.sum())
    return float(2 * (w @ squared_lengths(X) / w.sum() - mean @ mean))


def completed(V: np.ndarray, width: int) -> np.ndarray:
    """Orthonormal columns V and random ones orthogonal to them: few rows do not span what new classes vary in."""
    if V.shape[1] >= width:
        return V
    others = np.random.default_rng(0).standard_normal((len(V), width - V.shape[1])).astype(V.dtype)
    return np.hstack([V, np.linalg.qr(others - V @ (V.T @ others))[0]])


def padded(B: np.ndarray, width: int) -> np.ndarray:
    """B with columns of zeros in place of directions that rows do not vary in."""
    return np.ascontiguousarray(np.pad(B, ((0, 0), (0, width - B.shape[1]))))


@dataclass(frozen=True)
class BaseMap:
    """What a vector has of the row itself: the cosine of (x - centre) B, for classes that were not taught."""

    centre: np.ndarray
    B: np.ndarray

    def __call__(self, X: Array) -> np.ndarray:
        """Unit rows to rows of length one."""
        centre, B = self.centre.astype(X.dtype, copy=False), self.B.astype(X.dtype, copy=False)
        return np.asarray(unit_rows(X @ B - centre @ B if sp.issparse(X) else (X - centre) @ B))

    def write_onnx(self, graph: Graph, x: str) -> str:
        """The same in an ONNX graph."""
        return graph.unit(graph.mapped(graph.plus(x, -self.centre), self.B))


# -- The eigenbasis of the features' Gram matrix -----------------------------------------------------------------------


@dataclass(frozen=True)
class Basis:
    """Eigenvectors V of the centred Gram matrix of some features: F = features V - offset has FᵀF = diag(g).

    `unit` is the mean eigenvalue, the unit of a ridge. With sparse `rows` the eigenvectors are rowsᵀ V, which as an
    array would be as large as dense rows.
    """

    V: Array
    g: np.ndarray
    offset: Array
    unit: float
    rows: Array = None

    def __call__(self, features: Array) -> Array:
        """F, in the precision of the features."""
        if self.rows is not None:  # V is long where g is small: in double precision
            products = dense(wide(features) @ self.rows.T)
            return np.asarray(products @ self.V - self.offset, dtype=features.dtype)
        return features @ like(self.V, features) - like(self.offset, features)

    def astype(self, dtype: DTypeLike) -> Basis:
        """The same for features of another precision."""
        return self if self.rows is not None else replace(self, V=self.V.astype(dtype))

    def unfolded(self, L: np.ndarray) -> np.ndarray:
        """A map of F as a map of the features."""
        return np.asarray(self.V @ L if self.rows is None else self.rows.T @ (self.V @ L))


def dual_basis(features: Array, weights: np.ndarray | None) -> Basis:
    """Eigenbasis of the centred features through their n x n inner products, where rows are fewer than columns."""
    n, q = features.shape
    check_room(n, (n, q))
    w = np.ones(n) if weights is None else weights
    mean = np.asarray(w @ features, dtype=np.float64) / w.sum()
    if sp.issparse(compact(features)):
        return _sparse_dual_basis(wide(features), w, mean)
    rows = (dense(features).astype(np.float64) - mean) * np.sqrt(w)[:, None]
    values, U = scipy.linalg.eigh(rows @ rows.T, driver="evd", overwrite_a=True, check_finite=False)
    g = np.maximum(values[::-1], 0.0)
    return _significant(rows.T @ U[:, ::-1] / np.sqrt(np.maximum(g, np.finfo(float).tiny)), g, mean, q)


def _sparse_dual_basis(rows: Array, w: np.ndarray, mean: np.ndarray) -> Basis:
    """The same from the inner products of sparse rows: V has the coefficients of the rows, whose sums are zero."""
    along, root = rows @ mean, np.sqrt(w)
    G = dense(rows @ rows.T) - along
    G -= (along - mean @ mean)[:, None]
    values, U = scipy.linalg.eigh(G * root * root[:, None], driver="evd", overwrite_a=True, check_finite=False)
    g = np.maximum(values[::-1], 0.0)
    V = root[:, None] * U[:, ::-1] / np.sqrt(np.maximum(g, np.finfo(float).tiny))
    return replace(_significant(V, g, along, rows.shape[1]), rows=rows)


def gram_basis(G: np.ndarray, mean: np.ndarray, total: float, metric: np.ndarray | None) -> Basis:
    """Eigenbasis of the centred features, from their Gram matrix, mean and total weight; with a metric K, VᵀKV = I."""
    A = G - total * np.outer(mean, mean)
    if metric is None:
        values, vectors = scipy.linalg.eigh(A, driver="evd", overwrite_a=True, check_finite=False)
        return _significant(vectors[:, ::-1], values[::-1], mean, len(mean))
    for raised in (0.0, 1e-5, 1e-4, 1e-3):  # for a K made indefinite by rounding
        K = metric + raised * np.eye(len(metric)) if raised else metric
        with suppress(scipy.linalg.LinAlgError):
            values, vectors = scipy.linalg.eigh(A, K, driver="gvd", check_finite=False)
            return _significant(vectors[:, ::-1], values[::-1], mean, 0)
    raise LikewiseError("the kernel of these rows has no Cholesky factor: pass kernel='linear'")


def _significant(V: np.ndarray, g: np.ndarray, mean: np.ndarray, width: int) -> Basis:
    """Drop directions that are rounding; `unit` is the mean over `width` directions, or over those that remain."""
    significant = g > max(g[0], 0.0) * 1e-10
    V, g = V[:, significant], g[significant]
    V = V * fixed_signs(V)  # a checkpoint holds coordinates
    return Basis(V, g, mean @ V, float(g.sum() / max(width or len(g), 1)))


@dataclass(frozen=True)
class FeatureSums:
    """What a block adds to the Gram matrix of the features, (q, q), and to their sum per class, (n_classes, q)."""

    scaling: Scaling | None
    features: Features
    n_classes: int
    own_threads: ClassVar[bool] = True  # one q x q sum at a time
    rows: ClassVar[int] = 2048  # whose features are held at a time

    @property
    def result_bytes(self) -> int:
        return 0 if self.features.is_linear else 8 * self.features.width(0) ** 2

    def __call__(self, block: RowBlock) -> tuple[np.ndarray, ...]:
        G: Array = None
        sums: Array = 0.0
        for part in gen_batches(len(block.codes), self.rows):
            phi = self.features(scaled(self.scaling, block.rows[part, :]))
            weights = None if block.weights is None else block.weights[part]
            if is_foreign(phi):
                product = weighted_product(wide(phi), weights)
                G = product if G is None else G + product
            else:
                G = add_gram(np.zeros((phi.shape[1],) * 2, order="F") if G is None else G, phi, weights)
            sums = sums + class_sums(phi, block.codes[part], weights, self.n_classes)
        return (mirrored(G) if isinstance(G, np.ndarray) else to_host(G)), sums


# -- Labelled rows of length one, wherever they are --------------------------------------------------------------------


class UnitRows:
    """The rows of an engine, brought to length one by a scaling.

    Rows in memory are scaled once, and reduced to their leading directions if they are wide and sparse or if `width`
    says so; other rows are scaled in each pass.

    Attributes
    ----------
    source : the rows as they came.
    engine : where tasks run; `pending` is the scaling they still have to apply, None in memory. While one is pending
        the engine, and always the source, may be any `Engine`.
    scaling, reduction : how raw rows become these: scaled, then projected on (width, d) directions unless None.
    size : weight of each class. mean : of the unit rows. mean_square_distance : over all pairs of them.
    """

    def __init__(self, engine: Engine, scaling: Scaling = UNIT, width: int | None = None) -> None:
        self.source = self.engine = cast(MemoryEngine, engine)
        self.width, self.scaling = width, scaling
        self.directions: tuple[np.ndarray, np.ndarray] | None = None  # leading ones, for the first who needs them
        self.base_maps: dict[bool, BaseMap] = {}  # as they are, and half whitened
        self.reduction, self.pending = None, None
        held = engine.mapped(scaling)
        if held is None:
            self.pending = scaling
        else:
            self.engine = held
            if width is not None or sp.issparse(held.X):
                rows, self.reduction = reduced_rows(held.X, held.row_weights, width)
                self.engine = held if self.reduction is None else held.mapped(lambda _: rows)
        self._measure()

    @property
    def n_classes(self) -> int:
        return self.engine.n_classes

    def _measure(self) -> None:
        """Sizes, mean and mean squared distance, about a row near the mean for the sake of rounding."""
        self.size = self.engine.class_sizes().astype(float)
        some = scaled(self.pending, some_rows(self.engine))
        pivot = None if sp.issparse(some) else some.mean(axis=0, dtype=np.float64)
        total, squares = self.engine.sum(_Moments(self.pending, pivot))
        if not np.isfinite(total).all():
            raise LikewiseError("X contains NaN or infinity: every value must be finite")
        if not (squares > 0 or (pivot is not None and pivot.any())):
            raise LikewiseError("X holds zeros alone: there is nothing to learn a similarity from")
        beyond = total / self.size.sum()
        self.mean = (beyond if pivot is None else pivot + beyond).astype(self.engine.dtype)
        self.mean_square_distance = float(2 * (squares / self.size.sum() - beyond @ beyond))

    def under(self, name: str) -> UnitRows:
        """The same rows under a scaling by its name."""
        if name == self.scaling.name:
            return self
        return UnitRows(self.source, scaling_of(self.source, name), self.width)

    def part(self, rows: np.ndarray) -> UnitRows:
        """Some of the rows, by their numbers; for rows in memory."""
        part = copy.copy(self)
        part.engine, part.directions, part.base_maps = self.engine.select(rows), None, {}
        part._measure()
        return part

    @property
    def rms(self) -> float:
        """RMS length of the rows less their mean."""
        return float(np.sqrt(max(self.mean_square_distance / 2, 1e-12)))

    def gamma(self, gamma: float) -> float:
        """γ of an RBF kernel, from γ in units of 1 / mean squared distance."""
        return gamma / max(self.mean_square_distance, 1e-12)

    def centred(self, rows: Array) -> np.ndarray:
        """Unit rows less their mean here, dense."""
        return np.asarray(dense(rows) - self.mean, dtype=rows.dtype)

    def kernel(self, gamma: float, size: int, rng: np.random.Generator) -> Features:
        """The RBF kernel with `size` of the rows as landmarks, γ in units of 1 / mean squared distance; 0 is linear."""
        if not gamma:
            return Features()
        places = sample_rows(self.engine.shape[0], size, rng)
        landmarks = compact(scaled(self.pending, rows_at(self.engine, places)))
        return Features(landmarks, self.gamma(gamma))


@dataclass(frozen=True)
class _Moments:
    """Sum of the unit rows, and of their squared lengths, about a pivot."""

    scaling: Scaling | None
    pivot: np.ndarray | None

    def __call__(self, block: RowBlock) -> tuple[np.ndarray, ...]:
        X = scaled(self.scaling, block.rows)
        X = wide(X if self.pivot is None else X - like(self.pivot, X))
        w = like(np.ones(len(block.codes)) if block.weights is None else block.weights, X)
        return to_host(w @ X), np.asarray(float(w @ squared_lengths(X)))


@dataclass(frozen=True)
class _ColumnMoments:
    """Sum of the columns, and of their squares, about a pivot."""

    pivot: np.ndarray

    def __call__(self, block: RowBlock) -> tuple[np.ndarray, ...]:
        X = wide(dense(block.rows))
        X = X - like(self.pivot, X)
        w = like(np.ones(len(block.codes)) if block.weights is None else block.weights, X)
        return to_host(w @ X), to_host(w @ X**2)


def scaling_of(engine: Engine, name: str) -> Scaling:
    """The scaling of these rows by its name; "standard" takes one pass for the moments of the columns."""
    if name != "standard":
        return Scaling(roots=name == "roots")
    pivot = some_rows(engine).mean(axis=0, dtype=np.float64)
    total = float(engine.shape[0] if engine.weights is None else engine.weights.sum())
    mean, squares = (part / total for part in engine.sum(_ColumnMoments(pivot)))
    return Scaling.standard(pivot + mean, squares - mean**2)


def some_rows(engine: Engine) -> Array:
    """A hundred rows or so, spread over the classes."""
    n = engine.shape[0]
    return rows_at(engine, np.arange(0, n, max(1, n // 100)))


def rows_at(engine: Engine, places: np.ndarray) -> Array:
    """Rows by their places in label order, in the order given."""
    rows = engine.take(places).rows(slice(None))
    return rows[np.argsort(np.argsort(places, kind="stable"), kind="stable")]


def sample(
    engine: Engine, most: int, rng: np.random.Generator, most_classes: int | None = None
) -> tuple[Array, np.ndarray]:
    """About `most` rows drawn by class, in memory and in label order, and their places in it; all if no more.

    Of more than `most_classes` classes that many are drawn, and renumbered.
    """
    if most_classes is not None and engine.n_classes > most_classes:
        classes = np.sort(rng.permutation(engine.n_classes)[:most_classes])
        places = np.flatnonzero(np.isin(engine.codes, classes))
        codes = np.searchsorted(classes, engine.codes[places])
        if most < len(places):
            chosen = np.sort(draw_landmarks(codes, len(classes), most, rng))
            places, codes = places[chosen], codes[chosen]
        return engine.take(places).relabelled(codes, len(classes)), places
    n = engine.shape[0]
    if most >= n and engine.in_memory and np.array_equal(engine.order, np.arange(len(engine.row_codes))):
        return engine, np.arange(n)
    places = np.arange(n) if most >= n else np.sort(draw_landmarks(engine.codes, engine.n_classes, most, rng))
    return engine.take(places), places
