"""Sums over blocks of rows as tasks that run on any engine, rows in memory, and what engines over blocks share."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp

from likewise.errors import LikewiseError
from likewise.learn.maths.engine import Against, Columns, Maker, RowBlock, Task
from likewise.learn.maths.labels import LabelTarget, class_starts, class_sums
from likewise.learn.maths.passes import MOST_MIRRORED, PassColumns, Swept, symmetric_deviation
from likewise.learn.maths.scatter import (
    WhiteningMap,
    check_room,
    gram,
    truncated_whitening,
    whiten,
    whiten_gram,
    width_for,
)
from likewise.utils.arrays import Array, like, to_host, wide
from likewise.utils.threads import Arrays, added, ordered_map, row_blocks

Map = Callable[[Callable[[slice], Any], Iterable[slice]], Iterable[Any]]


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
        return (to_host(U.T @ (U if block.weights is None else U * like(block.weights, U)[:, None])),)


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


# -- Rows in memory ----------------------------------------------------------------------------------------------------


class LabelledRows:
    """Classes and weights of rows, in the rows' order and in label order: what all engines share.

    `codes` and `weights` are those of each row in the rows' order; a row of weight zero counts as absent.
    """

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

    def sum(self, task: Task, precomputed: Arrays = ()) -> Arrays:
        raise NotImplementedError

    def sum_against(self, task: Against, columns: Columns, precomputed: Arrays = ()) -> Arrays:
        return self.sum(task.against(tuple(columns.blocks())), precomputed)

    def class_sums(self, L: np.ndarray) -> np.ndarray:
        (sums,) = self.sum(ClassSums(self.n_classes))
        return np.asarray(sums @ L)


Reduction = Callable[[Array, np.ndarray, slice], np.ndarray]


class MemoryEngine(LabelledRows):
    """Labelled rows held in memory, float32 or float64, dense or CSR, visited in the order of their labels."""

    in_memory: ClassVar[bool] = True

    def __init__(self, X: Array, codes: np.ndarray, n_classes: int, weights: np.ndarray | None = None) -> None:
        super().__init__(X.shape[1], X.dtype, codes, n_classes, weights)
        self.X, self._is_sorted = X, np.array_equal(self.order, np.arange(len(codes)))

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
        projected: bool = False,
        symmetric: bool = False,
    ) -> Swept:
        """`reduce(rows, T, block)` replaces Xᵀ T by another sum over blocks; T are the rows of (S - Y) back."""
        L = L.astype(self.dtype, copy=False)
        room = self.shape[0] * L.shape[1] * self.dtype.itemsize
        if (
            symmetric
            and target.adaptive
            and reduce is None
            and room <= MOST_MIRRORED
            and isinstance(gallery, PassColumns)
        ):
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

        def each(work: Callable[[slice], Any]) -> Iterator[Any]:
            for done in ordered_map(work, blocks):
                yield done
                self.on_block()

        T, loss = symmetric_deviation(P, self.codes, self.weights, gallery, target, each)
        if self.weights is not None:
            T *= self.weights[:, None].astype(T.dtype)
        (total,) = added(ordered_map(lambda block: (self.rows(block).T @ T[block],), blocks))
        return total, loss

    @property
    def n_blocks(self) -> int:
        return len(row_blocks(self.shape[0]))

    def mapped(self, function: Callable[[Array], Array]) -> "MemoryEngine":
        return MemoryEngine(function(self.X), self.row_codes, self.n_classes, self.row_weights)

    def select(self, rows: np.ndarray) -> "MemoryEngine":
        """An engine over some of the rows, given by their numbers in X."""
        weights = None if self.row_weights is None else self.row_weights[rows]
        return MemoryEngine(self.X[rows], self.row_codes[rows], self.n_classes, weights)

    def relabelled(self, codes: np.ndarray, n_classes: int) -> "MemoryEngine":
        return MemoryEngine(self.rows(slice(None)), codes, n_classes, self.weights)

    def sum(self, task: Task, precomputed: Arrays = ()) -> Arrays:
        """Sum over blocks of what `task` returns, in float64."""
        if getattr(task, "own_threads", False):
            return added([task(RowBlock(self.X, self.row_codes, self.row_weights))])  # sums that need no order
        parts = row_blocks(self.shape[0], getattr(task, "block_rows", None))
        return added(ordered_map(lambda part: task(self._block(part, precomputed)), parts))

    def columns(self, make: Maker, width: int, precomputed: Arrays = ()) -> Columns:
        return block_columns(make, self._block(slice(None), precomputed))

    def _block(self, part: slice, precomputed: Arrays) -> RowBlock:
        weights = None if self.weights is None else self.weights[part]
        return RowBlock(self.rows(part), self.codes[part], weights, tuple(values[part] for values in precomputed))

    def take(self, chosen: np.ndarray) -> "MemoryEngine":
        chosen = np.sort(chosen)
        weights = None if self.weights is None else self.weights[chosen]
        return MemoryEngine(self.rows(chosen), self.codes[chosen], self.n_classes, weights)

    def rows(self, chosen: slice | np.ndarray) -> Array:
        return self.X[chosen if self._is_sorted else self.order[chosen]]


# -- Rows that are seen block by block ---------------------------------------------------------------------------------


class BlockedEngine(LabelledRows):
    """Rows that are visited in blocks, in an order of their own; a subclass knows where they are."""

    in_memory: ClassVar[bool] = False

    def mapped(self, function: Callable[[Array], Array]) -> MemoryEngine | None:
        """None: what is computed from rows is computed again in each pass."""
        return None

    def rows_at(self, rows: np.ndarray) -> np.ndarray:
        """Rows by their numbers in the rows' own order, ascending."""
        raise NotImplementedError

    def columns(self, make: Maker, width: int, precomputed: Arrays = ()) -> Columns:
        raise NotImplementedError

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

    def reuse_projection(self, gallery: Columns, T: np.ndarray) -> np.ndarray | None:
        """None: recomputing is cheaper than caching."""
        return None

    def take(self, chosen: np.ndarray) -> MemoryEngine:
        """An engine in memory over some of the rows, given by their places in label order."""
        chosen = np.sort(chosen)
        rows, back = np.unique(self.order[chosen], return_inverse=True)
        X = self.rows_at(rows).astype(self.dtype, copy=False)[back]
        weights = None if self.weights is None else self.weights[chosen]
        return MemoryEngine(X, self.codes[chosen], self.n_classes, weights)
