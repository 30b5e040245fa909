"""Marks, labels and lessons of an index, as an append-only journal of the steps of its users; import and export as CSV.

A step is on disk before it is confirmed, so that neither a crash nor a second process loses one. An undo is a record
that names the step it takes back.
"""

import base64
import csv
import io
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, Self, get_args

import numpy as np

from likewise.errors import LikewiseError
from likewise.search.index import BaseIndex
from likewise.search.items import Identities, ItemRef, Places
from likewise.search.storage import MARKS
from likewise.utils.journal import Journal, Record
from likewise.utils.wording import FORMULA, csv_text

NAME = MARKS  # in the folder of the index
OUTSIDE = "query:"  # prefix of the name of a query that is not an item
Kind = Literal["mark", "label", "distinct", "lesson", "undo", "became"]


@dataclass(frozen=True)
class Event:
    """One step of a user, or of the program.

    mark: `items` are right, wrong or (None) no longer marked for `queries`. label: `items` have `label`, or (None) no
    label any more. distinct: `items` are not duplicates of each other. lesson: `facts` describes a lesson and says
    which events it learned from. undo: `of` is the id of the event taken back. became: the file `items[0]` was
    edited or renamed, and is now `items[1]`.
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
        """A description for people."""
        of = "" if len(self.items) == 1 else f" on {len(self.items):,} items"
        if self.kind == "label":
            return f"label {self.label}{of}" if self.label is not None else f"label removed{of}"
        if self.kind == "mark":
            verdict = {True: "right", False: "wrong", None: "not marked any more"}[self.right]
            items = f"item {self.items[0].id}" if len(self.items) == 1 else f"{len(self.items):,} items"
            return f"{items} marked {verdict}" if self.right is not None else f"{items} {verdict}"
        if self.kind == "distinct":
            return f"{len(self.items):,} items are not the same"
        return f"lesson {(self.facts or {}).get('number', '')}".strip()


class Feedback:
    """The events of an index, in its folder; several threads and processes may write to it.

    Without a folder they are kept in memory only.
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        self.folder = None if folder is None else Path(folder)
        self.path = Path(folder or "") / NAME
        self._journal = None if folder is None else Journal(self.path)
        self._lock = threading.RLock()
        self._unread: list[Event] = []
        self.problem: str | None = None  # why the journal could not be read the last time
        self._forget()
        self._read()

    # -- reading ------------------------------------------------------------------------------------------------------

    def refresh(self) -> list[Event]:
        """Read what other processes appended; returns all events since the last call, including those written here.

        A journal that cannot be read now is a `problem`, and what is known stays: a search does not depend on it.
        """
        with self._lock:
            try:
                self._read()
                self.problem = None
            except LikewiseError as error:
                self.problem = str(error)
            unread = self._unread
            self._unread = []
            return unread

    def _read(self) -> None:
        if self._journal is not None:
            self._take_records(self._journal.read(self._sequence))

    def check_folder(self) -> None:
        """Raise if the folder of the index is gone, or is not the one that was opened."""
        if self._journal is not None:
            self._journal.check_folder()

    def _forget(self) -> None:
        self.damaged = 0  # records that were passed over
        self._became: dict[ItemRef, list[tuple[int, ItemRef]]] = {}  # new names of files, and when they got them
        self._numbered: dict[str, int] = {}  # events by id, in order
        self._sequence = self._identity = 0
        self._active: dict[str, Event] = {}
        self._numbers: dict[str, np.ndarray] = {}
        self._history: list[Event] = []

    def _take_records(self, records: Iterable[Record]) -> None:
        assert self._journal is not None
        if self._journal.identity != self._identity:  # another file
            self._forget()
            self._identity = self._journal.identity
        for sequence, entry in records:
            if sequence <= self._sequence:
                continue
            self._sequence = sequence
            try:
                if entry["kind"] == "query":
                    numbers = np.frombuffer(base64.b64decode(entry["numbers"]), dtype="<f4")
                    self._numbers[str(entry["id"])] = numbers.astype(np.float32)
                else:
                    self._take(_decoded(entry))
            except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
                self.damaged += 1

    def _take(self, event: Event) -> None:
        self._numbered[event.id] = number = len(self._history)
        if event.kind == "became":
            self._became.setdefault(event.items[0], []).append((number, event.items[1]))
        _apply(event, self._active)
        self._history.append(event)
        self._unread.append(event)

    def events(self) -> list[Event]:
        """Marks, labels and distinct items in order, without those that were taken back."""
        with self._lock:
            return [event for event in self._active.values() if event.kind != "lesson"]

    def history(self) -> list[Event]:
        """Everything in order, with what was taken back and undos."""
        with self._lock:
            return list(self._history)

    def steps(self) -> list[Event]:
        """Everything that can be undone: the events, and lessons."""
        with self._lock:
            return list(self._active.values())

    @property
    def lessons(self) -> list[Event]:
        """The lessons that were not taken back; the last one is in force."""
        with self._lock:
            return [event for event in self._active.values() if event.kind == "lesson"]

    def events_at(self, lesson: Event) -> list[Event]:
        """The events that a lesson learned from."""
        active: dict[str, Event] = {}
        with self._lock:
            for event in self._history:
                _apply(event, active)
                if event.id == (lesson.facts or {}).get("through"):
                    break
        return [event for event in active.values() if event.kind != "lesson"]

    @property
    def version(self) -> tuple[int, int]:
        """Another one after each event."""
        return self._identity, len(self._history)

    def names(self, item: ItemRef, event: Event) -> list[ItemRef]:
        """The names of the file that an event named so: those it got later first."""
        if item not in self._became:
            return [item]
        names, number = [item], self._numbered.get(event.id, -1)
        while (later := next((new for new in self._became.get(names[0], ()) if new[0] > number), None)) is not None:
            number = later[0]
            names.insert(0, later[1])
        return names

    def places(self, identities: Identities) -> Places:
        """Where the items of all events that count are in an index; those of newer events choose first."""
        with self._lock:
            named = [
                self.names(reference, event)
                for event in reversed(self._active.values())
                for reference in (*event.items, *event.queries)
                if isinstance(reference, ItemRef)
            ]
        return Places(identities, named)

    def numbers(self, name: str) -> np.ndarray | None:
        """The raw numbers of a query that is not an item."""
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
        """Append an event and the numbers of its queries from outside; they are on disk when this returns."""
        return self._append_all(lambda: [event], outside or {})[0]

    def extend(self, events: Sequence[Event]) -> list[Event]:
        """Append several events, all or none."""
        return self._append_all(lambda: list(events), {})

    def undo(self, who: str | None = None) -> Event | None:
        """Take back the last step of `who` (None: of anybody) and return it; None if there is none."""
        undone: list[Event] = []

        def last_step() -> list[Event]:
            steps = [event for event in self._active.values() if who is None or event.who == who]
            undone.extend(steps[-1:])
            return [Event("undo", of=event.id, who=who or "") for event in undone]

        self._append_all(last_step, {})
        return undone[0] if undone else None

    def _append_all(self, make: Callable[[], list[Event]], outside: Mapping[str, np.ndarray]) -> list[Event]:
        """Append the events that `make` returns when all earlier ones are known, all or none."""
        events: list[Event] = []

        def entries(records: Iterable[Record]) -> list[dict[str, Any]]:
            self._take_records(records)
            events.extend(_completed(event) for event in make())
            new = {name: np.asarray(x, "<f4").tobytes() for name, x in outside.items() if name not in self._numbers}
            queries = [
                {"kind": "query", "id": name, "numbers": base64.b64encode(x).decode()} for name, x in new.items()
            ]
            return queries + [_encoded(event) for event in events]

        with self._lock:
            if self._journal is not None:
                self._take_records(self._journal.update(entries, since=self._sequence))
                return self._history[len(self._history) - len(events) :]
            events = [_completed(event) for event in make()]
            self._numbers.update(outside)
            for event in events:
                self._take(event)
            return events


