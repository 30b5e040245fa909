"""Feedback: the journal of marks and labels, and the groups of rows that they make.

The journal has one line per event, synced before it is confirmed, so that no crash loses one. A group is a set of rows
and queries that belong together, with rows that do not belong to them.
"""

import csv
import io
import json
import os
import time
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

from filelock import FileLock
from scipy.cluster.hierarchy import DisjointSet

from likewise.errors import LikewiseError
from likewise.utils.files import sync

NAME = "feedback.jsonl"
COLUMNS = ("time", "kind", "query", "item", "right", "label")
_KINDS = ("mark", "label", "undo")


class Event(NamedTuple):
    """A mark (query, item, right), a label (item, label), or an undo of the last event not yet undone.

    `query` and `item` are ids of the index; a query from outside the index is a list of its raw numbers.
    """

    kind: Literal["mark", "label", "undo"]
    query: Any = None
    item: Any = None
    right: bool | None = None
    label: Any = None
    time: float = 0.0


class Feedback:
    """The append-only journal in the folder of an index.

    A line counts once it ends with a newline. A partial last line, left by a crash, is skipped by readers and cut off
    by the next writer. Threads and processes may append at the same time.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.path = Path(folder) / NAME
        self._lock = FileLock(Path(folder) / ".feedback.lock")

    def append(self, event: Event) -> Event:
        """Append an event; when this returns, it is on disk."""
        if event.kind not in _KINDS:
            raise LikewiseError(f"kind={event.kind!r}; expected {', '.join(_KINDS)}")
        event = event._replace(time=event.time or time.time())
        line = json.dumps(event._asdict(), default=_plain).encode() + b"\n"
        try:
            self._write(line)
        except OSError as error:
            reason = error.strerror or error
            raise LikewiseError(f"cannot write {self.path}: {reason}; the mark was not saved") from error
        return event

    def __iter__(self) -> Iterator[Event]:
        """Every complete event in order, including undos and undone events."""
        data = self.path.read_bytes() if self.path.exists() else b""
        for number, line in enumerate(data.split(b"\n")[:-1], start=1):
            yield self._parsed(line, number)

    def events(self) -> list[Event]:
        """Marks and labels that were not undone."""
        kept: list[Event] = []
        for event in self:
            if event.kind != "undo":
                kept.append(event)
            elif kept:
                kept.pop()
        return kept

    def to_csv(self) -> str:
        """Marks and labels that were not undone as CSV: time, kind, query, item, right, label."""
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

    def _write(self, line: bytes) -> None:
        self.path.parent.stat()  # the lock would create a missing folder
        with self._lock.acquire(poll_interval=0.002):
            is_new = not self.path.exists()
            with open(self.path, "a+b") as file:
                _cut_partial_line(file)
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
            if is_new:
                sync(self.path.parent)


def _cut_partial_line(file: IO[bytes]) -> None:
    if file.seek(0, os.SEEK_END):
        file.seek(-1, os.SEEK_END)
        if file.read(1) != b"\n":
            file.seek(0)
            file.truncate(file.read().rfind(b"\n") + 1)


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)


def _cell(value: Any) -> Any:
    if isinstance(value, list):
        return json.dumps(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@"):
        return "'" + value  # or a spreadsheet would take it for a formula
    return "" if value is None else value


class Node(NamedTuple):
    """A row of the index, a query from outside it (its raw numbers), or a label."""

    kind: Literal["row", "query", "label"]
    value: Hashable


@dataclass
class Group:
    """Nodes that belong together, and nodes that do not belong to them."""

    belongs: set[Node] = field(default_factory=set)
    other: set[Node] = field(default_factory=set)


def groups_of(events: Iterable[Event], row_of: Mapping[Any, int], labels: Mapping[int, Any]) -> list[Group]:
    """One group for each set of linked nodes that a query or a given label is part of.

    `row_of` maps ids to rows; `labels` maps rows to their known labels.
    """
    pairs = [(event, *_nodes(event, row_of)) for event in events]
    links = _linked(pairs, labels)
    taught = {links[label if event.kind == "label" else query] for event, query, label in pairs}
    groups: dict[Node, Group] = {}
    for node in links:
        if links[node] in taught:
            groups.setdefault(links[node], Group()).belongs.add(node)
    for event, query, item in pairs:
        if event.kind == "mark" and not event.right:
            for one, two in ((query, item), (item, query)):
                if links[one] in groups:
                    groups[links[one]].other.add(two)
    for group in groups.values():
        _add_labelled_rows(group, labels)
    return list(groups.values())


def _nodes(event: Event, row_of: Mapping[Any, int]) -> tuple[Node, Node]:
    """Query and item of a mark; item and label of a label."""
    item = Node("row", row_of[event.item])
    if event.kind == "label":
        return item, Node("label", event.label)
    if isinstance(event.query, list):
        return Node("query", tuple(event.query)), item
    return Node("row", row_of[event.query]), item


def _linked(pairs: list[tuple[Event, Node, Node]], labels: Mapping[int, Any]) -> DisjointSet:
    """Right marks and labels link two nodes; a known label links its rows unless a mark contradicts it."""
    links = DisjointSet()
    for event, one, two in pairs:
        links.add(one)
        links.add(two)
        if event.kind == "label" or event.right:
            links.merge(one, two)
    contradicted = _contradicted(pairs, labels)
    for node in list(links):
        label = _label_of(node, labels)
        if label is not None and label not in contradicted:
            links.add(Node("label", label))
            links.merge(node, Node("label", label))
    return links


def _contradicted(pairs: list[tuple[Event, Node, Node]], labels: Mapping[int, Any]) -> set[Any]:
    """Labels the marks disagree with: two rows of one label marked wrong, or of different labels marked right."""
    found = set[Any]()
    for event, query, item in pairs:
        both = [_label_of(query, labels), _label_of(item, labels)]
        if event.kind == "mark" and None not in both and (both[0] == both[1]) != event.right:
            found |= set(both)
    return found


def _label_of(node: Node, labels: Mapping[int, Any]) -> Any:
    return labels.get(node.value) if node.kind == "row" else None  # type: ignore[call-overload]


def _add_labelled_rows(group: Group, labels: Mapping[int, Any]) -> None:
    """All rows with a label of the group belong to it; rows with another label do not."""
    own = {node.value for node in group.belongs if node.kind == "label"}
    if own:
        for row, label in labels.items():
            (group.belongs if label in own else group.other).add(Node("row", row))
