"""The journal of feedback: marks, labels and lessons of an index, one line per step of a user.

A line counts once it ends with a newline and its checksum is right. Lines are only ever appended, under a lock, and
synced before they are confirmed: no crash and no second process loses one. An undo is a line that names the step it
takes back.
"""

import base64
import json
import os
import secrets
import threading
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, Self, get_args

import numpy as np
from filelock import FileLock

from likewise.errors import LikewiseError
from likewise.search.identity import Identities, ItemRef
from likewise.utils.files import sync

NAME = "feedback.jsonl"
OUTSIDE = "query:"  # before the name of a query that is not an item
Kind = Literal["mark", "label", "distinct", "lesson", "undo", "edited"]
_CHECK = b',"crc":"%08x"}'
_CHECK_LENGTH = len(_CHECK % 0)


@dataclass(frozen=True)
class Event:
    """One step of a user, or of the program.

    mark: `items` are right, wrong or (None) no longer marked for `queries`. label: `items` have `label`, or (None) none
    any more. distinct: `items` are no duplicates of one another. lesson: `facts` says what was learned and where it is.
    undo: `of` is the id of the event taken back. edited: the file of `items[0]` has become `items[1]`.
    """

    kind: Kind
    queries: tuple[ItemRef | str, ...] = ()
    items: tuple[ItemRef, ...] = ()
    right: bool | None = None
    label: Any = None
    who: str = ""
    of: str | None = None
    facts: dict[str, Any] | None = None
    time: float = 0.0
    id: str = ""

    @property
    def words(self) -> str:
        """What was done, for people."""
        of = "" if len(self.items) == 1 else f" on {len(self.items):,} items"
        if self.kind == "label":
            return f"label {self.label}{of}" if self.label is not None else f"label removed{of}"
        if self.kind == "mark":
            what = {True: "right", False: "wrong", None: "not marked any more"}[self.right]
            named = f"item {self.items[0].id}" if len(self.items) == 1 else f"{len(self.items):,} items"
            return f"{named} marked {what}" if self.right is not None else f"{named} {what}"
        if self.kind == "distinct":
            return f"{len(self.items):,} items are not the same"
        return f"lesson {(self.facts or {}).get('number', '')}".strip()


