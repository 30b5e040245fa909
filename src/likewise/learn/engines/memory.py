"""Rows in memory, dense or sparse."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from likewise.learn.engines.tasks import ClassSums, block_columns, class_squares
from likewise.learn.maths import whitening
from likewise.learn.maths.engine import Against, Columns, Maker, RowBlock, Task
from likewise.learn.maths.labels import LabelTarget, class_starts, class_sums
from likewise.learn.maths.passes import MOST_MIRRORED, PassColumns, Swept, deviation, symmetric_deviation
from likewise.learn.maths.whitening import WhiteningMap, whiten
from likewise.utils.threads import Arrays, added, ordered_map, row_blocks

Reduction = Callable[[Any, np.ndarray, slice], np.ndarray]


class MemoryEngine:
    """Labelled rows held in memory, float32 or float64, dense or CSR, visited in the order of their labels.

    `weights` say how many times each row counts; a row of weight zero counts as absent.
    """

    in_memory: ClassVar[bool] = True

    def __init__(self, X: Any, codes: np.ndarray, n_classes: int, weights: np.ndarray | None = None) -> None:
        order = np.argsort(codes, kind="stable")
        order = order if weights is None else order[weights[order] > 0]
        self._X, self.row_codes = X, codes
        self._order = None if np.array_equal(order, np.arange(len(codes))) else order
        self.codes = codes[order]
        self.weights = None if weights is None else weights[order]
        self.starts = class_starts(self.codes, n_classes)
        self.n_classes = n_classes
        self.shape: tuple[int, int] = (len(order), X.shape[1])
        self.dtype: np.dtype = X.dtype
        self.on_block: Callable[[], None] = lambda: None  # told after each block of rows, for a progress bar

    @property
    def n_pairs(self) -> float:
        return float(self.shape[0] if self.weights is None else self.weights.sum()) ** 2

    def whiten(self, alpha: float, width: int | None = None) -> WhiteningMap:
        """Whitening of the rows; of wide or sparse ones in their leading directions, without a Gram matrix."""
        if min(self.shape) > whitening.EXACT_WIDTH:
            chosen = whitening.width_for(self.shape, sp.issparse(self._X), width)
            if chosen is not None:
                return whitening.truncated_whitening(self._X, self.row_weights, alpha, chosen)
        return whiten(self._X, self.row_weights, alpha).leading(width)

    def project(self, L: np.ndarray) -> np.ndarray:
        """X L, rows sorted by label, in X's own precision."""
        L, blocks = L.astype(self.dtype), row_blocks(self.shape[0])
        product = np.empty((self.shape[0], L.shape[1]), dtype=self.dtype)
        for block, rows in zip(blocks, ordered_map(lambda block: self.rows(block) @ L, blocks), strict=True):
            product[block] = rows
        return product

    def class_sums(self, L: np.ndarray) -> np.ndarray:
        if sp.issparse(self._X):  # whose sums stay sparse until they are mapped
            return class_sums(self._X, self.row_codes, self.row_weights, self.n_classes, L)
        (sums,) = self.sum(ClassSums(self.n_classes))
        return np.asarray(sums @ L)

    def sum_of_squares(self, target: LabelTarget) -> float:
        return class_squares(self.codes, self.weights, self.n_classes, target)

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
            T, loss = deviation(P, self.codes[block], weights, columns, target)
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

    def mapped(self, function: Callable[[Any], Any]) -> "MemoryEngine":
        return MemoryEngine(function(self._X), self.row_codes, self.n_classes, self.row_weights)

    def select(self, rows: np.ndarray) -> "MemoryEngine":
        """An engine over some of the rows, given by their numbers in X."""
        weights = None if self.row_weights is None else self.row_weights[rows]
        return MemoryEngine(self._X[rows], self.row_codes[rows], self.n_classes, weights)

    def relabelled(self, codes: np.ndarray, n_classes: int) -> "MemoryEngine":
        return MemoryEngine(self.rows(slice(None)), codes, n_classes, self.weights)

    def sum(self, task: Task, beside: Arrays = ()) -> Arrays:
        """Sum over blocks of what `task` returns, in float64."""
        if getattr(task, "own_threads", False):
            return added([task(RowBlock(self._X, self.row_codes, self.row_weights))])  # sums that need no order
        parts = row_blocks(self.shape[0], getattr(task, "block_rows", None))
        return added(ordered_map(lambda part: task(self._block(part, beside)), parts))

    def columns(self, make: Maker, width: int, beside: Arrays = ()) -> Columns:
        return block_columns(make, self._block(slice(None), beside))

    def sum_against(self, task: Against, columns: Columns, beside: Arrays = ()) -> Arrays:
        return self.sum(task.against(tuple(columns.blocks())), beside)

    def _block(self, part: slice, beside: Arrays) -> RowBlock:
        weights = None if self.weights is None else self.weights[part]
        return RowBlock(self.rows(part), self.codes[part], weights, tuple(values[part] for values in beside))

    @property
    def X(self) -> Any:
        return self._X

    @property
    def row_weights(self) -> np.ndarray | None:
        if self.weights is None or self._order is None:
            return self.weights
        weights = np.zeros(len(self.row_codes))
        weights[self._order] = self.weights
        return weights

    @property
    def order(self) -> np.ndarray:
        return np.arange(self.shape[0]) if self._order is None else self._order

    def take(self, chosen: np.ndarray) -> "MemoryEngine":
        chosen = np.sort(chosen)
        weights = None if self.weights is None else self.weights[chosen]
        return MemoryEngine(self.rows(chosen), self.codes[chosen], self.n_classes, weights)

    def rows(self, chosen: slice | np.ndarray) -> Any:
        return self._X[chosen if self._order is None else self._order[chosen]]
