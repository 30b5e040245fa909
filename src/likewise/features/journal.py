"""What a run has done so far, safe against being killed at any moment, and the step that makes it the store.

All of it lives in the folder `.work` inside the store. `rows.bin` grows by one batch of raw rows, is synced, and only
then `journal.jsonl` grows by the line that describes them; whatever lies beyond the last whole line never happened.
The finished files are written to `new`, the file `commit` says that they are whole, and then they are moved into place:
a run that finds `commit` finishes the moving first.
"""

from __future__ import annotations

import json
import os
import shutil
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from likewise.errors import LikewiseError
from likewise.features.folder import Found
from likewise.tables.store import escape, unescape
from likewise.utils.files import atomic_write

try:
    import fcntl
except ImportError:  # not a POSIX system: one writer is then up to the user
    fcntl = None  # type: ignore[assignment]

__all__ = ["Batch", "Journal", "Lock", "commit", "recover"]

_FILES = ("features.npy", "items.csv", "skipped.csv", "extractor.safetensors", "meta.json")


class Lock:
    """One writer a store: held until the process ends, however it ends."""

    def __init__(self, store: Path) -> None:
        self.store = store

    def __enter__(self) -> Lock:
        try:
            self.store.mkdir(parents=True, exist_ok=True)
            self.file = open(self.store / ".lock", "ab")
        except OSError as error:
            raise LikewiseError(f"cannot write to {self.store}: {error.strerror or error}") from error
        try:
            if fcntl is not None:
                fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.file.close()
            raise LikewiseError(f"{self.store} is being written by another process; wait for it to end") from error
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()


class Batch(NamedTuple):
    """One batch that has been done: where its rows begin, the files they belong to, and the files left out."""

    start: int
    done: list[Found]
    skipped: list[tuple[Found, str]]


class Journal:
    """The batches of a run; `header` says what made them, and a journal under another header is thrown away."""

    def __init__(self, work: Path, header: dict[str, Any], width: int, dtype: Any) -> None:
        self.work = work
        self.width = width
        self.dtype = np.dtype(dtype)
        self.header = {**header, "width": width, "dtype": self.dtype.str}
        self.batches: list[Batch] = []
        self.n_rows = 0
        work.mkdir(exist_ok=True)
        self._replay()

    def append(self, rows: np.ndarray, done: Sequence[Found], skipped: Sequence[tuple[Found, str]]) -> None:
        """Make a batch last: its rows first, then its line."""
        data = np.ascontiguousarray(rows, dtype=self.dtype).tobytes()
        _append(self.work / "rows.bin", data)
        line = {
            "done": [[escape(f.path), f.size, f.mtime_ns] for f in done],
            "skipped": [[escape(f.path), f.size, f.mtime_ns, reason] for f, reason in skipped],
            "crc": zlib.crc32(data),
        }
        _append(self.work / "journal.jsonl", json.dumps(line).encode() + b"\n")
        self._take(list(done), list(skipped))

    def rows(self) -> np.ndarray:
        """All raw rows so far, memory-mapped."""
        if self.n_rows == 0:
            return np.empty((0, self.width), self.dtype)
        return np.memmap(self.work / "rows.bin", self.dtype, "r", shape=(self.n_rows, self.width))

    def files(self) -> Iterator[Found]:
        """Every file that has been dealt with, done or left out."""
        for batch in self.batches:
            yield from batch.done
            yield from (found for found, _ in batch.skipped)

    def skipped(self) -> Iterator[tuple[Found, str]]:
        """Every file that was left out, and why."""
        for batch in self.batches:
            yield from batch.skipped

    def _take(self, done: list[Found], skipped: list[tuple[Found, str]]) -> None:
        self.batches.append(Batch(self.n_rows, done, skipped))
        self.n_rows += len(done)

    def _replay(self) -> None:
        """Read the journal up to its last whole line, and cut both files there."""
        log, rows = self.work / "journal.jsonl", self.work / "rows.bin"
        lines = log.read_bytes().split(b"\n")[:-1] if log.exists() else []
        if not lines or _parsed(lines[0]) != self.header:
            atomic_write(rows, b"")
            atomic_write(log, json.dumps(self.header).encode() + b"\n")
            return
        kept = len(lines[0]) + 1
        with open(rows, "rb") as file:
            for line in lines[1:]:
                if not self._replay_line(_parsed(line), file):
                    break
                kept += len(line) + 1
        os.truncate(log, kept)
        os.truncate(rows, self.n_rows * self.width * self.dtype.itemsize)

    def _replay_line(self, entry: Any, file: Any) -> bool:
        try:
            done = [Found(unescape(path), size, time) for path, size, time in entry["done"]]
            skipped = [(Found(unescape(path), size, time), why) for path, size, time, why in entry["skipped"]]
            data = file.read(len(done) * self.width * self.dtype.itemsize)
            whole = len(data) == len(done) * self.width * self.dtype.itemsize and zlib.crc32(data) == entry["crc"]
        except (KeyError, TypeError, ValueError):
            return False
        if whole:
            self._take(done, skipped)
        return whole


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None


def _append(path: Path, data: bytes) -> None:
    try:
        with open(path, "ab") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise LikewiseError(
            f"cannot write {path}: {error.strerror or error}; run the same command again to go on"
        ) from error


# ---------------------------------------------------------------------------------------------------------------------
# Making it the store


def commit(store: Path) -> None:
    """Move everything in `.work/new` into the store, in a way that a later run can finish."""
    atomic_write(store / ".work" / "commit", b"")
    recover(store)


def recover(store: Path) -> None:
    """Finish a commit that was interrupted; without one, forget half-written files."""
    work = store / ".work"
    if (work / "commit").exists():
        for name in _FILES:
            if (work / "new" / name).exists():
                os.replace(work / "new" / name, store / name)
        # the marker goes last: without it the journal would be taken for work still to be finished
        for name in ("journal.jsonl", "rows.bin", "extractor.safetensors", "request.json", "commit"):
            (work / name).unlink(missing_ok=True)
        shutil.rmtree(work, ignore_errors=True)
    elif (work / "new").exists():
        shutil.rmtree(work / "new", ignore_errors=True)
