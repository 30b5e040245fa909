"""Teaching on the page: every mark is kept at once, lessons are learned in the background, every step can be undone."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from likewise.errors import LikewiseError
from likewise.retrieval.feedback import Event, Feedback
from likewise.web.jobs import Job
from likewise.web.session import Desk, Reference
from likewise.web.spaces import learned_space

__all__ = ["Classroom"]


@dataclass(frozen=True)
class Told:
    """An event of the journal and, for a picture that was brought, the name the page knows it by."""

    event: Event
    upload: str | None = None


@dataclass(frozen=True)
class Step:
    """Something that can be taken back."""

    what: str
    back: Callable[[], None]


class Classroom:
    """The teacher of an index, what it was told, and what was done last."""

    def __init__(self, desk: Desk, folder: Path | None) -> None:
        self.desk = desk
        self.job = Job("lesson")
        self.lesson: dict[str, Any] | None = None
        self._scratch = tempfile.TemporaryDirectory() if folder is None else None
        self._journal = Feedback(self._scratch.name if folder is None else folder)  # type: ignore[union-attr]
        self._row = {value: row for row, value in enumerate(desk.index.ids.tolist())}
        self._given = list(desk.labels)
        self._told = [Told(event) for event in self._journal.events() if self._known(event)]
        self._steps = [Step(_in_words(told.event), self._forget) for told in self._told]
        self._learned: list[Told] = []
        self._teacher: Any = None
        self._lock = threading.RLock()
        for told in self._told:
            self._show_label(told.event)

    # -- telling ------------------------------------------------------------------------------------------------------

    def mark(self, query: list[Reference], item: int, right: bool) -> None:
        """Say that an item is right or wrong for a query; of several examples it is so for each."""
        self.desk.checked(item)
        if item in query:
            raise LikewiseError(f"item {item} is the query itself; mark another")
        events = [Told(self._mark(ref, item, right), ref if isinstance(ref, str) else None) for ref in query]
        with self._lock:
            for told in events:
                self._keep(told)
            self._steps.append(Step(_in_words(events[0].event), lambda: self._forget(len(events))))
        self._prepare()

    def label(self, item: int, label: str) -> None:
        """Say what an item is."""
        self.desk.checked(item)
        event = Event("label", item=self._id(item), label=label)
        with self._lock:
            self._keep(Told(event))
            self._steps.append(Step(_in_words(event), self._forget))
            self._show_label(event)
        self._prepare()

    def _mark(self, ref: Reference, item: int, right: bool) -> Event:
        query = self.desk.upload(ref).features.tolist() if isinstance(ref, str) else self._id(self.desk.checked(ref))
        return Event("mark", query, self._id(item), right)

    def _keep(self, told: Told) -> None:
        self._told.append(Told(self._journal.append(told.event), told.upload))

    def _forget(self, count: int = 1) -> None:
        for _ in range(count):
            self._journal.append(Event("undo"))
            self._show_label(self._told.pop().event)

    def _show_label(self, event: Event) -> None:
        """Let the page see the label an item has now."""
        if event.kind == "label":
            given = [
                told.event.label for told in self._told if told.event.kind == "label" and told.event.item == event.item
            ]
            row = self._row[event.item]
            self.desk.set_label(row, given[-1] if given else self._given[row])

    # -- learning -----------------------------------------------------------------------------------------------------

    def learn(self) -> bool:
        """Begin a lesson in the background; False if one is going on."""
        with self._lock:
            told = list(self._told)
            if not self.pending:
                raise LikewiseError("there is nothing new to learn from: mark some results or give labels first")
        return self.job.start(lambda: self._learn(told))

    def _learn(self, told: list[Told]) -> None:
        teacher = self._ready()
        teacher.events = [each.event for each in told]
        before = teacher.index
        with threadpool_limits(os.cpu_count(), "blas"):
            lesson = teacher.learn()
        desk = self.desk
        space = learned_space(lesson.index, desk.learned.version + 1)
        old = (desk.learned, desk.previous, self.lesson, self._learned)

        def back() -> None:
            desk.learned, desk.previous, self.lesson, self._learned = old
            teacher.index = before

        with self._lock:
            desk.learned, desk.previous, self._learned = space, desk.learned, told
            self.lesson = _facts(lesson, space.version)
            self._steps.append(Step(f"lesson {space.version}", back))

    def _prepare(self) -> None:
        """Make the teacher ready as soon as somebody begins to teach: a lesson itself is then short."""
        if self._teacher is None:
            self.job.ahead(self._ready)

    def _ready(self) -> Any:
        from likewise.retrieval import Teacher

        if self._teacher is None:
            with threadpool_limits(os.cpu_count(), "blas"):
                self._teacher = Teacher(self.desk.index)
        return self._teacher

    # -- taking back and telling --------------------------------------------------------------------------------------

    def undo(self) -> str | None:
        """Take the last step back and say what it was."""
        with self._lock:
            if self.job.state == "running":
                raise LikewiseError("a lesson is being learned; undo when it is done")
            if not self._steps:
                return None
            step = self._steps.pop()
            step.back()
        return step.what

    @property
    def count(self) -> int:
        """Marks and labels that count."""
        return len(self._told)

    @property
    def pending(self) -> int:
        """How much was told or taken back since the last lesson."""
        same = sum(1 for _ in takewhile(lambda pair: pair[0] is pair[1], zip(self._told, self._learned, strict=False)))
        return len(self._told) + len(self._learned) - 2 * same

    def entries(self) -> list[dict[str, Any]]:
        """Marks and labels by row number."""
        with self._lock:
            return [self._entry(told) for told in self._told]

    def csv(self) -> str:
        """All that counts as CSV."""
        return self._journal.to_csv()

    def describe(self) -> dict[str, Any]:
        """What the page shows of the teaching."""
        with self._lock:
            return {
                "feedback": {"total": self.count, "pending": self.pending},
                "undo": self._steps[-1].what if self._steps else None,
                "learning": self.job.describe(),
                "lesson": self.lesson,
                "previous": self.desk.previous is not None,
            }

    def close(self) -> None:
        """Begin no other lesson."""
        self.job.close()
        if self._scratch is not None:
            self._scratch.cleanup()

    def _entry(self, told: Told) -> dict[str, Any]:
        event = told.event
        row = None if isinstance(event.query, list) else self._row.get(event.query)
        return {
            "kind": event.kind,
            "query": row,
            "upload": told.upload,
            "item": self._row[event.item],
            "right": event.right,
            "label": None if event.label is None else str(event.label),
        }

    def _id(self, row: int) -> Any:
        value = self.desk.index.ids[row]
        return value.item() if hasattr(value, "item") else value

    def _known(self, event: Event) -> bool:
        """Whether an event of an earlier day still speaks of this index."""
        return event.item in self._row and (
            event.query is None or isinstance(event.query, list) or event.query in self._row
        )


def _facts(lesson: Any, number: int) -> dict[str, Any]:
    return {
        "number": number,
        "marks": lesson.n_marks + lesson.n_labels,
        "seconds": lesson.seconds,
        "before": lesson.before,
        "after": lesson.after,
        "held_out": lesson.n_held,
    }


def _in_words(event: Event) -> str:
    if event.kind == "label":
        return f"label {event.label}"
    return f"item {event.item} marked {'right' if event.right else 'wrong'}"
