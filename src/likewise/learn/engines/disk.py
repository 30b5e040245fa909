"""Rows on disk, visited in blocks that keep to a memory limit; a long pass keeps its sums in a file."""

from __future__ import annotations

import json
import logging
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Self

import numpy as np

from likewise.errors import LikewiseError
from likewise.learn.engines.memory import BlockedEngine, block_columns, block_sums, labelled_block, merged_columns
from likewise.learn.maths.engine import Against, Columns, Maker, RowBlock, SavedSums, Task
from likewise.learn.maths.passes import PassColumns
from likewise.rows.npy import Archive
from likewise.rows.sources import Source, check_finite, read_ahead, read_exactly, working_dtype
from likewise.utils.files import atomic_write
from likewise.utils.threads import Arrays, accumulated, added

log = logging.getLogger("likewise")

DEFAULT_LIMIT = 1_000_000_000
_LARGEST_BLOCK = 32 << 20  # bytes as read; larger blocks are no faster
_SMALLEST_ROWS = 64
_COPIES = 4  # of a block: two buffers, the rows sorted by label, and the result of a task
SECONDS = 60.0  # of a pass that may be lost when its process is killed
SHARE = 30  # writing the sums of a pass takes at most this fraction of its time, as 1 / SHARE
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


def in_bytes(limit: Any) -> int:
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
    def of(cls, limit: Any, d: int, row_bytes: int, n: int) -> Self:
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
    """Labelled rows of a `Source`, within a memory limit.

    Blocks are visited in the order of the file and sorted by label one by one, so that pairs of one label are still
    rectangles of a tile.
    """

    def __init__(
        self,
        source: Source,
        codes: np.ndarray,
        n_classes: int,
        weights: np.ndarray | None = None,
        memory_limit: Any = DEFAULT_LIMIT,
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
        return self._summed(lambda block: block_sums(task, block), getattr(task, "saved", None))

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

    def _summed(self, work: Callable[[RowBlock], Arrays], saved: SavedSums | None = None) -> Arrays:
        """Sum over blocks; those whose sums are `saved` are skipped."""
        done, totals = (0, ()) if saved is None else saved.read()

        def parts() -> Iterator[Arrays]:
            if done:
                yield totals
            for number, block in enumerate(self.blocks(), start=1):
                if number > done:
                    yield work(block)
                self.on_block()

        number = done
        for number, totals in enumerate(accumulated(parts()), start=max(done, 1)):
            if saved is not None:
                saved.keep(number, totals)
        if saved is not None:
            saved.keep(number, totals, last=True)
        return totals


class SpilledColumns:
    """Columns of a pass in blocks, in an anonymous temporary file, read ahead block by block."""

    def __init__(self, blocks: Iterator[PassColumns]) -> None:
        self._file: IO[bytes] = tempfile.TemporaryFile(prefix="likewise-")  # noqa: SIM115 (kept open)
        self._labels: list[tuple[np.ndarray, np.ndarray | None]] = []
        for block in blocks:
            self._write(block.G if block.extra is None else np.hstack([block.G, block.extra.astype(block.G.dtype)]))
            self._labels.append((block.starts, block.weights))
            self._rank, self._dtype = block.G.shape[1], block.G.dtype
            self._width = self._rank + (0 if block.extra is None else block.extra.shape[1])

    def blocks(self) -> Iterator[PassColumns]:
        sizes = [int(starts[-1]) for starts, _ in self._labels]
        ends = np.cumsum([0, *sizes]) * self._width * self._dtype.itemsize
        jobs = (lambda i=i: self._read(int(ends[i]), *self._labels[i]) for i in range(len(sizes)))
        yield from read_ahead(jobs)

    @cached_property
    def linear(self) -> tuple[np.ndarray, np.ndarray]:
        G_back, back_sum = added(block.linear for block in self.blocks())
        return G_back, back_sum

    def _write(self, G: np.ndarray) -> None:
        try:
            self._file.write(G.data)
            self._file.flush()
        except OSError as error:
            raise LikewiseError(
                f"cannot keep the projected rows in {tempfile.gettempdir()}: {error.strerror}; raise memory_limit, or "
                "set TMPDIR to a folder with space"
            ) from error

    def _read(self, offset: int, starts: np.ndarray, weights: np.ndarray | None) -> PassColumns:
        G = np.empty((int(starts[-1]), self._width), dtype=self._dtype)
        if read_exactly(self._file, offset, G) < G.nbytes:
            raise LikewiseError("the temporary file of projected rows was truncated by another process")
        extra = None if self._rank == self._width else G[:, self._rank :]
        return PassColumns(np.ascontiguousarray(G[:, : self._rank]), starts, weights, extra)


class PartialSums:
    """A file with the sums of the first blocks of a long pass, so that a pass that was killed can be resumed.

    `key` identifies the pass: sums of another one are not used.
    """

    def __init__(self, path: Path, key: str) -> None:
        self.path, self.key = path, key
        self._next_write, self._n_written = time.perf_counter() + SECONDS, 0

    def read(self) -> tuple[int, Arrays]:
        """How many blocks were summed, and their sums; 0 and nothing without a file of this key."""
        if not self.path.exists():
            return 0, ()
        with open(self.path, "rb") as file:
            if file.read(2) != b"PK":
                raise LikewiseError(f"{self.path} is not a file of partial sums: move it, or name another checkpoint")
        try:
            with Archive(self.path) as archive:
                header = json.loads(str(archive.read("header")))
                sums = tuple(archive.read(f"sum{i}") for i in range(len(archive.keys) - 1))
            n_blocks, key = int(header["n_blocks"]), header["key"]
        except Exception as error:  # whatever zipfile and NumPy raise
            log.warning("%s is damaged (%s): the pass starts from its first block", self.path, error)
            return 0, ()
        self._n_written = n_blocks
        return (n_blocks, sums) if key == self.key else (0, ())

    def keep(self, n_blocks: int, sums: Arrays, *, last: bool = False) -> None:
        """Write the sums of the first blocks if the last write is long ago; the `last` sums if any were written."""
        began = time.perf_counter()
        if n_blocks <= self._n_written or not (began >= self._next_write or (last and self._n_written)):
            return
        header = np.array(json.dumps({"key": self.key, "n_blocks": n_blocks}))
        arrays: dict[str, Any] = {f"sum{i}": part for i, part in enumerate(sums)}
        atomic_write(self.path, lambda file: np.savez(file, header=header, **arrays))
        now = time.perf_counter()
        self._n_written, self._next_write = n_blocks, now + max(SECONDS, SHARE * (now - began))

    def remove(self) -> None:
        """Delete the file after the fit."""
        if self._n_written:
            self.path.unlink(missing_ok=True)
