"""The journal of an extraction, so that a killed run can be resumed, and the commit that turns it into the store.

Everything is kept in the folder `.work` inside the store. A batch of raw rows is appended to `rows.bin` and synced,
then the line that describes it to `journal.jsonl`; anything after the last complete line is ignored. The finished files
are written to `new`, the file `commit` marks them as complete, and then they are moved into place; a run that finds
`commit` finishes the move first.
"""

import json
import os
import shutil
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from likewise.errors import LikewiseError
from likewise.features.folder import ImageFile
from likewise.tables.store import escape, unescape
from likewise.utils.files import append_synced, atomic_write, parsed_json

_FILES = ("features.npy", "items.csv", "skipped.csv", "extractor.safetensors", "meta.json")


class Batch(NamedTuple):
    """A finished batch: the number of its first row, the files of its rows, and the files skipped."""

    start: int
    done: list[ImageFile]
    skipped: list[tuple[ImageFile, str]]


class ExtractionJournal:
    """The batches of a run; `header` says how they were made, and a journal with another header is discarded."""

    def __init__(self, work: Path, header: dict[str, Any], width: int, dtype: Any) -> None:
        self.work, self.width, self.dtype = work, width, np.dtype(dtype)
        self.header = {**header, "width": width, "dtype": self.dtype.str}
        self.batches: list[Batch] = []
        self.n_rows = 0
        work.mkdir(exist_ok=True)
        self._replay()

    def append(self, rows: np.ndarray, done: Sequence[ImageFile], skipped: Sequence[tuple[ImageFile, str]]) -> None:
        """Store a batch: first its rows, then its line."""
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
        if self.n_rows == 0:
            return np.empty((0, self.width), self.dtype)
        return np.memmap(self.work / "rows.bin", self.dtype, "r", shape=(self.n_rows, self.width))

    def files(self) -> Iterator[ImageFile]:
        """All files handled so far, done or skipped."""
        for batch in self.batches:
            yield from batch.done
            yield from (found for found, _ in batch.skipped)

    def skipped(self) -> Iterator[tuple[ImageFile, str]]:
        for batch in self.batches:
            yield from batch.skipped

    def _take(self, done: list[ImageFile], skipped: list[tuple[ImageFile, str]]) -> None:
        self.batches.append(Batch(self.n_rows, done, skipped))
        self.n_rows += len(done)

    def _replay(self) -> None:
        """Read the journal up to its last complete line, and truncate both files there."""
        log, rows = self.work / "journal.jsonl", self.work / "rows.bin"
        lines = log.read_bytes().split(b"\n")[:-1] if log.exists() else []
        if not lines or parsed_json(lines[0]) != self.header:
            atomic_write(rows, b"")
            atomic_write(log, json.dumps(self.header).encode() + b"\n")
            return
        kept = len(lines[0]) + 1
        with open(rows, "rb") as file:
            for line in lines[1:]:
                if not self._replay_line(parsed_json(line), file):
                    break
                kept += len(line) + 1
        os.truncate(log, kept)
        os.truncate(rows, self.n_rows * self.width * self.dtype.itemsize)

    def _replay_line(self, entry: Any, file: Any) -> bool:
        try:
            done = [ImageFile(unescape(path), size, time) for path, size, time in entry["done"]]
            skipped = [(ImageFile(unescape(path), size, time), why) for path, size, time, why in entry["skipped"]]
            data = file.read(len(done) * self.width * self.dtype.itemsize)
            whole = len(data) == len(done) * self.width * self.dtype.itemsize and zlib.crc32(data) == entry["crc"]
        except (KeyError, TypeError, ValueError):
            return False
        if whole:
            self._take(done, skipped)
        return whole


def _append(path: Path, data: bytes) -> None:
    try:
        append_synced(path, data)
    except OSError as error:
        why = error.strerror or error
        raise LikewiseError(f"cannot write {path}: {why}; run the same command again to resume") from error


def commit(store: Path) -> None:
    """Move the files of `.work/new` into the store; a later run can finish an interrupted move."""
    atomic_write(store / ".work" / "commit", b"")
    recover(store)


def recover(store: Path) -> None:
    """Finish an interrupted commit; without one, delete half-written files."""
    work = store / ".work"
    if (work / "commit").exists():
        for name in _FILES:
            if (work / "new" / name).exists():
                os.replace(work / "new" / name, store / name)
        # the marker goes last: without it the journal would look like unfinished work
        for name in ("journal.jsonl", "rows.bin", "extractor.safetensors", "request.json", "commit"):
            (work / name).unlink(missing_ok=True)
        shutil.rmtree(work, ignore_errors=True)
    elif (work / "new").exists():
        shutil.rmtree(work / "new", ignore_errors=True)