def outside_name(numbers: np.ndarray) -> str:
    """The name of a query that is not an item: equal numbers have equal names."""
    return OUTSIDE + blake2b(np.ascontiguousarray(numbers, dtype="<f4").tobytes(), digest_size=12).hexdigest()


def _apply(event: Event, active: dict[str, Event]) -> None:
    if event.kind == "undo":
        active.pop(str(event.of), None)
    elif event.kind != "became":
        active[event.id] = event


# ---------------------------------------------------------------------------------------------------------------------
# Records


def _completed(event: Event) -> Event:
    if event.kind not in get_args(Kind):
        raise LikewiseError(f"kind={event.kind!r}; expected {', '.join(get_args(Kind))}")
    return replace(event, time=event.time or time.time(), id=event.id or secrets.token_hex(8))


def _encoded(event: Event) -> dict[str, Any]:
    return {name: value for name, value in vars(event).items() if value is not None and value not in ((), "")}


def _decoded(entry: dict[str, Any]) -> Event:
    """The event of a record; raises if a field is not of its type."""
    references = {name: tuple(map(_reference, entry.get(name, ()))) for name in ("queries", "items")}
    event = Event(**{**entry, **references})
    sound = event.kind in get_args(Kind) and event.id != "" and all(isinstance(ref, ItemRef) for ref in event.items)
    sound = sound and all(isinstance(getattr(event, name), kinds) for name, kinds in _FIELDS.items())
    if not sound or (event.kind == "became" and len(event.items) < 2):
        raise ValueError("not an event")
    return event


