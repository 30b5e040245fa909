"""Rows of a Parquet file that is larger than memory: its vectors are read row group by row group, at every pass."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from likewise.data.sources import Blocks, read_ahead
from likewise.errors import FileFormatError, LikewiseError, optional
from likewise.tables.table import Table, named_column, tidy_labels

_BUFFER = 1 << 20  # bytes of a column that are read at a time: without it a whole row group is


def from_parquet(path: str | os.PathLike[str], vector: str = "embedding", *, label: str | None = None) -> Table:
    """Vectors in a Parquet file, which stay there, with its labels and ids: `fit` and `Index.build` take it.

    Parameters
    ----------
    path : a file with a column of lists of numbers, all of one length
    vector : the name of that column
    label : the column of the labels, if it is not called label, y, target, class or category

    Examples
    --------
    >>> import pyarrow as pa, pyarrow.parquet as pq
    >>> from likewise import SLR, from_parquet
    >>> X, y = np.random.default_rng(0).standard_normal((60, 4)), np.arange(60) % 3
    >>> pq.write_table(pa.table({"embedding": list(X), "topic": y}), "rows.parquet")
    >>> SLR(rank=2).fit(from_parquet("rows.parquet", label="topic")).n_features_in_
    4
    """
    path = Path(path)
    if not path.is_file():
        raise LikewiseError(f"{path} does not exist")
    rows = ParquetRows(path, vector)
    columns = [name for name in rows.columns if name != vector]
    wanted, name = named_column(path, columns, label), named_column(path, columns, None, ("id", "ids"))
    found = {column: _column(path, column) for column in (wanted, name) if column is not None}
    y = None if wanted is None else tidy_labels(found[wanted])
    return Table(rows, y, None if name is None else list(map(str, found[name])), str(path))


class ParquetRows:
    """A column of vectors in a Parquet file, as `NpyFile` is a matrix in a `.npy` file."""

    def __init__(self, path: Path, column: str) -> None:
        self.path, self.column = path, column
        with self._opened() as file:
            self.columns = list(file.schema_arrow.names)
            named_column(path, self.columns, column)
            groups = [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
            self._ends = [0, *accumulate(groups)]
            first = next(file.iter_batches(1, columns=[column]), None)
        if first is None:
            raise LikewiseError(f"{path} is empty: it has columns and no rows")
        rows = self._matrix(first.column(0), 0, None)
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
                rows = self._matrix(batch.column(0), first, self.shape[1])
                yield slice(first, first + len(rows)), rows
                first += len(rows)

    def _matrix(self, values: Any, first: int, width: int | None) -> np.ndarray:
        """A column of lists as a matrix; a missing or a shorter row is named."""
        import pyarrow.compute as pc
        import pyarrow.types as pt

        values = getattr(values, "storage", values)  # an Arrow tensor column keeps its numbers in there
        is_list = pt.is_list(values.type) or pt.is_large_list(values.type) or pt.is_fixed_size_list(values.type)
        kind = values.type.value_type if is_list else None
        if not (is_list and (pt.is_integer(kind) or pt.is_floating(kind) or pt.is_boolean(kind))):
            raise LikewiseError(f"column {self.column!r} of {self.path} is {values.type}: expected lists of numbers")
        widths = pc.fill_null(pc.list_value_length(values), -1).to_numpy(zero_copy_only=False)
        width = int(widths[0]) if width is None else width
        wrong = np.flatnonzero((widths != width) | (widths < 1))
        if len(wrong):
            row, has = first + int(wrong[0]), int(widths[wrong[0]])
            said = "nothing" if has < 0 else f"{has} numbers"
            expected = f"{width} numbers" if width > 0 else "a list of numbers"
            raise LikewiseError(f"row {row + 1} of {self.path} has {said} in {self.column!r}: expected {expected}")
        return values.flatten().to_numpy(zero_copy_only=False).reshape(len(values), width)

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        """The file; what Arrow raises on a damaged one becomes one sentence."""
        parquet, pa = (optional(name, f"reading {self.path}", "parquet") for name in ("pyarrow.parquet", "pyarrow"))
        try:
            with parquet.ParquetFile(self.path, buffer_size=_BUFFER, pre_buffer=False) as file:
                yield file
        except (pa.ArrowException, OSError) as error:
            raise FileFormatError(f"{self.path} is not a Parquet file, or it is damaged: {error}") from error


def _column(path: Path, name: str) -> list[Any]:
    import pyarrow.parquet as pq

    return pq.read_table(path, columns=[name])[name].to_pylist()
