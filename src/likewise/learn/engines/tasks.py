"""Sums over blocks of rows, as tasks that run on any engine, and how their parts are combined."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from likewise.learn.maths.engine import Maker, RowBlock, Task
from likewise.learn.maths.labels import LabelTarget, class_starts, class_sums
from likewise.learn.maths.passes import PassColumns, deviation
from likewise.learn.maths.scatter import gram
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
        U = np.asarray(block.rows.astype(np.float64) @ self.W)
        return (U.T @ (U if block.weights is None else U * block.weights[:, None]),)


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
        P, weights = np.asarray(block.rows @ self.L), block.weights
        parts = [deviation(P, block.codes, weights, gallery, self.target) for gallery in self.columns]
        T = parts[0][0]
        for part, _ in parts[1:]:
            T += part
        if weights is not None:
            T *= weights[:, None]
        return block.rows.T @ T, np.array(sum(loss for _, loss in parts))


@dataclass(frozen=True)
class Projection:
    """Rows as columns of a pass: G = X R."""

    R: np.ndarray
    n_classes: int

    def __call__(self, block: RowBlock) -> PassColumns:
        return PassColumns(np.asarray(block.rows @ self.R), class_starts(block.codes, self.n_classes), block.weights)


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


def class_squares(codes: np.ndarray, weights: np.ndarray | None, n_classes: int, target: LabelTarget) -> float:
    """‖Y‖² of the fixed label target, by the sizes of the classes."""
    size = np.bincount(codes, weights, minlength=n_classes)
    same = float(size @ size)
    return target.same**2 * same + target.other**2 * (float(size.sum()) ** 2 - same)
