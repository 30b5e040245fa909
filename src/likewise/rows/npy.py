"""NumPy's `.npy` and `.npz` files with sizes checked before anything is allocated."""

import io
import math
import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Self

import numpy as np
from numpy.lib import format as npy

from likewise.errors import FileFormatError, LikewiseError

_MOST_HEADER = 12_000  # bytes; NumPy reads headers of up to 10,000
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


class HeldFile(io.FileIO):
    """A file that stays open as long as something refers to it, and is then closed without a warning."""

    def __del__(self) -> None:
        self.close()


def mapped(path: Path) -> np.ndarray:
    """The array of a `.npy` file, memory-mapped; pickled objects are refused.

    Its `file` stays open: who reads it instead of the map reads the same file, whatever has its name by then.
    """
    with explained(path, ".npy"):
        file: Any = HeldFile(os.fspath(path), "rb")  # by a string: NumPy keeps no other name
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
    """The arrays of a `.npz` file by their keys; sizes are compared with that of the file before anything is read."""

    def __init__(self, path: Path) -> None:
        self.path, self.size = path, path.stat().st_size
        self._zip = zipfile.ZipFile(path)
        self._headers: dict[str, NpyHeader] = {}
        for info in self._zip.infolist():
            name = f"{path}[{info.filename.removesuffix('.npy')}]"
            if info.file_size > self.size * _MOST_RATIO:
                raise FileFormatError(f"{name} claims {info.file_size:,} bytes in a file of {self.size:,}: damaged")
            with self._zip.open(info) as file:
                self._headers[info.filename] = read_header(file, info.file_size, name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()

    @property
    def keys(self) -> list[str]:
        return [name.removesuffix(".npy") for name in self._headers]

    def header(self, key: str) -> NpyHeader:
        return self._headers[key if key in self._headers else f"{key}.npy"]

    def read(self, key: str) -> np.ndarray:
        """One array, as `np.load` gives it."""
        _refuse_objects(self.header(key), self.path)
        with self._zip.open(key if key in self._headers else f"{key}.npy") as file:
            array: np.ndarray = npy.read_array(file, allow_pickle=False)
            file.read(1)  # at the end of the file its checksum is compared
        return array
