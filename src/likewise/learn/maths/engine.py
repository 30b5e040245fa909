"""Labelled rows, and the few sums over them that the solvers ask for: what an engine is, and the one in memory.

A pass broadcasts the current factors and the columns of the pass (landmarks, or the projected gallery in blocks), maps
over blocks of rows and sums d x r in float64. Nothing of size n x n is ever held; where the rows live is up to the
engine. "Label order" is the order of the rows after a stable sort by label: places in it mean the same on
every engine, whatever the order in which an engine visits its rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, NamedTuple, Protocol, Self, TypeVar

import numpy as np
import scipy.sparse as sp

from likewise.errors import LikewiseError
from likewise.learn.maths.labels import LabelTarget, class_starts, class_sums
from likewise.learn.maths.passes import MOST_MIRRORED, BlockSums, PassColumns, Swept, symmetric_deviation
from likewise.learn.maths.scatter import (
    WhiteningMap,
    check_room,
    gram,
    truncated_whitening,
    weighted_product,
    whiten,
    whiten_gram,
    width_for,
)
from likewise.utils.arrays import Array, like, to_host, wide
from likewise.utils.threads import Arrays, added, ordered_map, row_blocks


class RowBlock(NamedTuple):
    """Some rows with their classes, sorted by class, and how many times each counts (None: once).

    `precomputed` are arrays that belong to them, one row for each.
    """

    rows: Array
    codes: np.ndarray
    weights: np.ndarray | None
    precomputed: Arrays = ()

    def part(self, chosen: slice) -> RowBlock:
        """A range of the rows."""
        weights = None if self.weights is None else self.weights[chosen]
        precomputed = tuple(part[chosen] for part in self.precomputed)
        return RowBlock(self.rows[chosen, :], self.codes[chosen], weights, precomputed)


Task = Callable[[RowBlock], Arrays]
"""What one block contributes to some sums. Pure, and picklable for engines in other processes: a frozen dataclass with
`__call__`. An attribute `block_rows` says how many rows at a time suit it. Rows that are an array of another library
reach it as such, with the task's own arrays on the same device."""

Maker = Callable[[RowBlock], PassColumns]
"""What makes columns of a pass from a block of rows, as pure and picklable as a task."""

Result = TypeVar("Result")
Reduction = Callable[[Array, np.ndarray, slice], np.ndarray]


class Map(Protocol):
    """`ordered_map`, in threads, or `map`."""

    def __call__(self, function: Callable[[slice], Result], parts: Iterable[slice], /) -> Iterable[Result]: ...


class Columns(Protocol):
    """The columns of a pass: one or more galleries, each sorted by label."""

    def blocks(self) -> Iterator[PassColumns]:
        """The galleries, which may come from a file one after the other."""

    @property
    def linear(self) -> tuple[np.ndarray, np.ndarray]:
        """Gᵀ back and the sum of back over all columns, in float64."""


class Against(Protocol):
    """A task that compares rows with columns, additive over both."""

    def against(self, columns: tuple[PassColumns, ...]) -> Task:
        """The task for these columns."""


