"""Feedback as it comes in: one line an event, synced before it is confirmed, so that no crash loses it."""

from __future__ import annotations

import csv
import io
import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

from likewise.errors import LikewiseError

__all__ = ["Event", "Feedback"]

NAME = "feedback.jsonl"
COLUMNS = ("time", "kind", "query", "item", "right", "label")
_KINDS = ("mark", "label", "undo")


class Event(NamedTuple):
    """A mark (query, item, right), a label (item, label), or an undo of the last that was not undone.

    `query` and `item` are ids of the index; a query that is not in the index is a list of its raw numbers.
    """

    kind: Literal["mark", "label", "undo"]
    query: Any = None
    item: Any = None
    right: bool | None = None
    label: Any = None
    time: float = 0.0


class Feedback:
    """The journal of an index, in its folder, append-only.

    A line counts once it ends with a newline; what a crash left of the last one is dropped when the file is opened
    for writing again, and passed over by readers.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.path = Path(folder) / NAME
        self._lock = threading.Lock()
        self._mended = False

    def append(self, event: Event) -> Event:
        """Make an event last; when this returns it is on the disk."""
        if event.kind not in _KINDS:
            raise LikewiseError(f"kind={event.kind!r}; expected {', '.join(_KINDS)}")
        event = event._replace(time=event.time or time.time())
        line = json.dumps(event._asdict(), default=_plain).encode() + b"\n"
        with self._lock:
            self._mend()
            self._write(line)
        return event

    def __iter__(self) -> Iterator[Event]:
        """Every whole event, in order, undone ones and undos too."""
        data = self.path.read_bytes() if self.path.exists() else b""
        for number, line in enumerate(data.split(b"\n")[:-1], start=1):
            yield self._parsed(line, number)

    def events(self) -> list[Event]:
        """What counts: events that were not undone."""
        kept: list[Event] = []
        for event in self:
            if event.kind != "undo":
                kept.append(event)
            elif kept:
                kept.pop()
        return kept

    def to_csv(self) -> str:
        """All that counts as CSV: time, kind, query, item, right, label."""
        text = io.StringIO(newline="")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(COLUMNS)
        for event in self.events():
            cells = event._asdict()
            writer.writerow([_cell(cells[name]) for name in COLUMNS])
        return text.getvalue()

    def _parsed(self, line: bytes, number: int) -> Event:
        try:
            return Event(**json.loads(line))
        except (ValueError, TypeError) as error:
            raise LikewiseError(f"line {number} of {self.path} is damaged: {error}") from error

    def _mend(self) -> None:
        """Cut what a crash left of the last line, once, before anything is added to it."""
        if self._mended or not self.path.exists():
            self._mended = True
            return
        with open(self.path, "r+b") as file:
            data = file.read()
            file.truncate(data.rfind(b"\n") + 1)
        self._mended = True

    def _write(self, line: bytes) -> None:
        try:
            new = not self.path.exists()
            with open(self.path, "ab") as file:
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
            if new:
                _sync(self.path.parent)
        except OSError as error:
            self._mended = False
            raise LikewiseError(
                f"cannot write {self.path}: {error.strerror or error}; the mark was not kept"
            ) from error


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)


def _cell(value: Any) -> Any:
    if isinstance(value, list):
        return json.dumps(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@"):
        return "'" + value  # a spreadsheet would take it for a formula
    return "" if value is None else value