class Feedback:
    """The journal in the folder of an index; several threads and processes may write to it.

    Without a folder it is kept in memory alone.
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        self.folder = None if folder is None else Path(folder)
        self.path = Path(folder or "") / NAME
        self.damaged = 0  # lines that were passed over
        self.aliases: dict[str, str] = {}
        self._file_lock = FileLock(self.path.parent / ".feedback.lock")
        self._lock = threading.RLock()
        self._offset, self._line, self._inode = 0, 0, -1
        self._standing: dict[str, Event] = {}
        self._numbers: dict[str, np.ndarray] = {}
        self._history: list[Event] = []
        self._unread: list[Event] = []
        self.refresh()

    # -- reading ------------------------------------------------------------------------------------------------------

    def refresh(self) -> list[Event]:
        """Read what other processes appended; returns all that is new since the last call, one's own included."""
        with self._lock:
            self._read()
            unread, self._unread = self._unread, []
            return unread

    def _read(self) -> None:
        if self.folder is None:
            return
        try:
            with open(self.path, "rb") as file:
                facts = os.fstat(file.fileno())
                if facts.st_ino != self._inode or facts.st_size < self._offset:
                    self._begin(facts.st_ino)
                if facts.st_size == self._offset:
                    return
                file.seek(self._offset)
                data = file.read()
        except FileNotFoundError:
            return
        except OSError as error:
            raise LikewiseError(f"cannot read {self.path}: {error.strerror or error}") from error
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        for line in whole.split(b"\n")[:-1]:
            self._line += 1
            event = self._parsed(line)
            if event is not None:
                self._take(event)

    def _begin(self, inode: int) -> None:
        self._offset, self._line, self._inode, self.damaged = 0, 0, inode, 0
        self._standing, self._numbers, self.aliases, self._history = {}, {}, {}, []

    def _parsed(self, line: bytes) -> Event | None:
        """The event of a line; None for the numbers of a query, and for a line that is damaged."""
        try:
            entry = json.loads(line)
            if "crc" not in entry and "kind" in entry and "id" not in entry:
                return self._former(entry)
            if zlib.crc32(line[:-_CHECK_LENGTH]) != int(entry.pop("crc"), 16):
                raise ValueError("wrong checksum")
            if entry["kind"] == "query":
                numbers = np.frombuffer(base64.b64decode(entry["numbers"]), dtype="<f4")
                self._numbers[str(entry["id"])] = numbers.astype(np.float32)
                return None
            return _decoded(entry)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
            self.damaged += bool(line.strip())
            return None

    def _former(self, entry: dict[str, Any]) -> Event:
        """A line as it was before steps had names and items hashes: one query and one item, by ids or row numbers."""
        query, item = entry.get("query"), entry.get("item")
        if isinstance(query, list):
            numbers = np.array(query, dtype=np.float32)
            query = outside_name(numbers)
            self._numbers[query] = numbers
        elif query is not None:
            query = ItemRef(query)
        return Event(
            entry["kind"],
            queries=() if query is None else (query,),
            items=() if item is None else (ItemRef(item),),
            right=entry.get("right"),
            label=entry.get("label"),
            time=float(entry["time"]),
            id=f"line {self._line}",
        )

    def _take(self, event: Event) -> None:
        """Let an event count."""
        if event.kind == "edited":
            self.aliases[str(event.items[0].hash)] = str(event.items[1].hash)
        _apply(event, self._standing)
        self._history.append(event)
        self._unread.append(event)

    def events(self) -> list[Event]:
        """Marks, labels and what is distinct, in order, without what was taken back."""
        with self._lock:
            return [event for event in self._standing.values() if event.kind != "lesson"]

    def steps(self) -> list[Event]:
        """The same with lessons: all that can be undone."""
        with self._lock:
            return list(self._standing.values())

    @property
    def lessons(self) -> list[Event]:
        """The lessons that were not taken back; the last one is in force."""
        with self._lock:
            return [event for event in self._standing.values() if event.kind == "lesson"]

    def standing_at(self, lesson: Event) -> list[Event]:
        """What stood when a lesson was learned."""
        standing: dict[str, Event] = {}
        with self._lock:
            for event in self._history:
                _apply(event, standing)
                if event.id == (lesson.facts or {}).get("through"):
                    break
        return [event for event in standing.values() if event.kind != "lesson"]

    def numbers(self, name: str) -> np.ndarray | None:
        """The raw numbers of a query from outside."""
        return self._numbers.get(name)

    def in_memory(self) -> Self:
        """A copy whose further events are not written."""
        other = type(self)()
        for event in self._history:
            other._take(event)
        other._numbers = dict(self._numbers)
        return other

    # -- writing ------------------------------------------------------------------------------------------------------

    def append(self, event: Event, outside: Mapping[str, np.ndarray] | None = None) -> Event:
        """Append an event and the numbers of its queries from outside; when this returns, it is on disk."""
        return self._append_all(lambda: [event], outside or {})[0]

    def extend(self, events: Sequence[Event]) -> list[Event]:
        """Append several events, as a whole or not at all."""
        return self._append_all(lambda: list(events), {})

    def undo(self, who: str | None = None) -> Event | None:
        """Take back the last step of `who` (None: of anybody) and return it; None if there is none."""
        undone: list[Event] = []

        def last() -> list[Event]:
            own = [event for event in self._standing.values() if who is None or event.who == who]
            undone.extend(own[-1:])
            return [Event("undo", of=event.id, who=who or "") for event in undone]

        self._append_all(last, {})
        return undone[0] if undone else None

    def adopt(self, identities: Identities, since: float) -> int:
        """Let marks that name row numbers name items instead, if they were made since the index is as it is.

        Row numbers of an earlier state do not say which item was meant. Returns how many of these are left; they stay
        in the journal and are not used.
        """

        def named() -> list[Event]:
            made: list[Event] = []
            for event in self._by_number(identities):
                if event.time >= since and _in_range(event, len(identities.items)):
                    made += [_by_item(event, identities), Event("undo", of=event.id)]
            return made

        if self._by_number(identities):
            self._append_all(named, {})
        return len(self._by_number(identities))

    def _by_number(self, identities: Identities) -> list[Event]:
        """Events that name items by row numbers alone."""
        if identities.items.own_ids:
            return []
        refs = ((event, (*event.items, *event.queries)) for event in self.events())
        return [event for event, named in refs if any(isinstance(ref, ItemRef) and ref.hash is None for ref in named)]

    def _append_all(self, make: Callable[[], list[Event]], outside: Mapping[str, np.ndarray]) -> list[Event]:
        """Append the events that `make` gives once all others are known, as a whole or not at all."""
        if self.folder is None:
            with self._lock:
                events = [_completed(event) for event in make()]
                self._numbers.update(outside)
                for event in events:
                    self._take(event)
                return events
        try:
            self.path.parent.stat()  # the lock would create a missing folder
            with self._lock, self._file_lock.acquire(poll_interval=0.002):
                self._read()
                events = [_completed(event) for event in make()]
                lines = [_query_line(name, x) for name, x in outside.items() if name not in self._numbers]
                self._write(b"".join([*lines, *(_line(_encoded(event)) for event in events)]))
                self._read()
                return events
        except OSError as error:
            reason = error.strerror or error
            raise LikewiseError(f"cannot write {self.path}: {reason}; nothing was saved") from error

    def _write(self, data: bytes) -> None:
        if not data:
            return
        is_new = not self.path.exists()
        with open(self.path, "ab") as file:
            size = file.tell()
            try:
                # What a crash has left of a line is closed, and passed over by readers.
                file.write(data if size == self._offset else b"\n" + data)
                file.flush()
                os.fsync(file.fileno())
            except OSError:
                os.truncate(self.path, size)
                raise
        if is_new:
            sync(self.path.parent)


