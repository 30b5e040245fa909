"""Rows that are not in memory: a `.npy` file, read ahead in a thread; blocks go to a temporary file first."""

import os
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np
import scipy.sparse as sp
from numpy.lib import format as npy
from sklearn.utils import gen_batches

from likewise.errors import FileFormatError, LikewiseError
from likewise.rows.npy import HeldFile, read_header
from likewise.utils.files import os_errors

Blocks = Iterator[tuple[slice, np.ndarray]]


class NpyFile:
    """A matrix in a `.npy` file, or at an offset of another file, read into two alternating buffers.

    Not memory-mapped: pages of a mapped file count as memory of this process until the system reclaims them. The file
    stays open, so that all passes read the same rows even if another file takes its name.
    """

    def __init__(
        self, path: Path, shape: tuple[int, int], dtype: np.dtype, offset: int, file: BinaryIO | None = None
    ) -> None:
        self.path, self.shape, self.dtype, self.offset = path, shape, np.dtype(dtype), offset
        self._row_bytes = shape[1] * self.dtype.itemsize
        self._end = offset + shape[0] * self._row_bytes
        self._begin(file)
        size = os.fstat(self._file.fileno()).st_size
        if size < self._end:
            raise self._truncated(size)

    def _begin(self, file: BinaryIO | None) -> None:
        self._file: Any = HeldFile(self.path, "rb") if file is None else file
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        """Another process opens the file by its name."""
        return {name: value for name, value in vars(self).items() if name not in ("_file", "_lock")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._begin(None)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Self:
        path = Path(path)
        try:
            file: Any = HeldFile(path, "rb")
        except FileNotFoundError as error:
            raise LikewiseError(f"{path} does not exist") from error
        shape, fortran, dtype, offset = read_header(file, os.fstat(file.fileno()).st_size, path)
        if len(shape) != 2 or 0 in shape or dtype.kind not in "biuf":
            raise FileFormatError(f"{path} has shape {shape} and type {dtype}: expected rows of real numbers")
        if fortran:
            raise FileFormatError(f"{path} is stored column by column: save it with np.ascontiguousarray first")
        return cls(path, (int(shape[0]), int(shape[1])), dtype, offset, file)

    @staticmethod
    def is_one(path: Path) -> bool:
        """Whether a file has the header of a `.npy` file, whatever its name."""
        if not path.is_file():
            return False
        with open(path, "rb") as file:
            return file.read(len(npy.MAGIC_PREFIX)) == npy.MAGIC_PREFIX

    @classmethod
    def of_memmap(cls, X: np.memmap) -> Self | None:
        """The file behind a memory-mapped matrix, at the matrix's offset; None if its rows are not contiguous."""
        if X.ndim != 2 or 0 in X.shape or not X.flags.c_contiguous or X.dtype.kind not in "biuf":
            return None
        whole: Any = X
        while isinstance(whole.base, np.memmap):  # a view keeps the offset of its base
            whole = whole.base
        name: Any = X.filename or getattr(whole, "origin", None)  # `spooled` gives the origin of its rows
        if name is None:
            return None
        offset = int(whole.offset + X.ctypes.data - whole.ctypes.data)
        return cls(Path(name), X.shape, X.dtype, offset, getattr(whole, "file", None))

    def blocks(self, block_rows: int) -> Blocks:
        """Ranges of row numbers and their rows, in order; an array is valid until the next one is requested."""
        n = self.shape[0]
        ranges = list(gen_batches(n, block_rows))
        buffers = [np.empty((min(block_rows, n), self.shape[1]), dtype=self.dtype) for _ in ranges[:2]]
        jobs = [
            lambda part=part, buffer=buffers[i % 2]: (part, self._read(part, buffer)) for i, part in enumerate(ranges)
        ]
        yield from read_ahead(iter(jobs))

    def take(self, rows: np.ndarray) -> np.ndarray:
        """Some rows, given in ascending order."""
        chosen = np.empty((len(rows), self.shape[1]), dtype=self.dtype)
        for i, row in enumerate(rows.tolist()):
            self._read(slice(row, row + 1), chosen[i : i + 1])
        return chosen

    def between(self, first: int, last: int) -> np.ndarray:
        return self._read(slice(first, last), np.empty((last - first, self.shape[1]), dtype=self.dtype))

    def place(self, row: int) -> str:
        """Where a row is, for an error message."""
        return f"{self.path}: row {row}, at byte {self.offset + row * self._row_bytes},"

    def _read(self, part: slice, buffer: np.ndarray) -> np.ndarray:
        rows, first = buffer[: part.stop - part.start], self.offset + part.start * self._row_bytes
        view, done = rows.reshape(-1).view(np.uint8), 0
        with self._lock:
            self._file.seek(first)
            while n := self._file.readinto(view[done:]):
                done += n
        if done < rows.nbytes:
            raise self._truncated(first + done)
        return rows

    def _truncated(self, byte: int) -> FileFormatError:
        return FileFormatError(
            f"{self.path} is truncated: it ends at byte {byte}, and {self.shape[0]} rows of {self.shape[1]} "
            f"need {self._end} bytes"
        )


def spooled(
    blocks: Callable[[], Iterable[Any]] | Iterable[Any],
    name: str = "X",
    probe: Callable[[np.ndarray], object] = lambda row: None,
) -> np.memmap:
    """Blocks of rows, from an iterable or a function that returns one, as a map of an anonymous temporary file.

    `probe` is called with the first row before the others are read, so that a wrong width is reported at once.
    """
    with tempfile.TemporaryFile(prefix="likewise-") as file:
        n, first = 0, None
        for block in blocks() if callable(blocks) else blocks:
            rows = block if sp.issparse(block) else np.asarray(block)
            if sp.issparse(rows) or rows.ndim != 2 or rows.shape[1] == 0 or rows.dtype.kind not in "biuf":
                kind = f"type {type(block).__name__}, {rows.dtype}, and shape {rows.shape}"
                raise LikewiseError(f"{name} gives a block of {kind}; expected dense rows of numbers")
            if first is not None and not (rows.shape[1] == first.shape[1] and np.can_cast(rows.dtype, first.dtype)):
                kind = f"{rows.shape[1]} columns and type {rows.dtype} after one of {first.shape[1]} and {first.dtype}"
                raise LikewiseError(f"{name} gives a block of {kind}; expected blocks of one kind")
            first = rows[:0] if first is None else first
            if not len(rows):
                continue
            if not n:
                probe(rows[:1])
            what = f"cannot keep the rows of {name} in {tempfile.gettempdir()}"
            with os_errors(what, "; set TMPDIR to a folder with space"):
                file.write(np.ascontiguousarray(rows, dtype=first.dtype).data)
                file.flush()
            n += len(rows)
        if first is None or not n:
            raise LikewiseError(f"{name} gives no row: expected blocks of shape (rows, d)")
        held = HeldFile(os.dup(file.fileno()), "rb")
    array: Any = np.memmap(held, first.dtype, "r", shape=(n, first.shape[1]))
    array.file, array.origin = held, name
    return array


def read_ahead(jobs: Iterator[Callable[[], Any]]) -> Iterator[Any]:
    """The result of each job, with the next one under way in a thread."""
    with ThreadPoolExecutor(1, thread_name_prefix="likewise-read") as pool:
        waiting = [pool.submit(job) for job in islice(jobs, 1)]
        while waiting:
            result = waiting.pop().result()
            waiting = [pool.submit(job) for job in islice(jobs, 1)]
            yield result


def working_dtype(dtype: np.dtype) -> np.dtype:
    """The precision to compute in: float32 for what it holds exactly, float64 for the rest."""
    return np.dtype(np.float32 if np.can_cast(dtype, np.float32) else np.float64)


def check_finite(rows: np.ndarray, first: int, place: Callable[[int], str]) -> None:
    """Raise an error that names the row, if a value is not finite."""
    if rows.dtype.kind != "f" or np.isfinite(rows.sum(dtype=np.float64)):
        return
    bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if len(bad):
        raise LikewiseError(f"{place(first + int(bad[0]))} holds NaN or infinity: every value must be finite")
