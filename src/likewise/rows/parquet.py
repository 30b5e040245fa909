"""Rows of a Parquet file that is larger than memory: its vectors are read row group by row group, at every pass."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from likewise.errors import LikewiseError
from likewise.rows.arrays import list_rows, read_parquet, readable_parquet
from likewise.rows.sources import Blocks, read_ahead
from likewise.rows.table import Table

_BUFFER = 1 << 20  # bytes of a column that are read at a time: without it a whole row group is


def is_parquet(path: Path) -> bool:
    """Whether a file is called a Parquet file."""
    return path.suffix.lower() in (".parquet", ".pq")


def streamed_parquet(path: Path, vector: str | None = None, label: str | None = None) -> Table:
    """A Parquet file as a table whose vectors, a column of lists of one length, stay in the file."""
    if not path.is_file():
        raise LikewiseError(f"{path} does not exist")
    return read_parquet(path, vector, label, opened=ParquetRows)


class ParquetRows:
    """A column of vectors in a Parquet file, as `NpyFile` is a matrix in a `.npy` file."""

    def __init__(self, path: Path, column: str) -> None:
        self.path, self.column = path, column
        with self._opened() as file:
            groups = [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
            self._ends = [0, *accumulate(groups)]
            first = next(file.iter_batches(1, columns=[column]))
        rows = list_rows(path, first.column(0), column)
        if rows.shape[1] == 0:
            raise LikewiseError(f"row 1 of {path} has no numbers in {column!r}: expected a list of numbers")
        self.shape, self.dtype = (self._ends[-1], rows.shape[1]), rows.dtype

    def blocks(self, block_rows: int) -> Blocks:
        """Ranges of row numbers and their rows, in order, the next ones being read in a thread."""
        yield from self._read(range(len(self._ends) - 1), block_rows)

    def take(self, rows: np.ndarray) -> np.ndarray:
        """Some rows, given in ascending order; only their row groups are read."""
        holding = [i for i, (first, last) in enumerate(pairwise(self._ends)) if np.any((rows >= first) & (rows < last))]
        found = [np.empty((0, self.shape[1]), self.dtype)]
        for part, block in self._read(holding, 4096):
            inside = rows[np.searchsorted(rows, part.start) : np.searchsorted(rows, part.stop)]
            found.append(block[inside - part.start])
        return np.concatenate(found)

    def place(self, row: int) -> str:
        """Where a row is, for an error message."""
        return f"{self.path}: row {row}"

    def _read(self, groups: Sequence[int], block_rows: int) -> Blocks:
        with self._opened() as file:
            parts = self._parts(file, groups, block_rows)
            for found in read_ahead(iter(lambda: lambda: next(parts, None), 0)):
                if found is None:
                    return
                yield found

    def _parts(self, file: Any, groups: Sequence[int], block_rows: int) -> Blocks:
        for group in groups:
            first = self._ends[group]
            for batch in file.iter_batches(block_rows, row_groups=[group], columns=[self.column]):
                rows = list_rows(self.path, batch.column(0), self.column, first, self.shape[1])
                yield slice(first, first + len(rows)), rows
                first += len(rows)

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        with (
            readable_parquet(self.path) as parquet,
            parquet.ParquetFile(self.path, buffer_size=_BUFFER, pre_buffer=False) as file,
        ):
            yield file
