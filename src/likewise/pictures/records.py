"""What a run over a folder knows about its files: hashes and dates, rows of earlier runs, finished batches."""

import hashlib
import os
import re
import zlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from likewise.errors import FileFormatError, LikewiseError
from likewise.pictures.folder import ImageFile
from likewise.pictures.images import open_image
from likewise.rows.store import Item, escape, unescape
from likewise.utils.files import append_synced, atomic_write
from likewise.utils.journal import Journal

_EXIF, _DATE_TIME, _DATE_TIME_ORIGINAL = 0x8769, 0x0132, 0x9003
_DATE = re.compile(r"\s*(\d{4})[:\-/.](\d\d)[:\-/.](\d\d)[ T](\d\d):(\d\d):(\d\d)")
_EARLIEST = 1826  # the first photograph; an earlier date comes from a camera that was never set


class ReadFile(NamedTuple):
    """A file that was read, the hash of its bytes, and when the picture was taken ("" if unknown)."""

    file: ImageFile
    hash: str
    taken: str


class SkippedFile(NamedTuple):
    """A file that could not be used, the reason, and its kind in a few words."""

    file: ImageFile
    reason: str
    kind: str


def content_hash(data: bytes) -> str:
    """The hash by which a renamed or copied file is recognised."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def date_taken(data: bytes) -> str:
    """EXIF DateTimeOriginal, else DateTime, as YYYY-MM-DDTHH:MM:SS; "" if unknown or invalid."""
    try:
        with open_image(data) as image:
            if image.format == "PNG" and "exif" not in image.info:
                return ""  # Pillow would decode the whole picture to look behind it
            exif = image.getexif()
            dates = exif.get_ifd(_EXIF).get(_DATE_TIME_ORIGINAL), exif.get(_DATE_TIME)
    except Exception:  # on damaged files, Pillow raises anything from SyntaxError to struct.error
        return ""
    for value in dates:
        text = value.decode("ascii", "replace") if isinstance(value, bytes) else str(value)
        if numbers := _DATE.match(text):
            with suppress(ValueError):
                date = datetime(*map(int, numbers.groups()))  # type: ignore[arg-type]
                if date.year >= _EARLIEST:
                    return date.isoformat()
    return ""


class KnownRows:
    """Rows of the store of an earlier run; `present` are the paths that still exist."""

    def __init__(self, items: list[Item], present: Collection[str]) -> None:
        self.items = items
        self.paths = {item.path for item in items}
        by_hash = {item.hash: row for row, item in enumerate(items) if item.hash}
        vanished = {item.hash: row for row, item in enumerate(items) if item.hash and item.path not in present}
        self._by_hash = {**by_hash, **vanished}  # a renamed file takes its own row rather than that of a copy

    def unread(self) -> Iterator[tuple[ReadFile, int]]:
        """Files and their rows: while size, time and stamp stay the same, these need not be read."""
        for row, item in enumerate(self.items):
            if item.hash and item.stamp:
                yield ReadFile(ImageFile(item.path, item.size, item.mtime_ns, item.stamp), item.hash, item.taken), row

    def row_of(self, read: ReadFile) -> int | None:
        """The row of a file with the same content."""
        return self._by_hash.get(read.hash)


# -- Finished batches, so that a killed run can be resumed -------------------------------------------------------------


class Batch(NamedTuple):
    """A finished batch: the number of its first row, the files of its rows, files reused, and files skipped.

    Files reused are those whose content has a row in the store already.
    """

    start: int
    done: list[ReadFile]
    reused: list[ReadFile]
    skipped: list[SkippedFile]


class ExtractionJournal:
    """The batches of a run, in the folder `work`; `header` says how they were made.

    A batch of raw rows is appended to `rows.bin` and synced, then its record to the journal. Rows without a record are
    ignored, and so is a journal with another header.
    """

    def __init__(self, work: Path, header: dict[str, Any], width: int, dtype: Any) -> None:
        self.width, self.dtype = width, np.dtype(dtype)
        self.header = {**header, "width": width, "dtype": self.dtype.str}
        self.batches: list[Batch] = []
        self.n_rows = 0
        work.mkdir(exist_ok=True)
        self._rows = work / "rows.bin"
        self._journal = Journal(work / "journal.sqlite")
        self._replay()

    def append(
        self, rows: np.ndarray, done: Sequence[ReadFile], reused: Sequence[ReadFile], skipped: Sequence[SkippedFile]
    ) -> None:
        """Store a batch: first its rows, then its record."""
        data = np.ascontiguousarray(rows, dtype=self.dtype).tobytes()
        record = {
            "done": [_flat(read) for read in done],
            "reused": [_flat(read) for read in reused],
            "skipped": [_flat(entry) for entry in skipped],
            "crc": zlib.crc32(data),
        }
        try:
            append_synced(self._rows, data)
            self._journal.append([record])
        except (OSError, LikewiseError) as error:
            why = error.strerror if isinstance(error, OSError) and error.strerror else error
            raise LikewiseError(f"cannot write {self._rows}: {why}; run the same command again to resume") from error
        self._take(list(done), list(reused), list(skipped))

    def rows(self) -> np.ndarray:
        if self.n_rows == 0:
            return np.empty((0, self.width), self.dtype)
        return np.memmap(self._rows, self.dtype, "r", shape=(self.n_rows, self.width))

    def _take(self, done: list[ReadFile], reused: list[ReadFile], skipped: list[SkippedFile]) -> None:
        self.batches.append(Batch(self.n_rows, done, reused, skipped))
        self.n_rows += len(done)

    def _replay(self) -> None:
        """Read the batches up to the first damage, and drop what follows."""
        try:
            values = [record.value for record in self._journal.read()]
        except FileFormatError:
            values = []
        if not values or values[0] != self.header or not self._rows.exists():
            atomic_write(self._rows, b"")
            self._restart([self.header])
            return
        sound = 1
        with open(self._rows, "rb") as file:
            while sound < len(values) and self._replay_batch(values[sound], file):
                sound += 1
        os.truncate(self._rows, self.n_rows * self.width * self.dtype.itemsize)
        if sound < len(values):
            self._restart(values[:sound])

    def _replay_batch(self, entry: Any, file: Any) -> bool:
        try:
            done, reused = ([ReadFile(*_nested(read)) for read in entry[name]] for name in ("done", "reused"))
            skipped = [SkippedFile(*_nested(values)) for values in entry["skipped"]]
            data = file.read(len(done) * self.width * self.dtype.itemsize)
            is_whole = len(data) == len(done) * self.width * self.dtype.itemsize and zlib.crc32(data) == entry["crc"]
        except (KeyError, TypeError, ValueError):
            return False
        if is_whole:
            self._take(done, reused, skipped)
        return is_whole

    def _restart(self, values: list[Any]) -> None:
        """A new journal file; SQLite's own journal goes first, which would be applied to the new one."""
        for name in (f"{self._journal.path}-journal", self._journal.path):
            Path(name).unlink(missing_ok=True)
        self._journal.append(values)


def _flat(entry: ReadFile | SkippedFile) -> list[Any]:
    file, *facts = entry
    return [escape(file.path), *file[1:], *facts]


def _nested(values: Sequence[Any]) -> tuple[ImageFile, str, str]:
    path, size, mtime_ns, stamp, first, second = values
    return ImageFile(unescape(path), size, mtime_ns, stamp), first, second
