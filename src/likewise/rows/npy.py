"""NumPy's `.npy` and `.npz` files with their claims checked: nothing is allocated that a file cannot hold."""

import io
import math
import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO, NamedTuple, Self

import numpy as np
from numpy.lib import format as npy

from likewise.errors import FileFormatError, LikewiseError

_MOST_HEADER = 12_000  # bytes; NumPy reads headers of up to 10,000
_BLOCK = 1 << 22
_MOST_RATIO = 1032  # no deflated data is larger than this many times its compressed size


class NpyHeader(NamedTuple):
    """What the header of a `.npy` file says, and where its numbers begin."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]
    offset: int

    @property
    def n_bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


@contextmanager
def explained(path: str | os.PathLike[str], kind: str) -> Iterator[None]:
    """Turn whatever NumPy and zipfile raise on a damaged file into one sentence that names it."""
    try:
        yield
    except (LikewiseError, FileNotFoundError):
        raise
    except Exception as error:  # NumPy parses a header as Python: TokenError, SyntaxError, RecursionError, …
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise FileFormatError(f"{path} is not a {kind} file, or it is truncated: {reason}") from error


def read_header(file: BinaryIO | Any, size: int, name: str | os.PathLike[str]) -> NpyHeader:
    """The header of a `.npy` file of `size` bytes, opened at its beginning; it may claim no more than is there."""
    with explained(name, ".npy"):
        start = io.BytesIO(file.read(min(size, _MOST_HEADER)))
        version = npy.read_magic(start)
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        header = NpyHeader(*read(start), start.tell())
        if not header.dtype.itemsize or any(n < 0 for n in header.shape):
            raise ValueError(f"its header has shape {header.shape} and type {header.dtype}")
        if header.n_bytes > size - header.offset and not header.dtype.hasobject:
            raise ValueError(
                f"its header has shape {header.shape} and type {header.dtype}, {header.n_bytes:,} bytes, "
                f"and {max(size - header.offset, 0):,} follow it"
            )
        return header


def mapped(path: Path) -> np.ndarray:
    """The array of a `.npy` file, memory-mapped; pickled objects are refused.

    Its `file` stays open: who reads it instead of the map reads the same file, whatever has its name by then.
    """
    with explained(path, ".npy"):
        file = open(path, "rb", buffering=0)  # noqa: SIM115 (it stays open)
        if file.read(2) == b"PK":
            raise FileFormatError(f"{path} is a .npz archive with the name of a .npy file: rename it")
        file.seek(0)
        header = read_header(file, os.fstat(file.fileno()).st_size, path)
        _refuse_objects(header, path)
        order: Any = "F" if header.fortran else "C"
        array: Any = np.memmap(file, header.dtype, "r", header.offset, header.shape, order)
        array.file = file
        return array


def _refuse_objects(header: NpyHeader, path: Path) -> None:
    if header.dtype.hasobject:
        raise FileFormatError(f"{path} holds pickled objects, which can run code: save numbers, and labels as text")


class Archive:
    """The arrays of a `.npz` file by their keys; what they claim is compared with the size of the file."""

    def __init__(self, path: Path) -> None:
        self.path, self.size = path, path.stat().st_size
        self._zip = zipfile.ZipFile(path)
        entries = {info.filename.removesuffix(".npy"): info for info in self._zip.infolist()}
        self._headers = {key: self._checked(key, info) for key, info in entries.items()}
        self._entries = entries

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()

    @property
    def keys(self) -> list[str]:
        return list(self._headers)

    def header(self, key: str) -> NpyHeader:
        return self._headers[key]

    def read(self, key: str) -> np.ndarray:
        """One array, as `np.load` gives it."""
        header = self._headers[key]
        _refuse_objects(header, self.path)
        array = np.empty(header.shape[::-1] if header.fortran else header.shape, header.dtype)
        with self._zip.open(self._entries[key]) as file:
            file.read(header.offset)
            _fill(array.reshape(-1).view(np.uint8) if array.nbytes else array, file)
            file.read(1)  # at the end the checksum is compared
        return array.T if header.fortran else array

    def _checked(self, key: str, info: zipfile.ZipInfo) -> NpyHeader:
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise FileFormatError(f"{self.path}[{key}] is compressed in a way that NumPy does not write")
        if info.compress_size > self.size or info.file_size > max(1, info.compress_size) * _MOST_RATIO:
            raise FileFormatError(
                f"{self.path}[{key}] claims {info.file_size:,} bytes in {info.compress_size:,}, "
                f"and the file has {self.size:,}: it is damaged"
            )
        with self._zip.open(info) as file:
            return read_header(file, info.file_size, f"{self.path}[{key}]")


def _fill(array: np.ndarray, file: IO[bytes]) -> None:
    """Read an array of bytes block by block."""
    for first in range(0, array.nbytes, _BLOCK):
        block = file.read(min(_BLOCK, array.nbytes - first))
        array[first : first + _BLOCK] = np.frombuffer(block, np.uint8)
