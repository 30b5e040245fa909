"""What an engine is: labelled rows somewhere, and the few sums over them that the solvers ask for.

A pass broadcasts the current factors and the columns of the pass (landmarks, or the projected gallery in blocks), maps
over blocks of rows and sums d x r in float64. Nothing of size n x n is ever held; where the rows live is up to the
engine. "Label order" is the order of the rows after a stable sort by label: places in it mean the same on
every engine, whatever the order in which an engine visits its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol

import numpy as np

from likewise.utils.arrays import Array

if TYPE_CHECKING:
    from likewise.learn.maths.labels import LabelTarget
    from likewise.learn.maths.passes import PassColumns
    from likewise.learn.maths.scatter import WhiteningMap


class RowBlock(NamedTuple):
    """Some rows with their classes, sorted by class, and how many times each counts (None: once).

    `precomputed` are arrays that belong to them, one row for each.
    """

    rows: Array
    codes: np.ndarray
    weights: np.ndarray | None
    precomputed: tuple[np.ndarray, ...] = ()

    def part(self, chosen: slice) -> RowBlock:
        """A range of the rows."""
        weights = None if self.weights is None else self.weights[chosen]
        return RowBlock(
            self.rows[chosen, :], self.codes[chosen], weights, tuple(part[chosen] for part in self.precomputed)
        )


Task = Callable[[RowBlock], tuple[np.ndarray, ...]]
"""What one block contributes to some sums. Pure, and picklable for engines in other processes: a frozen dataclass with
`__call__`. An attribute `block_rows` says how many rows at a time suit it. Rows that are an array of another library
reach it as such, with the task's own arrays on the same device."""

Maker = Callable[[RowBlock], "PassColumns"]
"""What makes columns of a pass from a block of rows, as pure and picklable as a task."""


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


class Engine(Protocol):
    """Labelled rows of shape (n, d), and sums over them.

    Attributes
    ----------
    shape : (n, d); rows of weight zero are not counted.
    dtype : float32 or float64, the precision of products; sums over blocks are in float64.
    codes, weights : class and weight of each row in label order; weights None where each counts once.
    starts : where each class begins in label order, and the end.
    in_memory : whether it is an `EngineInMemory`.
    n_blocks : how many times a pass calls `on_block`, for a progress bar.
    """

    in_memory: ClassVar[bool]
    shape: tuple[int, int]
    dtype: np.dtype
    n_classes: int
    codes: np.ndarray
    weights: np.ndarray | None
    starts: np.ndarray
    on_block: Callable[[], None]

    @property
    def order(self) -> np.ndarray:
        """The row of X at each place of the label order."""

    @property
    def row_codes(self) -> np.ndarray:
        """Class of each row of X in X's own order; rows of weight zero have one too."""

    @property
    def row_weights(self) -> np.ndarray | None:
        """Weight of each row of X, in X's own order."""

    @property
    def n_blocks(self) -> int:
        """Blocks of rows in a pass."""

    def whiten(self, alpha: float) -> WhiteningMap:
        """Whitening of the rows with a ridge `alpha`."""

    def class_sums(self, L: np.ndarray) -> np.ndarray:
        """Weighted sum of the rows of X L in each class, (n_classes, r), float64."""

    def gallery(self, R: np.ndarray) -> Columns:
        """All rows as the columns of a pass: G = X R, with the weights of the rows."""

    def reuse_projection(self, gallery: Columns, T: np.ndarray) -> np.ndarray | None:
        """X R T for the `gallery` of R, to be passed to `sweep` as projected; None if that would not be cheaper."""

    def sweep(
        self, L: np.ndarray, gallery: Columns, target: LabelTarget, *, projected: bool = False, symmetric: bool = False
    ) -> tuple[np.ndarray, float]:
        """Σ over row blocks of Xᵀ (S - Y) back, S the scores of X L with the gallery, and the loss ‖S - Y‖².

        `projected` says that L is X L already, as `reuse_projection` gave it, and `symmetric` that S = Sᵀ, which saves
        work where all rows are at hand.
        """

    def take(self, chosen: np.ndarray) -> EngineInMemory:
        """An engine in memory over some of the rows, given by their places in label order; repetition is allowed."""

    def mapped(self, function: Callable[[Array], Array]) -> EngineInMemory | None:
        """An engine over function(rows), computed once; None where rows are not in memory, or not NumPy's."""

    def sum(self, task: Task, precomputed: tuple[np.ndarray, ...] = ()) -> tuple[np.ndarray, ...]:
        """Σ over blocks of what `task` returns, in float64; `precomputed` for rows in memory alone, in label order."""

    def columns(self, make: Maker, width: int, precomputed: tuple[np.ndarray, ...] = ()) -> Columns:
        """All rows as columns of a pass of `width` numbers each, in blocks, as `make` makes them."""

    def sum_against(
        self, task: Against, columns: Columns, precomputed: tuple[np.ndarray, ...] = ()
    ) -> tuple[np.ndarray, ...]:
        """Σ over blocks of rows and of columns of what `task` returns."""


class EngineInMemory(Engine, Protocol):
    """An engine over rows in memory, with random access."""

    @property
    def X(self) -> Array:
        """The rows in their own order."""

    def mapped(self, function: Callable[[Array], Array]) -> EngineInMemory:
        """An engine over function(rows), computed once."""

    def select(self, rows: np.ndarray) -> EngineInMemory:
        """An engine over some of the rows, given by their numbers in X."""

    def relabelled(self, codes: np.ndarray, n_classes: int) -> EngineInMemory:
        """An engine over the same rows with other classes, given in label order."""

    def rows(self, chosen: slice | np.ndarray) -> Array:
        """Rows of X by their places in label order."""

    def project(self, L: np.ndarray) -> np.ndarray:
        """X L, rows in label order, in X's own precision."""

    def gallery(self, R: np.ndarray) -> PassColumns:
        """All rows as the columns of a pass, in one block."""

    def sweep(
        self,
        L: np.ndarray,
        gallery: Columns,
        target: LabelTarget,
        reduce: Callable[[Array, np.ndarray, slice], np.ndarray] | None = None,
        projected: bool = False,
        symmetric: bool = False,
    ) -> tuple[np.ndarray, float]:
        """As `Engine.sweep`; `reduce(rows, T, block)` replaces Xᵀ T by another sum over blocks."""
