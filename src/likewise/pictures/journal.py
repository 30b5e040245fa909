"""The journal of an extraction, so that a killed run can be resumed.

Everything is kept in the folder `.work` inside the store. A batch of raw rows is appended to `rows.bin` and synced,
then the line that describes it to `journal.jsonl`; anything after the last complete line is ignored.
"""

import json
import os
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from likewise.errors import LikewiseError
from likewise.pictures.contents import ReadFile
from likewise.pictures.folder import ImageFile
from likewise.rows.store import escape, unescape
from likewise.utils.files import append_synced, atomic_write, parsed_json

_VERSION = 2  # 2: hashes and dates; the journal of another version is discarded


class SkippedFile(NamedTuple):
    """A file that could not be used, the reason, and its kind in a few words."""

    file: ImageFile
    reason: str
    kind: str


class Batch(NamedTuple):
    """A finished batch: the number of its first row, the files of its rows, files kept, and files skipped.

    Files kept are those whose content has a row in the store already.
    """

    start: int
    done: list[ReadFile]
    kept: list[ReadFile]
    skipped: list[SkippedFile]


class ExtractionJournal:
    """The batches of a run; `header` says how they were made, and a journal with another header is discarded."""

    def __init__(self, work: Path, header: dict[str, Any], width: int, dtype: Any) -> None:
        self.work, self.width, self.dtype = work, width, np.dtype(dtype)
        self.header = {**header, "journal": _VERSION, "width": width, "dtype": self.dtype.str}
        self.batches: list[Batch] = []
        self.n_rows = 0
        work.mkdir(exist_ok=True)
        self._replay()

    def append(
        self, rows: np.ndarray, done: Sequence[ReadFile], kept: Sequence[ReadFile], skipped: Sequence[SkippedFile]
    ) -> None:
        """Store a batch: first its rows, then its line."""
        data = np.ascontiguousarray(rows, dtype=self.dtype).tobytes()
        _append(self.work / "rows.bin", data)
        line = {
            "done": [_flat(read) for read in done],
            "kept": [_flat(read) for read in kept],
            "skipped": [_flat(entry) for entry in skipped],
            "crc": zlib.crc32(data),
        }
        _append(self.work / "journal.jsonl", json.dumps(line).encode() + b"\n")
        self._take(list(done), list(kept), list(skipped))

    def rows(self) -> np.ndarray:
        if self.n_rows == 0:
            return np.empty((0, self.width), self.dtype)
        return np.memmap(self.work / "rows.bin", self.dtype, "r", shape=(self.n_rows, self.width))

    def kept(self) -> Iterator[ReadFile]:
        for batch in self.batches:
            yield from batch.kept

    def skipped(self) -> Iterator[SkippedFile]:
        for batch in self.batches:
            yield from batch.skipped

    def finished(self) -> Iterator[ImageFile]:
        """All files that need nothing from a store: those with a row here, and those skipped."""
        for batch in self.batches:
            yield from (read.file for read in batch.done)
            yield from (skipped.file for skipped in batch.skipped)

    def _take(self, done: list[ReadFile], kept: list[ReadFile], skipped: list[SkippedFile]) -> None:
        self.batches.append(Batch(self.n_rows, done, kept, skipped))
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
            done, kept = ([ReadFile(*_nested(read)) for read in entry[name]] for name in ("done", "kept"))
            skipped = [SkippedFile(*_nested(values)) for values in entry["skipped"]]
            data = file.read(len(done) * self.width * self.dtype.itemsize)
            whole = len(data) == len(done) * self.width * self.dtype.itemsize and zlib.crc32(data) == entry["crc"]
        except (KeyError, TypeError, ValueError):
            return False
        if whole:
            self._take(done, kept, skipped)
        return whole


def _flat(entry: ReadFile | SkippedFile) -> list[Any]:
    file, *facts = entry
    return [escape(file.path), file.size, file.mtime_ns, *facts]


def _nested(values: Sequence[Any]) -> tuple[ImageFile, str, str]:
    path, size, mtime_ns, first, second = values
    return ImageFile(unescape(path), size, mtime_ns), first, second


def _append(path: Path, data: bytes) -> None:
    try:
        append_synced(path, data)
    except OSError as error:
        why = error.strerror or error
        raise LikewiseError(f"cannot write {path}: {why}; run the same command again to resume") from error