class Engine(ABC):
    """Labelled rows of shape (n, d), and sums over them.

    `row_codes` and `row_weights` are class and weight (None: one) of each row in the rows' own order, `codes` and
    `weights` in label order, where `order` is the row at each place and `starts` are where classes begin, and the end.
    A row of weight zero counts as absent, also in `shape`. `dtype`, float32 or float64, is the precision of products.
    """

    in_memory: ClassVar[bool] = False

    def __init__(
        self, width: int, dtype: np.dtype, codes: np.ndarray, n_classes: int, weights: np.ndarray | None
    ) -> None:
        order = np.argsort(codes, kind="stable")
        self.order = order if weights is None else order[weights[order] > 0]
        self.row_codes, self.row_weights, self.n_classes = codes, weights, n_classes
        self.codes, self.weights = codes[self.order], None if weights is None else weights[self.order]
        self.starts = class_starts(self.codes, n_classes)
        self.shape, self.dtype = (len(self.codes), width), np.dtype(dtype)
        self.on_block: Callable[[], None] = lambda: None  # called after each block of rows, for a progress bar

    @property
    @abstractmethod
    def n_blocks(self) -> int:
        """Blocks of rows in a pass: how many times it calls `on_block`."""

    @abstractmethod
    def whiten(self, alpha: float) -> WhiteningMap:
        """Whitening of the rows with a ridge `alpha`."""

    @abstractmethod
    def gallery(self, R: np.ndarray) -> Columns:
        """All rows as the columns of a pass: G = X R, with the weights of the rows."""

    @abstractmethod
    def sweep(
        self, L: np.ndarray, gallery: Columns, target: LabelTarget, *, projected: bool = False, symmetric: bool = False
    ) -> Swept:
        """Σ over row blocks of Xᵀ (S - Y) back, S the scores of X L with the gallery, and the loss ‖S - Y‖².

        `projected` says that L is X L already, as `reuse_projection` gave it, and `symmetric` that S = Sᵀ, which saves
        work where all rows are at hand.
        """

    @abstractmethod
    def take(self, chosen: np.ndarray) -> MemoryEngine:
        """An engine in memory over some of the rows, given by their places in label order; repetition is allowed."""

    @abstractmethod
    def sum(self, task: Task, precomputed: Arrays = ()) -> Arrays:
        """Σ over blocks of what `task` returns, in float64; `precomputed` for rows in memory alone, in label order."""

    @abstractmethod
    def blocks(self) -> Iterator[RowBlock]:
        """The rows, block by block."""

    @abstractmethod
    def columns(self, make: Maker, width: int, precomputed: Arrays = ()) -> Columns:
        """All rows as columns of a pass of `width` numbers each, in blocks, as `make` makes them."""

    def mapped(self, function: Callable[[Array], Array]) -> MemoryEngine | None:
        """An engine over function(rows), computed once; None where rows are not in memory, or not NumPy's."""
        return None

    def reuse_projection(self, gallery: Columns, T: np.ndarray) -> np.ndarray | None:
        """X R T for the `gallery` of R, to be passed to `sweep` as projected; None if that would not be cheaper."""
        return None

    def sum_against(self, task: Against, columns: Columns, precomputed: Arrays = ()) -> Arrays:
        """Σ over blocks of rows and of columns of what `task` returns."""
        return self.sum(task.against(tuple(columns.blocks())), precomputed)

    def class_sizes(self) -> np.ndarray:
        """Weight of the rows of each class."""
        return np.bincount(self.codes, self.weights, minlength=self.n_classes)

    def class_sums(self, L: np.ndarray) -> np.ndarray:
        """Weighted sum of the rows of X L in each class, (n_classes, r), float64."""
        (sums,) = self.sum(ClassSums(self.n_classes))
        return np.asarray(sums @ L)


# -- Rows in memory ----------------------------------------------------------------------------------------------------


