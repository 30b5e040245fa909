"""Sums of a long pass over blocks of rows, kept in a file: a pass that was killed goes on after its last block."""

import json
import logging
import os
import time
import zlib
from math import prod
from pathlib import Path
from typing import BinaryIO

import numpy as np

from likewise.errors import LikewiseError
from likewise.utils.files import atomic_write
from likewise.utils.threads import Arrays

log = logging.getLogger("likewise")

SECONDS = 60.0  # that a killed pass may lose
SHARE = 30  # of the time between two writes, one part in so many is for writing
_MAGIC = b"likewise sums "
_MOST_HEADER = 1 << 16  # bytes


class PartialSums:
    """A file with the sums of the first blocks; `key` says of what, and those of anything else are not used."""

    def __init__(self, path: Path, key: str) -> None:
        self.path, self.key = path, key
        self._next, self._done = time.perf_counter() + SECONDS, 0

    def read(self) -> tuple[int, Arrays]:
        """How many blocks were summed, and their sums; 0 and nothing without a file of this key."""
        if not self.path.exists():
            return 0, ()
        try:
            with open(self.path, "rb") as file:
                self._done, sums = self._content(file)
        except LikewiseError:  # somebody else's
            raise
        except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            log.warning("%s is damaged (%s): the pass begins anew", self.path, error)
            return 0, ()
        return self._done, sums

    def _content(self, file: BinaryIO) -> tuple[int, Arrays]:
        """A line of JSON, then the numbers; the line is believed only as far as the size of the file bears it out."""
        line = file.readline(_MOST_HEADER)
        if not line.startswith(_MAGIC):
            raise LikewiseError(f"{self.path} is no file of sums: move it away, or name another checkpoint")
        header = json.loads(line.removeprefix(_MAGIC))
        shapes = [tuple(map(int, shape)) for shape in header["shapes"]]
        there = os.fstat(file.fileno()).st_size - len(line)
        if min((min(shape, default=0) for shape in shapes), default=0) < 0 or 8 * sum(map(prod, shapes)) != there:
            raise ValueError("its size is not what it says")
        sums = tuple(np.fromfile(file, np.float64, prod(shape)).reshape(shape) for shape in shapes)
        if header["checksum"] != _checksum(sums):
            raise ValueError("its checksum does not match")
        return (int(header["done"]), sums) if header["key"] == self.key else (0, ())

    def keep(self, done: int, sums: Arrays, *, last: bool = False) -> None:
        """Write the sums of the first `done` blocks where the last time is long ago; the `last` if any were written."""
        began = time.perf_counter()
        if done <= self._done or not (began >= self._next or (last and self._done)):
            return
        header = {"key": self.key, "done": done, "checksum": _checksum(sums), "shapes": [part.shape for part in sums]}

        def write(file: BinaryIO) -> None:
            file.write(_MAGIC + json.dumps(header).encode("ascii") + b"\n")
            for part in sums:
                file.write(np.ascontiguousarray(part).data)

        atomic_write(self.path, write)
        now = time.perf_counter()
        self._done, self._next = done, now + max(SECONDS, SHARE * (now - began))

    def remove(self) -> None:
        """Delete the file, which nobody needs after the fit."""
        if self._done:
            self.path.unlink(missing_ok=True)


def _checksum(sums: Arrays) -> int:
    found = 0
    for part in sums:
        found = zlib.crc32(np.ascontiguousarray(part).data, found)
    return found
