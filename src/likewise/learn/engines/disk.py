"""Rows on disk, visited in blocks that keep to a memory limit."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import Self

import numpy as np

from likewise.errors import LikewiseError
from likewise.learn.maths.engine import (
    Against,
    BlockedEngine,
    Columns,
    Maker,
    RowBlock,
    Task,
    block_columns,
    block_sums,
    labelled_block,
    merged_columns,
)
from likewise.learn.maths.passes import PassColumns
from likewise.rows.sources import NpyFile, check_finite, read_ahead, spooled, working_dtype
from likewise.utils.threads import Arrays, added

DEFAULT_LIMIT = 1_000_000_000
_LARGEST_BLOCK = 32 << 20  # bytes as read; larger blocks are no faster
_SMALLEST_ROWS = 64
_COPIES = 4  # of a block: two buffers, the rows sorted by label, and the result of a task
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


def in_bytes(limit: int | str) -> int:
    """Bytes from a number, or from a size such as "1GB" or "512 MiB"."""
    if isinstance(limit, int | np.integer) and not isinstance(limit, bool) and limit > 0:
        return int(limit)
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]i?)?b?\s*", str(limit).lower())
    if match is None or isinstance(limit, bool) or float(match[1]) <= 0:
        raise LikewiseError(f"memory_limit={limit!r}: expected bytes as a positive number, or words such as '1GB'")
    return int(float(match[1]) * _UNITS[match[2] or ""])


@dataclass(frozen=True)
class MemoryBudget:
    """Rows to read at a time, and bytes above which the projected gallery goes to a file."""

    block_rows: int
    gallery_bytes: int

    @classmethod
    def of(cls, limit: int | str, d: int, row_bytes: int, n: int) -> Self:
        """Divide `limit` for n rows of `row_bytes` bytes and d columns.

        What every fit needs comes first: the d x d Gram matrix with its eigenvectors and their workspace, and some
        numbers per row for labels and order. An eighth goes to a block, up to 32 MB; half of the rest to the gallery.
        """
        total = in_bytes(limit)
        fixed = 6 * 8 * d * d + 40 * n
        row = _COPIES * max(row_bytes, 4 * d)
        if total - fixed < _SMALLEST_ROWS * row:
            needed = (fixed + _SMALLEST_ROWS * row) * 1.1
            raise LikewiseError(
                f"memory_limit={limit!r} is too little for {n} rows of {d}: their labels, a {d} x {d} matrix and its "
                f"eigenvectors need about {needed / 1e6:.0f} MB"
            )
        rows = max(min(_LARGEST_BLOCK // row_bytes, (total - fixed) // (2 * row), n), _SMALLEST_ROWS)
        return cls(int(rows), int(max(total - fixed - rows * row, 0) // 2))


class DiskEngine(BlockedEngine):
    """Labelled rows of a file, within a memory limit.

    Blocks are visited in the order of the file and sorted by label one by one, so that pairs of one label are still
    rectangles of a tile.
    """

    def __init__(
        self,
        source: NpyFile,
        codes: np.ndarray,
        n_classes: int,
        weights: np.ndarray | None = None,
        memory_limit: int | str = DEFAULT_LIMIT,
    ) -> None:
        n, d = source.shape
        super().__init__(d, working_dtype(source.dtype), codes, n_classes, weights)
        self.source = source
        self.budget = MemoryBudget.of(memory_limit, d, d * max(source.dtype.itemsize, self.dtype.itemsize), n)
        self._checked = False

    @property
    def n_blocks(self) -> int:
        return -(-self.source.shape[0] // self.budget.block_rows)

    def blocks(self) -> Iterator[RowBlock]:
        """The rows, block by block; the first time that all of them are read they are checked to be finite."""
        for part, rows in self.source.blocks(self.budget.block_rows):
            if not self._checked:
                check_finite(rows, part.start, self.source.place)
            weights = None if self.row_weights is None else self.row_weights[part]
            block = labelled_block(rows, self.row_codes[part], weights, self.dtype)
            if len(block.codes):
                yield block
        self._checked = True

    def sum(self, task: Task, precomputed: Arrays = ()) -> Arrays:
        return self._summed(lambda block: block_sums(task, block))

    def columns(self, make: Maker, width: int, precomputed: Arrays = ()) -> Columns:
        """All rows as columns, in blocks: in memory, or in a file where the limit has no room."""
        blocks = (block_columns(make, block) for block in self.blocks())
        if self.shape[0] * width * self.dtype.itemsize <= self.budget.gallery_bytes:
            return merged_columns(list(blocks))
        return SpilledColumns(blocks)

    def sum_against(self, task: Against, columns: Columns, precomputed: Arrays = ()) -> Arrays:
        """Sum over blocks of rows and of columns; columns from a file are read once for each block of rows."""

        def against_all(block: RowBlock) -> Arrays:
            if isinstance(columns, SpilledColumns):
                return added(block_sums(task.against((part,)), block) for part in columns.blocks())
            return block_sums(task.against(tuple(columns.blocks())), block)

        return self._summed(against_all)

    def rows_at(self, rows: np.ndarray) -> np.ndarray:
        return self.source.take(rows)

    def _summed(self, work: Callable[[RowBlock], Arrays]) -> Arrays:
        def parts() -> Iterator[Arrays]:
            for block in self.blocks():
                yield work(block)
                self.on_block()

        return added(parts())


class SpilledColumns:
    """Columns of a pass in blocks, in an anonymous temporary file, read ahead block by block."""

    def __init__(self, blocks: Iterator[PassColumns]) -> None:
        self._labels: list[tuple[np.ndarray, np.ndarray | None]] = []

        def rows() -> Iterator[np.ndarray]:
            for block in blocks:
                self._labels.append((block.starts, block.weights))
                self._rank = block.G.shape[1]
                yield block.G if block.extra is None else np.hstack([block.G, block.extra.astype(block.G.dtype)])

        file = NpyFile.of_memmap(spooled(rows(), "a pass"))
        assert file is not None
        self._file = file

    def blocks(self) -> Iterator[PassColumns]:
        ends = np.cumsum([0, *(int(starts[-1]) for starts, _ in self._labels)]).tolist()
        parts = read_ahead(partial(self._file.between, first, last) for first, last in pairwise(ends))
        for (starts, weights), rows in zip(self._labels, parts, strict=True):
            G, extra = np.ascontiguousarray(rows[:, : self._rank]), rows[:, self._rank :]
            yield PassColumns(G, starts, weights, extra if extra.size else None)

    @cached_property
    def linear(self) -> tuple[np.ndarray, np.ndarray]:
        G_back, back_sum = added(block.linear for block in self.blocks())
        return G_back, back_sum
