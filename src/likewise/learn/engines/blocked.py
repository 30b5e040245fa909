"""The common part of engines that see their rows in blocks: every result is a sum over blocks."""

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from likewise.learn.engines.memory import MemoryEngine
from likewise.learn.engines.tasks import ClassSums, GramSum, ProjectedGram, Projection, Sweep, class_squares
from likewise.learn.maths.engine import Against, Columns, Maker, Task
from likewise.learn.maths.labels import LabelTarget, class_starts
from likewise.learn.maths.passes import Swept
from likewise.learn.maths.scatter import check_room
from likewise.learn.maths.whitening import WhiteningMap, whiten_gram
from likewise.utils.threads import Arrays


class BlockedEngine:
    """Rows that are visited in blocks, in an order of their own; a subclass knows where they are.

    `codes` and `weights` are those of each row in the rows' own order; a row of weight zero is not there.
    """

    in_memory: ClassVar[bool] = False

    def __init__(
        self, width: int, dtype: np.dtype, codes: np.ndarray, n_classes: int, weights: np.ndarray | None
    ) -> None:
        self.row_codes, self.row_weights = codes, weights
        order, self.n_classes = np.argsort(codes, kind="stable"), n_classes
        self.order = order if weights is None else order[weights[order] > 0]
        self.codes, self.weights = codes[self.order], None if weights is None else weights[self.order]
        self.starts = class_starts(self.codes, n_classes)
        self.shape, self.dtype = (len(self.codes), width), np.dtype(dtype)
        self.on_block: Callable[[], None] = lambda: None

    def mapped(self, function: Callable[[Any], Any]) -> MemoryEngine | None:
        """None: what is computed from rows is computed again in each pass."""
        return None

    def sum(self, task: Task, beside: Arrays = ()) -> Arrays:
        raise NotImplementedError

    def rows_at(self, rows: np.ndarray) -> np.ndarray:
        """Rows by their numbers in the rows' own order, ascending."""
        raise NotImplementedError

    def columns(self, make: Maker, width: int, beside: Arrays = ()) -> Columns:
        raise NotImplementedError

    def sum_against(self, task: Against, columns: Columns, beside: Arrays = ()) -> Arrays:
        raise NotImplementedError

    def gallery(self, R: np.ndarray) -> Columns:
        width = R.shape[1] * (1 if self.weights is None else 2)
        return self.columns(Projection(R.astype(self.dtype), self.n_classes), width)

    def sweep(
        self, L: np.ndarray, gallery: Columns, target: LabelTarget, *, projected: bool = False, symmetric: bool = False
    ) -> Swept:
        total, loss = self.sum_against(Sweep(L.astype(self.dtype), (), target), gallery)
        return total, float(loss)

    def whiten(self, alpha: float, width: int | None = None) -> WhiteningMap:
        """Whitening through the Gram matrix; float64 data without ridge takes a second pass."""
        check_room(self.shape[1], self.shape)
        (G,) = self.sum(GramSum())
        found = whiten_gram(G, self.shape, self.dtype, alpha, lambda W: self.sum(ProjectedGram(W))[0])
        return found.leading(width)

    def class_sums(self, L: np.ndarray) -> np.ndarray:
        (sums,) = self.sum(ClassSums(self.n_classes))
        return sums @ L

    def sum_of_squares(self, target: LabelTarget) -> float:
        return class_squares(self.codes, self.weights, self.n_classes, target)

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