class MemoryEngine(Engine):
    """Labelled rows held in memory, float32 or float64, dense or CSR, visited in the order of their labels."""

    in_memory = True

    def __init__(self, X: Array, codes: np.ndarray, n_classes: int, weights: np.ndarray | None = None) -> None:
        super().__init__(X.shape[1], X.dtype, codes, n_classes, weights)
        self.X, self._is_sorted = X, np.array_equal(self.order, np.arange(len(codes)))

    @property
    def n_blocks(self) -> int:
        return len(row_blocks(self.shape[0]))

    def rows(self, chosen: slice | np.ndarray) -> Array:
        """Rows of X by their places in label order."""
        return self.X[chosen if self._is_sorted else self.order[chosen]]

    def mapped(self, function: Callable[[Array], Array]) -> MemoryEngine:
        return MemoryEngine(function(self.X), self.row_codes, self.n_classes, self.row_weights)

    def take(self, chosen: np.ndarray) -> MemoryEngine:
        chosen = np.sort(chosen)
        weights = None if self.weights is None else self.weights[chosen]
        return MemoryEngine(self.rows(chosen), self.codes[chosen], self.n_classes, weights)

    def select(self, rows: np.ndarray) -> MemoryEngine:
        """An engine over some of the rows, given by their numbers in X."""
        weights = None if self.row_weights is None else self.row_weights[rows]
        return MemoryEngine(self.X[rows], self.row_codes[rows], self.n_classes, weights)

    def relabelled(self, codes: np.ndarray, n_classes: int) -> MemoryEngine:
        """An engine over the same rows with other classes, given in label order."""
        return MemoryEngine(self.rows(slice(None)), codes, n_classes, self.weights)

    def whiten(self, alpha: float) -> WhiteningMap:
        """Whitening of the rows; of large sparse ones in their leading directions, without a Gram matrix."""
        width = width_for(self.shape, sp.issparse(self.X), None)
        if width is not None:
            return truncated_whitening(self.X, self.row_weights, alpha, width)
        return whiten(self.X, self.row_weights, alpha)

    def project(self, L: np.ndarray) -> np.ndarray:
        """X L, rows sorted by label, in X's own precision."""
        L, blocks = L.astype(self.dtype), row_blocks(self.shape[0])
        product = np.empty((self.shape[0], L.shape[1]), dtype=self.dtype)
        for block, rows in zip(blocks, ordered_map(lambda block: self.rows(block) @ L, blocks), strict=True):
            product[block] = rows
        return product

    def class_sums(self, L: np.ndarray) -> np.ndarray:
        if sp.issparse(self.X):  # whose sums stay sparse until they are mapped
            return class_sums(self.X, self.row_codes, self.row_weights, self.n_classes, L)
        return super().class_sums(L)

    def gallery(self, R: np.ndarray) -> PassColumns:
        return PassColumns(self.project(R), self.starts, self.weights)

    def reuse_projection(self, gallery: Columns, T: np.ndarray) -> np.ndarray | None:
        assert isinstance(gallery, PassColumns)
        return gallery.G @ T.astype(self.dtype)

    def sweep(
        self,
        L: np.ndarray,
        gallery: Columns,
        target: LabelTarget,
        reduce: Reduction | None = None,
        *,
        projected: bool = False,
        symmetric: bool = False,
    ) -> Swept:
        """`reduce(rows, T, block)` replaces Xᵀ T by another sum over blocks; T are the rows of (S - Y) back."""
        L = L.astype(self.dtype, copy=False)
        has_room = self.shape[0] * L.shape[1] * self.dtype.itemsize <= MOST_MIRRORED
        if symmetric and target.adaptive and reduce is None and has_room and isinstance(gallery, PassColumns):
            return self._symmetric_sweep(L if projected else self.project(L), gallery, target)

        def block_sum(columns: PassColumns, block: slice) -> Swept:
            rows = self.rows(block)
            weights = None if self.weights is None else self.weights[block]
            P = L[block] if projected else np.asarray(rows @ L)
            T, loss = columns.deviation(P, self.codes[block], weights, target)
            if weights is not None:
                T *= weights[:, None]
            return (rows.T @ T if reduce is None else reduce(rows, T, block)), loss

        total, loss = np.zeros(()), 0.0
        for columns in gallery.blocks():
            for part, part_loss in ordered_map(partial(block_sum, columns), row_blocks(self.shape[0])):
                total, loss = total + part.astype(np.float64), loss + part_loss
                self.on_block()
        return total, loss

    def _symmetric_sweep(self, P: np.ndarray, gallery: PassColumns, target: LabelTarget) -> Swept:
        """The same for the rows P of X L, where scores are symmetric."""
        blocks = row_blocks(self.shape[0])

        def each(work: Callable[[slice], BlockSums]) -> Iterator[BlockSums]:
            for done in ordered_map(work, blocks):
                yield done
                self.on_block()

        T, loss = symmetric_deviation(P, self.codes, self.weights, gallery, target, each)
        if self.weights is not None:
            T *= self.weights[:, None].astype(T.dtype)
        (total,) = added(ordered_map(lambda block: (self.rows(block).T @ T[block],), blocks))
        return total, loss

    def sum(self, task: Task, precomputed: Arrays = ()) -> Arrays:
        if getattr(task, "own_threads", False):
            return added([task(RowBlock(self.X, self.row_codes, self.row_weights))])  # sums that need no order
        parts = row_blocks(self.shape[0], getattr(task, "block_rows", None))
        return added(ordered_map(lambda part: task(self._block(part, precomputed)), parts))

    def blocks(self) -> Iterator[RowBlock]:
        yield self._block(slice(None), ())

    def columns(self, make: Maker, width: int, precomputed: Arrays = ()) -> Columns:
        return block_columns(make, self._block(slice(None), precomputed))

    def _block(self, part: slice, precomputed: Arrays) -> RowBlock:
        weights = None if self.weights is None else self.weights[part]
        return RowBlock(self.rows(part), self.codes[part], weights, tuple(values[part] for values in precomputed))


# -- Rows that are seen block by block ---------------------------------------------------------------------------------


class BlockedEngine(Engine):
    """Rows that are visited in blocks, in an order of their own; a subclass knows where they are."""

    @abstractmethod
    def rows_at(self, rows: np.ndarray) -> np.ndarray:
        """Rows by their numbers in the rows' own order, ascending."""

    def gallery(self, R: np.ndarray) -> Columns:
        width = R.shape[1] * (1 if self.weights is None else 2)
        return self.columns(Projection(R.astype(self.dtype), self.n_classes), width)

    def sweep(
        self, L: np.ndarray, gallery: Columns, target: LabelTarget, *, projected: bool = False, symmetric: bool = False
    ) -> Swept:
        total, loss = self.sum_against(Sweep(L.astype(self.dtype), (), target), gallery)
        return total, float(loss)

    def whiten(self, alpha: float) -> WhiteningMap:
        """Whitening through the Gram matrix; float64 data without ridge takes a second pass."""
        check_room(self.shape[1], self.shape)
        (G,) = self.sum(GramSum())
        if not np.isfinite(G).all():
            raise LikewiseError("X contains NaN or infinity: every value must be finite")
        G = np.asfortranarray(G)
        return whiten_gram(G, self.shape, self.dtype, alpha, lambda W: self.sum(ProjectedGram(W))[0])

    def take(self, chosen: np.ndarray) -> MemoryEngine:
        chosen = np.sort(chosen)
        rows, back = np.unique(self.order[chosen], return_inverse=True)
        X = self.rows_at(rows).astype(self.dtype, copy=False)[back]
        weights = None if self.weights is None else self.weights[chosen]
        return MemoryEngine(X, self.codes[chosen], self.n_classes, weights)


