"""Rows on a Dask cluster: factors travel to the blocks, and sums of size d x r travel back.

Every task is pure and made from the graph of X or from arguments that the scheduler keeps, nothing is scattered: what a
worker takes with it when it dies is computed again elsewhere. Sums are added in the order of the blocks, so that the
result does not depend on who was faster.
"""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from itertools import accumulate, pairwise
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np

from likewise.errors import LikewiseError, optional
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
from likewise.rows.sources import NpyFile, check_finite, working_dtype
from likewise.utils.threads import Arrays, added, single_threaded_blas

_FAN_IN = 8  # sums that one task adds
_GROUP_BYTES = 256 << 20  # of projected rows that one task holds
_BLOCK_BYTES = 32 << 20
_BLOCKS_A_THREAD = 4  # so that none waits long for the last


class DaskEngine(BlockedEngine):
    """Labelled rows of a dask array, on the workers of the current `distributed.Client`; its chunks are the blocks."""

    def __init__(self, X: Any, codes: np.ndarray, n_classes: int, weights: np.ndarray | None = None) -> None:
        self.client = _current_client()
        X = whole_rows(X)
        super().__init__(X.shape[1], working_dtype(X.dtype), codes, n_classes, weights)
        self._parts, self._blocks = self._labelled(X)

    @property
    def n_blocks(self) -> int:
        return len(self._blocks)

    def blocks(self) -> Iterator[RowBlock]:
        for block in self._blocks:
            yield self.gathered([block])[0]

    def sum(self, task: Task, precomputed: Arrays = ()) -> Arrays:
        sent, size = self._sent(task), blocks_at_a_time(task)
        groups = (self._blocks[i : i + size] for i in range(0, len(self._blocks), size))
        return self._added([self._submit(_sums, sent, *blocks) for blocks in groups])

    def columns(self, make: Maker, width: int, precomputed: Arrays = ()) -> Columns:
        """All rows as columns, on the workers."""
        sent = self._sent(make)
        parts = [self._submit(_columns, sent, block) for block in self._blocks]
        return ClusterColumns(self, parts, self.shape[0] * width * self.dtype.itemsize)

    def sum_against(self, task: Against, columns: Columns, precomputed: Arrays = ()) -> Arrays:
        """Sum over blocks of rows and of columns, which travel to the rows."""
        if not isinstance(columns, ClusterColumns):
            return self.sum(task.against(tuple(columns.blocks())))
        sent, groups = self._sent(task), columns.groups
        parts = [
            self._submit(lambda task, group, block: _sums(task.against((group,)), block), sent, group, block)
            for block in self._blocks
            for group in groups
        ]
        return self._added(parts, len(groups))

    def rows_at(self, rows: np.ndarray) -> np.ndarray:
        """Rows by their numbers in X, ascending: only these reach the client."""
        wanted = []
        for part, block in zip(self._parts, self._blocks, strict=True):
            inside = rows[np.searchsorted(rows, part.start) : np.searchsorted(rows, part.stop)] - part.start
            if len(inside):
                wanted.append(self._submit(lambda block, rows: block.rows[rows], block, self._places(part)[inside]))
        return np.concatenate(self.gathered(wanted))

    def gathered(self, futures: list[Any]) -> list[Any]:
        """Results on the client; what a worker raised is raised here."""
        with _explained():
            return self.client.gather(futures)

    def _labelled(self, X: Any) -> tuple[list[slice], list[Any]]:
        """Ranges of rows, and the blocks on their workers, sorted by label; X's own are let go as soon as they are."""
        import dask

        prepare, parts, blocks = dask.delayed(_prepared, pure=True), [], []
        for (a, b), chunk in zip(pairwise([0, *accumulate(X.chunks[0])]), X.to_delayed().ravel(), strict=True):
            weights = None if self.row_weights is None else self.row_weights[a:b]
            if a == b or (weights is not None and not weights.any()):
                continue
            parts.append(slice(a, b))
            blocks.append(prepare(chunk, self.row_codes[a:b], weights, self.dtype, a))
        return parts, self.client.compute(blocks, retries=2)

    def _places(self, part: slice) -> np.ndarray:
        """Where each row of a chunk is in its block, which is sorted by label; -1 for one of weight zero."""
        order = np.argsort(self.row_codes[part], kind="stable")
        if self.row_weights is not None:
            order = order[self.row_weights[part][order] > 0]
        places = np.full(part.stop - part.start, -1)
        places[order] = np.arange(len(order))
        return places

    def _sent(self, value: Any) -> Any:
        """Something for all workers, as a task that returns it: the scheduler can make it again."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Sending large graph")
            return self._submit(lambda value: value, value)

    def _submit(self, function: Any, *arguments: Any) -> Any:
        return self.client.submit(function, *arguments, pure=False)

    def _added(self, parts: list[Any], a_block: int = 1) -> Arrays:
        """The sum of what the parts come to, by a tree of tasks; `on_block` hears of every `a_block` of them."""
        from distributed import as_completed

        level = parts
        while len(level) > 1:
            level = [
                self._submit(lambda *parts: added(parts), *level[i : i + _FAN_IN])
                for i in range(0, len(level), _FAN_IN)
            ]
        for done, _ in enumerate(as_completed(parts), start=1):
            if done % a_block == 0:
                self.on_block()
        with _explained():
            totals: Arrays = level[0].result()
        return totals


class ClusterColumns:
    """Columns of a pass on the workers, in groups of blocks, as large as one task may hold."""

    def __init__(self, engine: DaskEngine, parts: list[Any], nbytes: int) -> None:
        size = max(1, int(_GROUP_BYTES * len(parts) / max(nbytes, 1)))
        self._engine = engine
        self.groups = [
            engine._submit(lambda *columns: merged_columns(columns), *parts[i : i + size])
            for i in range(0, len(parts), size)
        ]

    def blocks(self) -> Iterator[PassColumns]:
        """The galleries one after the other, brought to the client: for rows that are there."""
        for group in self.groups:
            yield self._engine.gathered([group])[0]

    @cached_property
    def linear(self) -> tuple[np.ndarray, np.ndarray]:
        engine = self._engine
        G_back, back_sum = engine._added([engine._submit(attrgetter("linear"), group) for group in self.groups])
        return G_back, back_sum


def blocks_at_a_time(task: Task) -> int:
    """Blocks that one task adds up: of sums larger than a block, few should travel or wait to be added."""
    return min(max(1, getattr(task, "result_bytes", 0) // _BLOCK_BYTES), _BLOCKS_A_THREAD)


# -- What runs on a worker --------------------------------------------------------------------------------------------


def _prepared(rows: Any, codes: np.ndarray, weights: np.ndarray | None, dtype: np.dtype, first: int) -> RowBlock:
    rows = np.asarray(rows)
    check_finite(rows, first, lambda row: f"X: row {row}")
    return labelled_block(rows, codes, weights, dtype)


def _sums(task: Task, *blocks: RowBlock) -> Arrays:
    # A worker has as many threads as it may keep busy: one task uses one.
    with single_threaded_blas():
        return added(block_sums(task, block, map) for block in blocks)


def _columns(make: Maker, block: RowBlock) -> PassColumns:
    with single_threaded_blas():
        return block_columns(make, block, map)


def _read(path: str, shape: tuple[int, int], dtype: np.dtype, offset: int, first: int, last: int) -> np.ndarray:
    return NpyFile(Path(path), shape, dtype, offset).between(first, last)


def connected(address: str) -> Any:
    """A client of the scheduler at `address`, which is the current one from now on."""
    Client = optional("distributed", "a Dask cluster", "dask").Client
    try:
        with Client(address, timeout="10s", set_as_default=False):  # one that fails would stay the current one
            pass
        return Client(address, timeout="10s")
    except (OSError, ValueError, TimeoutError) as error:
        raise LikewiseError(f"no Dask scheduler answers at {address!r}: {error}") from error


def dask_rows(file: str | os.PathLike[str] | NpyFile) -> Any:
    """A `.npy` file that every worker can see under this name, as a dask array that the workers read themselves."""
    import dask
    import dask.array as da

    source = file if isinstance(file, NpyFile) else NpyFile.open(file)
    facts = (os.path.abspath(source.path), source.shape, source.dtype, source.offset)
    threads = sum(_current_client().nthreads().values())
    n, d = source.shape
    rows = min(_BLOCK_BYTES // (d * source.dtype.itemsize), -(-n // (_BLOCKS_A_THREAD * max(threads, 1))))
    read = dask.delayed(_read, pure=True)
    parts = []
    for first in range(0, n, max(rows, 1)):
        last = min(first + max(rows, 1), n)
        parts.append(da.from_delayed(read(*facts, first, last), (last - first, d), source.dtype))
    return da.concatenate(parts)


def _current_client() -> Any:
    distributed = optional("distributed", "a dask array", "dask")
    try:
        return distributed.get_client()
    except ValueError as error:
        raise LikewiseError("X is a dask array and no Client is current: make a distributed.Client first") from error


def whole_rows(X: Any) -> Any:
    if X.ndim != 2 or X.dtype.kind not in "biuf":
        raise LikewiseError(f"X is a dask array of {X.ndim} dimensions and type {X.dtype}: expected rows of numbers")
    if any(np.isnan(size) for sizes in X.chunks for size in sizes):
        _current_client()
        X = X.compute_chunk_sizes()
    return X if X.numblocks[1] == 1 else X.rechunk({1: -1})


@contextmanager
def _explained() -> Iterator[None]:
    """Explain that the cluster lost its workers too often."""
    from distributed import KilledWorker

    try:
        yield
    except KilledWorker as error:
        raise LikewiseError(
            f"the Dask workers died several times at one block of X ({error.task}): give them more memory, or X "
            "smaller chunks"
        ) from error
