"""Sums of a long pass over blocks of rows, kept in a file: a pass that was killed goes on after its last block."""

import logging
import time
import zlib
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from likewise.utils.files import atomic_write
from likewise.utils.threads import Arrays

log = logging.getLogger("likewise")

SECONDS = 60.0  # that a killed pass may lose
SHARE = 30  # of the time between two writes, one part in so many is for writing


class PartialSums:
    """A file with the sums of the first blocks; `key` says of what, and those of anything else are not used."""

    def __init__(self, path: Path, key: str) -> None:
        self.path, self.key = path, key
        self._next, self._done = time.perf_counter() + SECONDS, 0

    def read(self) -> tuple[int, Arrays]:
        """How many blocks were summed, and their sums; 0 and nothing without a file of this key."""
        if not self.path.is_file():
            return 0, ()
        try:
            with open(self.path, "rb") as file:
                key, done, checksum, sums = self._content(file)
        except (OSError, ValueError, EOFError, MemoryError) as error:
            log.warning("%s cannot be read (%s): the pass begins anew", self.path, error)
            return 0, ()
        if checksum != _checksum(sums):
            log.warning("%s is damaged: the pass begins anew", self.path)
            return 0, ()
        if key != self.key:
            return 0, ()
        self._done = done
        return done, sums

    def _content(self, file: BinaryIO) -> tuple[str, int, int, Arrays]:
        key, done, checksum, n = file.readline().decode("ascii").split()
        return key, int(done), int(checksum), tuple(np.load(file, allow_pickle=False) for _ in range(int(n)))

    def keep(self, done: int, sums: Arrays, *, last: bool = False) -> None:
        """Write the sums of the first `done` blocks where the last time is long ago; the `last` if any were written."""
        began = time.perf_counter()
        if done <= self._done or not (began >= self._next or (last and self._done)):
            return

        def write(file: BinaryIO) -> None:
            file.write(f"{self.key} {done} {_checksum(sums)} {len(sums)}\n".encode("ascii"))
            for array in sums:
                np.save(file, array, allow_pickle=False)

        atomic_write(self.path, write)
        now = time.perf_counter()
        self._done, self._next = done, now + max(SECONDS, SHARE * (now - began))

    def remove(self) -> None:
        """Delete the file, which nobody needs after the fit."""
        self.path.unlink(missing_ok=True)


def _checksum(sums: Any) -> int:
    found = 0
    for array in sums:
        found = zlib.crc32(np.ascontiguousarray(array).data, found)
    return found