# -- Tasks, and how they run on a block --------------------------------------------------------------------------------


@dataclass(frozen=True)
class GramSum:
    """XᵀX, (d, d)."""

    own_threads: ClassVar[bool] = True  # one d x d sum at a time, with the threads of BLAS

    def __call__(self, block: RowBlock) -> Arrays:
        return (gram(block.rows, block.weights),)


@dataclass(frozen=True)
class ProjectedGram:
    """(XW)ᵀ(XW) in float64, for the second whitening of float64 data."""

    W: np.ndarray

    def __call__(self, block: RowBlock) -> Arrays:
        rows = wide(block.rows)
        U = rows @ like(self.W, rows)
        return (to_host(weighted_product(U, block.weights)),)


@dataclass(frozen=True)
class ClassSums:
    """Weighted sum of the rows of each class, (n_classes, d)."""

    n_classes: int
    block_rows: ClassVar[int] = 8192  # each part is n_classes x d, whatever its rows

    def __call__(self, block: RowBlock) -> Arrays:
        return (class_sums(block.rows, block.codes, block.weights, self.n_classes),)


@dataclass(frozen=True)
class Sweep:
    """Xᵀ (S - Y) back against some columns, (d, r), and the loss."""

    L: np.ndarray
    columns: tuple[PassColumns, ...]
    target: LabelTarget

    def against(self, columns: tuple[PassColumns, ...]) -> Self:
        return replace(self, columns=columns)

    def __call__(self, block: RowBlock) -> Arrays:
        P, weights = block.rows @ self.L, block.weights
        parts = [columns.deviation(P, block.codes, weights, self.target) for columns in self.columns]
        T = parts[0][0]
        for part, _ in parts[1:]:
            T += part
        if weights is not None:
            T *= like(weights, T)[:, None]
        return to_host(block.rows.T @ T), np.array(sum(loss for _, loss in parts))


@dataclass(frozen=True)
class Projection:
    """Rows as columns of a pass: G = X R."""

    R: np.ndarray
    n_classes: int

    def __call__(self, block: RowBlock) -> PassColumns:
        return PassColumns(to_host(block.rows @ self.R), class_starts(block.codes, self.n_classes), block.weights)


def labelled_block(rows: np.ndarray, codes: np.ndarray, weights: np.ndarray | None, dtype: np.dtype) -> RowBlock:
    """A copy of the rows, sorted by label, without those of weight zero."""
    order = np.argsort(codes, kind="stable")
    if weights is not None:
        order = order[weights[order] > 0]
    return RowBlock(rows[order].astype(dtype, copy=False), codes[order], None if weights is None else weights[order])


def block_columns(make: Maker, block: RowBlock, in_order: Map = ordered_map) -> PassColumns:
    """A block of rows as columns, made part by part."""
    parts = list(in_order(lambda part: make(block.part(part)), row_blocks(len(block.codes))))
    return joined_columns(parts, block.codes, block.weights)


def joined_columns(parts: list[PassColumns], codes: np.ndarray, weights: np.ndarray | None) -> PassColumns:
    """Columns that were made part by part, sorted by label as a whole."""
    extra = [part.extra for part in parts if part.extra is not None]
    starts = class_starts(codes, len(parts[0].starts) - 1)
    G = np.concatenate([part.G for part in parts])
    return PassColumns(G, starts, weights, np.concatenate(extra) if extra else None)


def merged_columns(parts: Sequence[PassColumns]) -> PassColumns:
    """Columns of several blocks as one gallery: tiles are as wide as they can be, and a class is one range of them."""
    if len(parts) == 1:
        return parts[0]
    n_classes = len(parts[0].starts) - 1
    codes = np.concatenate([np.repeat(np.arange(n_classes), np.diff(part.starts)) for part in parts])
    order = np.argsort(codes, kind="stable")
    weights = [part.weights for part in parts if part.weights is not None]
    extra = [part.extra for part in parts if part.extra is not None]
    return PassColumns(
        np.concatenate([part.G for part in parts])[order],
        class_starts(codes[order], n_classes),
        np.concatenate(weights)[order] if weights else None,
        np.concatenate(extra)[order] if extra else None,
    )


def block_sums(task: Task, block: RowBlock, in_order: Map = ordered_map) -> Arrays:
    """A task on one block, summed in float64 over parts of it; in threads, unless `in_order` is `map`."""
    if getattr(task, "own_threads", False):
        return added([task(block)])
    parts = row_blocks(len(block.codes), getattr(task, "block_rows", None))
    return added(in_order(lambda part: task(block.part(part)), parts))
