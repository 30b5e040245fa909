"""Teaching on the page: steps are saved at once, lessons run in the background, open pages receive events of both.

Marks, labels and lessons are in the journal of the index. Another process may write to the same journal: `sync` takes
over its events.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from cachetools import LRUCache

from likewise.errors import LikewiseError
from likewise.search.items import ItemRef
from likewise.search.rank import NotFoundError
from likewise.serve.catalogue import shown_file
from likewise.serve.jobs import Job, public_text
from likewise.serve.session import Marked, Reference, SearchQuery, Session, Upload
from likewise.teach import Feedback, Teacher
from likewise.teach.concepts import Concept, SavedSearch, grown, save_as_label, saved_searches
from likewise.teach.feedback import Event, outside_name
from likewise.teach.groups import Group, Node
from likewise.teach.learning import card_of
from likewise.teach.suggest import NamedGroup, Suggestion
from likewise.teach.teacher import in_force, opened_feedback
from likewise.utils.threads import blas_threads, n_cores

MOST_LABELLED = 10_000  # items of one step
Send = Callable[[str, dict[str, Any]], None]  # takes the kind of an event and its data


class NothingToUndoError(LikewiseError):
    """A person without a step to take back."""


class TeachingLimitError(LikewiseError):
    """More marks or labels than this server keeps."""


@dataclass(frozen=True)
class Subscriber:
    """An open page, which receives every event; `who` is the name of its person."""

    who: str
    send: Send


class TeachingSession:
    """The teacher of an index, its lessons, and the pages that are open."""

    def __init__(self, session: Session, folder: Path | None) -> None:
        self.session, self._folder, index = session, folder, session.index
        self.job, self.words_job, self._colours_job = (Job(name, folder) for name in ("lesson", "words", "colours"))
        self.feedback = Feedback(folder) if folder is None or index.folder is None else opened_feedback(index)
        self._teacher = Teacher(index, self.feedback)
        self._uploads: LRUCache[str, str] = LRUCache(1024)  # names of uploads by the names of their features
        self._labelled: set[int] = set()
        self._subscribers: list[Subscriber] = []
        self._preparing, self._closing = False, threading.Event()
        self._parked = 0  # steps about items that are not in the index
        self._lock = threading.RLock()
        self._lesson: Event | None = None
        with self._lock:
            self._show_lesson()
            self._refresh_labels()
        self.feedback.refresh()
        session.marked_for = self.marked_for
        if self.events:
            self._prepare()

    # -- steps --------------------------------------------------------------------------------------------------------

    def mark(self, query: list[Reference], items: list[int], right: bool | None, who: str = "") -> None:
        """Mark items right or wrong for a query, or take their marks off; of several examples, for each of them."""
        self._check_room()
        uploads = {ref: self.session.uploads[ref].features for ref in query if isinstance(ref, str)}
        self._uploads.update({outside_name(features): name for name, features in uploads.items()})
        queries = [uploads[ref] if isinstance(ref, str) else ref for ref in query]
        self._teacher.mark(queries, list(dict.fromkeys(items)), right, who)
        self._prepare()
        self.sync()

    def label(self, items: list[int], label: str | None, who: str = "") -> None:
        """Give items a label, or take theirs away."""
        self._check_room(label)
        self._teacher.label(list(dict.fromkeys(items)), label, who)
        self._prepare()
        self.sync()

    def label_set(self, concept: Concept, who: str = "") -> list[int]:
        """Give all items of a set its name as label, in one step; returns the rows that keep another label."""
        self._check_room(concept.name)
        if len(concept) > MOST_LABELLED:
            raise TeachingLimitError(f"{len(concept):,} items are more than one step labels, {MOST_LABELLED:,}")
        event, others = save_as_label(self._teacher, concept, who)
        if event is None:
            raise LikewiseError(f"no item is new: all {len(concept):,} have a label already")
        self._prepare()
        self.sync()
        return [int(row) for row in others]

    def keep_apart(self, items: list[int], who: str = "") -> None:
        """Remember that items are not duplicates of one another."""
        self._check_room()
        self._teacher.keep_apart(list(dict.fromkeys(items)), who)
        self.sync()

    def undo(self, who: str | None = None) -> Event:
        """Take back the last step of `who` (None: of anybody) and return it."""
        if self.job.state == "running":
            raise LikewiseError("a lesson is running; undo when it has finished")
        undone = self._teacher.undo(who)
        if undone is None:
            raise NothingToUndoError(self._why_nothing())
        self.sync()
        return undone

    def _check_room(self, label: str | None = None) -> None:
        """Refuse a step beyond the limits of marks and labels."""
        limits, path = self.session.limits, self.feedback.path
        size = path.stat().st_size if self.feedback.folder is not None and path.exists() else 0
        if size > limits.journal_bytes:
            most = f"{limits.journal_bytes / 2**20:g} MB"
            raise TeachingLimitError(f"the journal of marks and labels has reached its limit of {most}")
        names = self._label_names()
        if label is not None and label not in names and len(names) >= limits.labels:
            raise TeachingLimitError(f"{len(names):,} labels have been given, the limit; use one of them")

    def _label_names(self) -> set[str]:
        return {str(event.label) for event in self.events if event.kind == "label"}

    def _why_nothing(self) -> str:
        steps = self.feedback.steps()
        if not steps:
            return "there is nothing to undo"
        return f"you have nothing to undo; the last step was made by {steps[-1].who or 'somebody else'}"

    # -- lessons ------------------------------------------------------------------------------------------------------

    def learn(self, who: str = "") -> bool:
        """Start a lesson in the background; False if one is running."""
        if not self.pending:
            raise LikewiseError("there is nothing new to learn from: mark some results or give labels first")
        started = self.job.start(lambda: self._learn(who), ended=self._send_status)
        self._send_status()
        return started

    def _learn(self, who: str) -> None:
        self._teacher.learn(who)
        with self._lock:
            if self._teacher.lesson != self._lesson:  # another thread may have shown it already
                self._show_lesson()
        self.words_job.submit(self.session.relearn_words)  # takes seconds, which no lesson waits for
        self.sync()

    def _show_lesson(self) -> None:
        """Search by the lesson in force, and keep the space before that lesson."""
        session, before, lessons = self.session, self._number, self.feedback.lessons
        self._lesson = self._teacher.lesson
        if self._lesson is None:
            session.previous = None
        elif before and before == _number(lessons[-2] if lessons[1:] else None):
            session.previous = session.learned
        else:  # after a restart, after an undo, or of another process
            earlier = in_force(self._teacher.untaught, self.feedback, but_last=True)
            session.previous = earlier.space(version=_number(lessons[-2] if lessons[1:] else None))
        session.learned = self._teacher.index.space(version=self._number)

    @property
    def _number(self) -> int:
        """The number of the lesson in force, 0 without one."""
        return _number(self._lesson)

    def _prepare(self) -> None:
        """Prepare the teacher at the first mark, so that the lesson itself is short."""
        if not self._preparing:
            self._preparing = True
            self.job.submit(self._prepare_on_all_cores)

    def _prepare_on_all_cores(self) -> None:
        with blas_threads(n_cores()):  # the server itself keeps to one thread of BLAS
            self._teacher.prepare()
        self._colours_job.submit(lambda: self._teacher.look(self._thumbnail, self._closing.is_set))

    def _thumbnail(self, row: int) -> bytes | None:
        path = shown_file(self.session.index, row)
        picture = None if path is None else self.session.decoders.picture_of_file(path, "small")
        return None if picture is None else picture[0]

    # -- what was marked for a query ----------------------------------------------------------------------------------

    def marked_for(self, query: SearchQuery) -> Marked | None:
        """What was marked for a query of pictures, which then ranks by it, before anything is kept."""
        if query.has_words or query.unlike or not query.like or not self.count:
            return None
        concept = self._teacher.concept(query=[self._example(ref) for ref in query.like])
        return None if concept is None else Marked(concept, lambda: self._teacher.scores(concept))

    def card(self, label: str | None, query: list[Reference]) -> dict[str, Any] | None:
        """What the marks for a label or a query say about it; None without marks."""
        concept = self._teacher.concept(label=label, query=[self._example(ref) for ref in query] or None)
        return None if concept is None else card_of(label or "this query", concept).facts()

    def _example(self, reference: Reference) -> Any:
        if isinstance(reference, str):
            return self.session.uploads[reference].features
        return reference.features if isinstance(reference, Upload) else reference

    # -- what to mark next --------------------------------------------------------------------------------------------

    def suggest(self, label: str | None, query: Reference | None, n: int) -> list[Suggestion]:
        """The items whose marks are most informative."""
        if label is not None and label not in self._label_names():
            if label not in self.session.labels:
                raise NotFoundError(f"no item has the label {label!r}")
            query, label = self.session.labels.index(label), None  # a label of the index: one of its items
        features = self.session.uploads[query].features if isinstance(query, str) else query
        return self._teacher.suggest(n, label=label, query=features)

    def searches(self) -> list[SavedSearch]:
        """The labels that were given, with what fits them."""
        return saved_searches(self._teacher)

    def new_in(self, label: str, n: int) -> list[Suggestion]:
        """New items that fit a label, as suggestions."""
        concept = NamedGroup(Node("label", label), label, Group())
        rows = [row for search in self.searches() if search.name == label for row in search.new.tolist()]
        return [Suggestion(row, concept, 0.0, "new") for row in rows[:n]]

    def upload_of(self, concept: NamedGroup | None) -> str | None:
        """The upload that is the query of a concept; None for other concepts and forgotten uploads."""
        if concept is None or concept.node.kind != "query":
            return None
        numbers = np.array(concept.node.value, dtype=np.float32)
        return self._uploads.get(outside_name(numbers))

    def grown(self, label: str, at_most_wrong: float | None) -> Concept:
        """A label and what belongs to it, above a cut-off."""
        return grown(self._teacher, label, at_most_wrong)

    # -- the present state --------------------------------------------------------------------------------------------

    def sync(self) -> None:
        """Take over new events, by this process and others, and send them to the pages."""
        with self._lock:
            before, events = self.feedback.problem, self._teacher.refresh()
            if not events and self.feedback.problem == before:
                return
            if any(event.kind in ("label", "undo", "became") for event in events):
                self._refresh_labels()
            if self._teacher.lesson != self._lesson:
                self._show_lesson()
                self.words_job.submit(self.session.relearn_words)
        for event in events:
            self._send_event(event)
        self._send_status()

    def _refresh_labels(self) -> None:
        """Show the last label given to each item, or its original one."""
        state, original = self._teacher.state(), self._teacher.untaught.labels
        labels, self._parked = state.labels, state.parked
        now = {**{row: None if original is None else original[row] for row in self._labelled}, **labels}
        self.session.set_labels({row: None if label is None else str(label) for row, label in now.items()})
        self._labelled = set(labels)

    @property
    def events(self) -> list[Event]:
        return self.feedback.events()

    @property
    def count(self) -> int:
        """Number of steps that mark or label something."""
        return sum(event.kind in ("mark", "label") for event in self.events)

    @property
    def pending(self) -> int:
        """Number of marks and labels added or undone since the last lesson."""
        return self._teacher.pending

    def distinct(self) -> tuple[tuple[int, ...], ...]:
        """Sets of rows that are not duplicates of one another."""
        return self._teacher.state().distinct

    def entries(self) -> list[dict[str, Any]]:
        """Marks and labels as the page shows them."""
        return [self._entry(event) for event in self.events if event.kind in ("mark", "label")]

    def _entry(self, event: Event) -> dict[str, Any]:
        resolver = self._teacher.resolver
        return {
            "id": event.id,
            "kind": event.kind,
            "queries": [resolver.row(query, event) if isinstance(query, ItemRef) else None for query in event.queries],
            "uploads": [self._uploads.get(query) if isinstance(query, str) else None for query in event.queries],
            "items": resolver.rows(event),
            "right": event.right,
            "label": None if event.label is None else str(event.label),
            "who": event.who,
            "time": event.time,
        }

    def describe(self, who: str | None = None) -> dict[str, Any]:
        """The state of teaching, as the page of `who` shows it."""
        with self._lock:
            steps = [event for event in self.feedback.steps() if who is None or event.who == who]
            return {
                "feedback": {"total": self.count, "pending": self.pending},
                "parked": self._parked,
                "problem": None if self.feedback.problem is None else public_text(self.feedback.problem, self._folder),
                "undo": steps[-1].words if steps else None,
                "learning": self.job.describe(),
                "lesson": self.lesson,
                "taught": self._lesson is not None,
                "version": self._number,
                "previous": self.session.previous is not None,
                "calibrated": self.session.learned.calibrated,
            }

    @property
    def lesson(self) -> dict[str, Any] | None:
        """The card of the lesson in force."""
        return None if self._lesson is None else self._teacher.card(self._lesson)

    def model(self) -> Any:
        """The model in force."""
        return self._teacher.index.model

    # -- pages that are open ------------------------------------------------------------------------------------------

    def subscribe(self, who: str, send: Send) -> Subscriber:
        """Send a page every event from now on."""
        subscriber = Subscriber(who, send)
        with self._lock:
            self._subscribers = [*self._subscribers, subscriber]
        return subscriber

    def unsubscribe(self, subscriber: Subscriber) -> None:
        with self._lock:
            self._subscribers = [other for other in self._subscribers if other is not subscriber]

    def _send_event(self, event: Event) -> None:
        if event.kind == "undo":
            self._send("feedback", lambda _: {"undone": event.of, "who": event.who})
        elif event.kind == "lesson":
            self._send("learned", lambda _: self.lesson or {})
        elif event.kind in ("mark", "label"):
            self._send("feedback", lambda _: self._entry(event))

    def _send_status(self) -> None:
        self._send("status", lambda subscriber: self.describe(subscriber.who))

    def _send(self, kind: str, data: Callable[[Subscriber], dict[str, Any]]) -> None:
        for subscriber in self._subscribers:
            subscriber.send(kind, data(subscriber))

    def close(self) -> None:
        """Start no further lesson."""
        self._closing.set()
        for job in (self.job, self.words_job, self._colours_job):
            job.close()


def _number(lesson: Event | None) -> int:
    return 0 if lesson is None else int((lesson.facts or {})["number"])