_FIELDS: dict[str, tuple[type, ...]] = {
    "right": (bool, type(None)), "label": (str, int, float, type(None)), "who": (str,), "of": (str, type(None)),
    "facts": (dict, type(None)), "time": (int, float), "id": (str,),
}  # fmt: skip


def _reference(value: Any) -> Any:
    if isinstance(value, str):
        return value
    reference = ItemRef(*value)
    if not isinstance(reference.id, str | int) or not isinstance(reference.hash, str | None):
        raise ValueError("not a reference")
    return reference


# ---------------------------------------------------------------------------------------------------------------------
# CSV: for spreadsheets, and to teach another index that has the same items

COLUMNS = ("time", "who", "kind", "query", "item", "right", "label")
_RIGHT = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False, "": None}


def feedback_to_csv(events: Iterable[Event]) -> str:
    """One line per item of a label, and per query and item of a mark."""
    lines = (
        [_cell(value) for value in (event.time, event.who, event.kind, query, item, event.right, event.label)]
        for event in events
        for query in event.queries or (None,)
        for item in event.items
    )
    return csv_text(COLUMNS, lines)


def events_of(table: Any, index: BaseIndex) -> tuple[list[Event], int]:
    """Marks and labels of a table, and the number of its lines about items that are not in the index.

    A table is the path of a CSV file, a data frame or a mapping of columns: `item` and `label`, or `query`, `item` and
    `right`; items and queries are named by their ids. A line with both is a label unless its `kind` says mark.
    """
    is_file = isinstance(table, str | os.PathLike)
    lines = _csv_lines(Path(table)) if is_file else _lines(table)
    name = str(table) if is_file else "the table"
    if not lines or "item" not in lines[0] or not {"label", "right"} & set(lines[0]):
        raise LikewiseError(f"{name} has no marks: expected the columns item and label, or query, item and right")
    row_of = {str(name): row for row, name in enumerate(index.ids.tolist())}

    def reference(name: str) -> ItemRef | None:
        return index.identities.reference(row_of[name]) if name in row_of else None

    events: list[Event] = []
    for number, line in enumerate(lines, start=2):
        values = {column: _uncell(line.get(column, "")) for column in COLUMNS}
        kind, who, right = values["kind"] or _kind_of(values), values["who"], values["right"].lower()
        item, query = reference(values["item"]), reference(values["query"])
        if kind == "label":
            if item is not None:
                events.append(Event("label", items=(item,), label=values["label"] or None, who=who))
        elif kind != "mark" or right not in _RIGHT:
            raise LikewiseError(f"line {number} of {name} is neither a mark, right or wrong, nor a label")
        elif item is not None and query is not None:
            events.append(Event("mark", (query,), (item,), _RIGHT[right], who=who))
    return events, len(lines) - len(events)


def _kind_of(values: Mapping[str, str]) -> str:
    return "mark" if values["query"] and not values["label"] else "label"


def _csv_lines(path: Path) -> list[dict[str, str]]:
    try:
        rows = csv.DictReader(io.StringIO(path.read_text("utf-8-sig"), newline=""))
        return [{name: value or "" for name, value in row.items() if name} for row in rows]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise LikewiseError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error


def _lines(table: Any) -> list[dict[str, str]]:
    columns = {name: list(table[name]) for name in COLUMNS if name in table}
    if len(set(map(len, columns.values()))) > 1:
        sizes = ", ".join(f"{name} {len(values)}" for name, values in columns.items())
        raise LikewiseError(f"the columns of the table have different lengths: {sizes}; expected one value per line")
    cells = [["" if value is None or value != value else str(value) for value in values] for values in columns.values()]
    return [dict(zip(columns, values, strict=True)) for values in zip(*cells, strict=True)]


def _uncell(cell: str) -> str:
    return cell[1:] if cell.startswith(tuple(f"'{sign}" for sign in FORMULA)) else cell


def _cell(value: Any) -> Any:
    if isinstance(value, ItemRef):
        value = value.id
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else value