def outside_name(numbers: np.ndarray) -> str:
    """The name of a query from outside: the same numbers have the same name."""
    return OUTSIDE + blake2b(np.ascontiguousarray(numbers, dtype="<f4").tobytes(), digest_size=12).hexdigest()


def _apply(event: Event, standing: dict[str, Event]) -> None:
    if event.kind == "undo":
        of = event.of if event.of is not None else next(reversed(standing), "")  # before undos had names
        standing.pop(of, None)
    elif event.kind != "edited":
        standing[event.id] = event


# ---------------------------------------------------------------------------------------------------------------------
# Lines


def _completed(event: Event) -> Event:
    if event.kind not in get_args(Kind):
        raise LikewiseError(f"kind={event.kind!r}; expected {', '.join(get_args(Kind))}")
    return replace(event, time=event.time or time.time(), id=event.id or secrets.token_hex(8))


def _encoded(event: Event) -> dict[str, Any]:
    return {name: value for name, value in asdict(event).items() if value is not None and value not in ((), "")}


def _decoded(entry: dict[str, Any]) -> Event:
    if entry["kind"] not in get_args(Kind):
        raise ValueError("unknown kind")
    queries, items = (tuple(_reference(ref) for ref in entry.pop(name, ())) for name in ("queries", "items"))
    event = Event(queries=queries, items=items, **entry)
    for name, kinds in _FIELDS.items():
        if not isinstance(getattr(event, name), kinds):
            raise ValueError(f"{name} is of another kind")
    if (
        not event.id
        or not all(isinstance(ref, ItemRef) for ref in items)
        or (event.kind == "edited" and len(items) < 2)
    ):
        raise ValueError("not an event")
    return event


_FIELDS: dict[str, tuple[type, ...]] = {
    "right": (bool, type(None)), "label": (str, int, float, type(None)), "who": (str,), "of": (str, type(None)),
    "facts": (dict, type(None)), "time": (int, float), "id": (str,),
}  # fmt: skip


def _reference(ref: Any) -> Any:
    if isinstance(ref, str):
        return ref
    found = ItemRef(*ref)
    if not isinstance(found.id, str | int) or not isinstance(found.hash, str | None):
        raise ValueError("not a reference")
    return found


def _line(entry: dict[str, Any]) -> bytes:
    text = json.dumps(entry, default=_plain, separators=(",", ":")).encode()[:-1]
    return text + _CHECK % zlib.crc32(text) + b"\n"


def _query_line(name: str, numbers: np.ndarray) -> bytes:
    data = np.ascontiguousarray(numbers, dtype="<f4").tobytes()
    return _line({"kind": "query", "id": name, "numbers": base64.b64encode(data).decode()})


def _in_range(event: Event, n: int) -> bool:
    refs = [ref for ref in (*event.items, *event.queries) if isinstance(ref, ItemRef)]
    return all(isinstance(ref.id, int) and 0 <= ref.id < n for ref in refs)


def _by_item(event: Event, identities: Identities) -> Event:
    def named(ref: Any) -> Any:
        return identities.reference(ref.id) if isinstance(ref, ItemRef) else ref

    queries, items = (tuple(named(ref) for ref in refs) for refs in (event.queries, event.items))
    return replace(event, queries=queries, items=items, id="")


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)
