"""Teaching on the page: marks are saved at once, lessons run in the background, and every step can be undone."""

import tempfile
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain, takewhile
from pathlib import Path
from typing import Any

from likewise.errors import LikewiseError
from likewise.retrieval import Feedback, Teacher
from likewise.retrieval.feedback import Event
from likewise.utils.threads import blas_controller, n_cores
from likewise.web.session import Reference, Session, learned_space
from likewise.web.workers import Job


@dataclass(frozen=True)
class UndoStep:
    """Something that can be undone: one or more events of feedback, or a lesson (no events).

    `uploads` has the name of the uploaded query of each event, None where the query is an item.
    """

    what: str
    back: Callable[[], None]
    uploads: tuple[str | None, ...] = ()


class TeachingSession:
    """The teacher of an index, its lessons, and the steps that can be undone."""

    def __init__(self, session: Session, folder: Path | None) -> None:
        self.session = session
        self.job = Job("lesson")
        self.lesson: dict[str, Any] | None = None
        self._closing = ExitStack()
        self.journal = Feedback(folder or self._closing.enter_context(tempfile.TemporaryDirectory()))
        self._teacher = Teacher(session.index, self.journal)
        self._labels = list(session.labels)
        self._learned: tuple[Event, ...] = ()
        self._preparing = False
        self._lock = threading.RLock()
        self._steps = [UndoStep(_in_words(event), lambda: self._forget(1), (None,)) for event in self._teacher.events]
        for event in self._teacher.events:
            self._refresh_label(event)

    def mark(self, query: list[Reference], item: int, right: bool) -> None:
        """Mark an item right or wrong for a query; of several examples, for each of them."""
        queries = [self.session.upload(ref).features if isinstance(ref, str) else ref for ref in query]
        uploads = tuple(ref if isinstance(ref, str) else None for ref in query)
        with self._lock:
            events = self._teacher.mark_each(queries, item, right)
            self._steps.append(UndoStep(_in_words(events[0]), lambda: self._forget(len(events)), uploads))
        self._prepare()

    def label(self, item: int, label: str) -> None:
        with self._lock:
            event = self._teacher.label(item, label)
            self._steps.append(UndoStep(_in_words(event), lambda: self._forget(1), (None,)))
            self._refresh_label(event)
        self._prepare()

    def _forget(self, count: int) -> None:
        for _ in range(count):
            event = self._teacher.undo()
            if event is not None:
                self._refresh_label(event)

    def _refresh_label(self, event: Event) -> None:
        """Show the last label given to the item of an event, or its original one."""
        if event.kind == "label":
            given = [e.label for e in self._teacher.events if e.kind == "label" and e.item == event.item]
            row = self._row(event.item)
            self.session.set_label(row, str(given[-1]) if given else self._labels[row])

    def learn(self) -> bool:
        """Start a lesson in the background; False if one is running."""
        if not self.pending:
            raise LikewiseError("there is nothing new to learn from: mark some results or give labels first")
        return self.job.start(self._learn)

    def _learn(self) -> None:
        session, teacher, before = self.session, self._teacher, self._teacher.index
        lesson = teacher.learn()
        space = learned_space(lesson.index, session.learned.version + 1)
        old = (session.learned, session.previous, self.lesson, self._learned)

        def back() -> None:
            session.learned, session.previous, self.lesson, self._learned = old
            teacher.index = before

        with self._lock:
            session.learned, session.previous, self._learned = space, session.learned, lesson.events
            self.lesson = {
                "number": space.version,
                "marks": lesson.n_marks + lesson.n_labels,
                "seconds": lesson.seconds,
                "before": lesson.before,
                "after": lesson.after,
                "held_out": lesson.n_held,
            }
            self._steps.append(UndoStep(f"lesson {space.version}", back))

    def _prepare(self) -> None:
        """Prepare the teacher when the first mark is given, so that the lesson itself is short."""
        if not self._preparing:
            self._preparing = True
            # The server itself keeps to one thread of BLAS.
            self.job.submit(blas_controller().wrap(limits=n_cores(), user_api="blas")(self._teacher.prepare))

    def undo(self) -> str | None:
        """Undo the last step and return what it was; None if there is none."""
        with self._lock:
            if self.job.state == "running":
                raise LikewiseError("a lesson is running; undo when it has finished")
            if not self._steps:
                return None
            step = self._steps.pop()
            step.back()
        return step.what

    @property
    def count(self) -> int:
        return len(self._teacher.events)

    @property
    def pending(self) -> int:
        """Number of marks and labels given or undone since the last lesson."""
        events = self._teacher.events
        same = sum(1 for _ in takewhile(lambda pair: pair[0] is pair[1], zip(events, self._learned, strict=False)))
        return len(events) + len(self._learned) - 2 * same

    def entries(self) -> list[dict[str, Any]]:
        with self._lock:
            uploads = chain.from_iterable(step.uploads for step in self._steps)
            return [self._entry(event, name) for event, name in zip(self._teacher.events, uploads, strict=True)]

    def describe(self) -> dict[str, Any]:
        """The state of teaching, as the page shows it."""
        with self._lock:
            return {
                "feedback": {"total": self.count, "pending": self.pending},
                "undo": self._steps[-1].what if self._steps else None,
                "learning": self.job.describe(),
                "lesson": self.lesson,
                "previous": self.session.previous is not None,
            }

    def close(self) -> None:
        """Start no further lesson."""
        self.job.close()
        self._closing.close()

    def _entry(self, event: Event, upload: str | None) -> dict[str, Any]:
        from_outside = event.query is None or isinstance(event.query, list)
        return {
            "kind": event.kind,
            "query": None if from_outside else self._row(event.query),
            "upload": upload,
            "item": self._row(event.item),
            "right": event.right,
            "label": None if event.label is None else str(event.label),
        }

    def _row(self, value: Any) -> int:
        return self.session.index.items.row_of[value]


def _in_words(event: Event) -> str:
    if event.kind == "label":
        return f"label {event.label}"
    return f"item {event.item} marked {'right' if event.right else 'wrong'}"
