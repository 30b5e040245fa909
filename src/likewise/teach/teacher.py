"""Teaching an index by clicks: marks and labels become groups, groups are learned, and lessons last.

Rows marked right belong together with their query, and so do rows with the same label: these are the groups, each with
rows known not to belong. The journal in the folder of the index says what was taught and which lesson is in force.
"""

import logging
import os
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from cachetools import LRUCache

from likewise.errors import LikewiseError
from likewise.learn.base import SimilarityModel
from likewise.search.index import BaseIndex, Index
from likewise.search.items import ItemRef
from likewise.search.rank import query_rows, row_numbers
from likewise.teach.feedback import Event, Feedback, events_of, outside_name
from likewise.teach.groups import FeedbackState, Group, Node, Resolver, groups_of
from likewise.teach.learning import ConceptCard, Learner, Scored, card_of
from likewise.teach.suggest import NamedGroup, Suggestion, a_start, in_turn, suggested
from likewise.teach.taught import ChangedRows, Taught
from likewise.teach.taught_index import SavedLesson, TaughtIndex, has_feedback, read_lesson, untaught, write_lesson
from likewise.utils.threads import single_threaded_blas
from likewise.utils.wording import listed

log = logging.getLogger("likewise")

MOST_ALIKE = 200  # rows outside the graph that a label is learned from
MOST_SHOWN = 60  # concepts that the card of a lesson is about
MOST_SCORED = 500  # concepts whose scores are remembered; of a large gallery a twentieth


@dataclass(frozen=True)
class Lesson:
    """The outcome of learning: a model, the index under it, and the entry of the journal."""

    model: SimilarityModel
    index: TaughtIndex
    event: Event
    n_marks: int
    n_labels: int


class Teacher:
    """Learns from marks and labels while the index keeps serving.

    Parameters
    ----------
    index : Index or TaughtIndex
        The index to teach; it is not changed: each lesson brings a new one. Of an index that was taught already, the
        lessons in its journal are learned again together; what its own model knew stays.
    feedback : Feedback or None
        A journal: every mark and label is written to it before it counts. None keeps them in memory.
    """

    def __init__(self, index: BaseIndex, feedback: Feedback | None = None) -> None:
        self.index, self.untaught = index, untaught(index)
        self.feedback = Feedback() if feedback is None else feedback
        self._learner = Learner(self.untaught)
        self.resolver = Resolver(self.untaught, self.feedback)
        self.base = self._learner.base
        self.lesson = _last(self.feedback.lessons)  # which the index is under
        self._lock = threading.RLock()
        self._scored: LRUCache[Any, Scored] = LRUCache(MOST_SCORED if not self._learner.is_large else MOST_SCORED // 20)
        self._concepts_of: tuple[Any, tuple[FeedbackState, list[NamedGroup]]] = None, (FeedbackState(), [])

    def prepare(self) -> None:
        """Compute what all concepts share, once per index: the graph and the background of the gallery, names of rows.

        `learn` does this if it has not been done before.
        """
        self._learner.prepare()
        self.state()  # looks items up by their names: of a million, half a second the first time

    def look(self, thumbnail: Callable[[int], bytes | None], stopping: Callable[[], bool] = lambda: False) -> None:
        """Measure colour and light of the pictures, once per index; from then on a concept may use them.

        `thumbnail` returns the picture of a row as the bytes of a JPEG, None if it cannot be read.
        """
        if self._learner.colours.measure(thumbnail, stopping):
            self._learner.prepare().colours = self._learner.colours.rows()
            with self._lock:
                self._scored.clear()

    # -- feedback -----------------------------------------------------------------------------------------------------

    @property
    def events(self) -> list[Event]:
        """Marks and labels that were not taken back."""
        return self.feedback.events()

    def mark(self, queries: Any, items: Any, right: bool | None, who: str = "") -> Event:
        """Mark items right or wrong for queries, or (None) take their marks off, in one step.

        A query is a row of the index, an id that is text, or the raw numbers of something else; `queries` is one of
        them or a list. Items are rows, or ids that are text.
        """
        rows, numbers = self._queries(queries if isinstance(queries, list) else [queries])
        wanted = self._rows(items).tolist()
        if set(rows) & set(wanted):
            raise LikewiseError(f"item {next(iter(set(rows) & set(wanted)))} is the query itself; mark another")
        outside = {outside_name(x): x for x in numbers}
        named: tuple[ItemRef | str, ...] = (*self._references(rows), *outside)
        right = None if right is None else bool(right)
        return self.feedback.append(Event("mark", named, self._references(wanted), right, who=who), outside)

    def label(self, items: Any, label: Any, who: str = "") -> Event:
        """Give items a label, a known one or a new one, or (None) remove theirs, in one step."""
        if isinstance(label, str) and not label.strip():
            raise LikewiseError(f"label={label!r}; expected a name")
        return self.feedback.append(Event("label", items=self._references(items), label=label, who=who))

    def take(self, table: Any) -> int:
        """Take all marks and labels of a table at once; returns the number of lines about items that are not here.

        A table is a CSV file, a data frame or a mapping, with the columns item and label, or query, item and right.
        """
        events, unknown = events_of(table, self.untaught)
        self.feedback.extend(events)
        return unknown

    def keep_apart(self, items: Any, who: str = "") -> Event:
        """Remember that items are not duplicates of each other, however alike they are."""
        return self.feedback.append(Event("distinct", items=self._references(items), who=who))

    def undo(self, who: str | None = None) -> Event | None:
        """Take back the last step of `who` (None: of anybody) and return it; None if there is none."""
        undone = self.feedback.undo(who)
        self._follow()
        return undone

    def refresh(self) -> list[Event]:
        """Take over what other processes taught; returns all events since the last call."""
        events = self.feedback.refresh()
        self._follow()
        return events

    def _follow(self) -> None:
        """Put the index under the lesson in force, if that has changed."""
        lesson = _last(self.feedback.lessons)
        if (lesson and lesson.id) != (self.lesson and self.lesson.id):
            self.index, self.lesson = in_force(self.untaught, self.feedback), lesson

    @property
    def pending(self) -> int:
        """Number of marks and labels given or undone since the last lesson."""
        learned = [] if self.lesson is None else self.feedback.events_at(self.lesson)
        now, before = ({event.id for event in events if event.kind != "distinct"} for events in (self.events, learned))
        return len(now ^ before)

    def state(self) -> FeedbackState:
        """What marks and labels say of the rows of this index."""
        return self.resolver.state(self.events)

    def _queries(self, queries: Sequence[Any]) -> tuple[list[int], list[np.ndarray]]:
        """Rows of the index, and numbers from outside."""
        rows = [int(self._rows(query)[0]) for query in queries if not np.ndim(query)]
        width = self.index.raw.shape[1]
        numbers = [query_rows(query, width)[0].astype(np.float32) for query in queries if np.ndim(query)]
        return rows, numbers

    def _rows(self, items: Any) -> np.ndarray:
        """Row numbers of items, which are rows or ids that are text."""
        named = isinstance(items, str) or (np.ndim(items) == 1 and len(items) and isinstance(items[0], str))
        return self.index.rows_of(items) if named else row_numbers(items, len(self.index))

    def _references(self, rows: Any) -> tuple[ItemRef, ...]:
        numbers = self._rows(rows).tolist() if np.size(rows) else []
        return tuple(self.untaught.identities.references(numbers))

    # -- learning -----------------------------------------------------------------------------------------------------

    def learn(self, who: str = "") -> Lesson:
        """Learn from all marks and labels; the index of the lesson is ready to search, and is found again by `load`."""
        self.feedback.refresh()
        steps, began = self.feedback.steps(), time.perf_counter()
        self.prepare()
        # One BLAS thread: on these small systems two of them took three times as long, waiting for each other.
        with single_threaded_blas():
            state = self.resolver.state(event for event in steps if event.kind != "lesson")
            concepts = [(concept, self.scored(concept.group, state)) for concept in self._concepts(state)]
            taught, part = self._taught(state, [scored for _, scored in concepts])
            cards = [card_of(concept.name, scored) for concept, scored in concepts]
            facts = self._facts(state, cards)
        through = steps[-1].id if steps else None
        facts = {**facts, "through": through, "seconds": time.perf_counter() - began}
        self.index, self.lesson = taught, self._keep(taught, part, facts, who)
        return Lesson(taught.model, taught, self.lesson, len(state.marks), len(state.labels))

    def taught_by(self, state: FeedbackState) -> tuple[TaughtIndex, ChangedRows | None]:
        """The index after a lesson from this feedback, and the coordinates of the rows that it reached."""
        self.prepare()
        with single_threaded_blas():  # as in `learn`: more threads round otherwise
            return self._taught(state, [self.scored(group, state) for group in self._groups(state)])

    def _taught(self, state: FeedbackState, concepts: list[Scored]) -> tuple[TaughtIndex, ChangedRows | None]:
        labels = state.labels_of(self.untaught)
        if not concepts:
            return TaughtIndex(self.untaught, None, labels=labels), None
        model, part = self._learner.learn(concepts)
        return TaughtIndex(self.untaught, model, part, labels), part

    # -- concepts: what marks and labels say at once, before anything is kept -----------------------------------------

    def scored(self, group: Group, state: FeedbackState) -> Scored:
        """What a group says about the gallery, computed once as long as nothing new is marked for it."""
        explicit = state.explicit & (group.belongs | group.other)
        key = frozenset(group.belongs), frozenset(group.other), frozenset(explicit)
        with self._lock:
            if key not in self._scored:
                self._scored[key] = self._learner.scored(group, explicit)
            return self._scored[key]

    def concept(self, *, label: Any = None, query: Any = None) -> Scored | None:
        """What was marked for a label or a query, and how it ranks the gallery; None if nothing was.

        A query is a row or raw numbers, for which something was marked, or a list of several that belong together.
        """
        self.prepare()
        queries = query if isinstance(query, list) else [] if query is None else [query]
        rows, numbers = self._queries(queries)
        wanted = {Node("row", row) for row in rows} | {Node("query", tuple(x.tolist())) for x in numbers}
        wanted |= set() if label is None else {Node("label", label)}
        state, concepts = self._current()
        group = next((concept.group for concept in concepts if wanted <= concept.group.belongs), None)
        is_asked = len(wanted) > 1 or label is not None or wanted <= {mark.query for mark in state.marks}
        return self.scored(group, state) if group is not None and is_asked else None

    def scores(self, concept: Scored) -> np.ndarray:
        """Scores of all rows by which a search for a concept ranks them."""
        return self._learner.scores(concept)

    def _current(self) -> tuple[FeedbackState, list[NamedGroup]]:
        """What marks and labels say now, and the concepts of it."""
        version = self.feedback.version
        if self._concepts_of[0] != version:
            state = self.state()
            self._concepts_of = version, (state, self._concepts(state))
        return self._concepts_of[1]

    def _groups(self, state: FeedbackState) -> list[Group]:
        given_labels = {row: label for row, label in state.labels.items() if label is not None}
        return groups_of(state.marks, given_labels, self._known_labels(state.labels_of(self.untaught), state))

    # -- what to mark next --------------------------------------------------------------------------------------------

    def suggest(self, n: int = 10, *, label: Any = None, query: Any = None, among: Any = None) -> list[Suggestion]:
        """The n items whose marks would teach most about a concept, or in turn about all of them.

        A concept is a label, or a query: a row of the index or raw numbers. Its marked items never come. If nothing
        was marked, these are items that represent most others. `among` limits the choice to these rows of the index.
        """
        rows = np.arange(len(self.index)) if among is None else row_numbers(among, len(self.index))
        self.prepare()
        with single_threaded_blas():
            if label is not None or query is not None:
                concept = self._concept(label, query)
                return suggested(concept, self.scored(concept.group, self.state()), n, rows)
            state, concepts = self._current()
            concepts = sorted(concepts, key=lambda concept: (concept.n_marked, concept.name))[:n]
            if not concepts:
                return a_start(self._learner.prepare(), self._learner.some, n, rows)
            return in_turn([suggested(concept, self.scored(concept.group, state), n, rows) for concept in concepts], n)

    def _concepts(self, state: FeedbackState) -> list[NamedGroup]:
        """All groups, each with its label or, if it has none, the first of its queries."""
        queries = {mark.query for mark in state.marks}
        named = ((group, min(_labels(group) or group.belongs & queries, key=repr)) for group in self._groups(state))
        return [NamedGroup(node, self._name(node), group) for group, node in named]

    def _concept(self, label: Any, query: Any) -> NamedGroup:
        """The group of a label or of a query; a query without marks is a group by itself."""
        if (label is None) == (query is None):
            raise LikewiseError(f"label={label!r} and query={query!r}; expected one of them")
        if query is None:
            node = Node("label", label)
        else:
            rows, numbers = self._queries([query])
            node = Node("row", rows[0]) if rows else Node("query", tuple(numbers[0].tolist()))
        concepts = self._current()[1]
        groups = [concept.group for concept in concepts if node in concept.group.belongs]
        if not groups and query is None:
            known = sorted(str(name.value) for concept in concepts for name in _labels(concept.group))
            raise LikewiseError(f"label={label!r} was given to no item; expected one of {listed(known)}")
        return NamedGroup(node, self._name(node), groups[0] if groups else Group({node}))

    def _name(self, node: Node) -> str:
        if node.kind == "row":
            return str(self.index.ids[cast(int, node.value)])
        return str(node.value) if node.kind == "label" else "the query"

    def _facts(self, state: FeedbackState, cards: list[ConceptCard]) -> dict[str, Any]:
        """What a lesson did, as its card says: what to expect of each concept."""
        return {
            "marks": len(state.marks),
            "labels": len(state.labels),
            "concepts": [{**card.facts(), "doubtful": self._references(card.doubtful)} for card in cards[:MOST_SHOWN]],
        }

    def card(self, lesson: Event) -> dict[str, Any]:
        """What a lesson did: numbers, and rows of this index."""
        facts = {name: value for name, value in (lesson.facts or {}).items() if name != "through"}
        for concept in (concepts := [dict(concept) for concept in facts.get("concepts", [])]):
            rows = (self.resolver.row(ItemRef(*ref), lesson) for ref in concept["doubtful"])
            concept["doubtful"] = [row for row in rows if row is not None]
        return {**facts, "concepts": concepts, "who": lesson.who}

    def _keep(self, taught: TaughtIndex, part: ChangedRows | None, facts: dict[str, Any], who: str) -> Event:
        """Save the taught part of the model, then the journal entry that makes it count."""
        lessons = self.feedback.lessons
        number = 1 + max((int((event.facts or {}).get("number", 0)) for event in lessons), default=0)
        event = Event("lesson", who=who, facts={"number": number, **facts}, id=secrets.token_hex(8))
        if (
            self.feedback.folder is not None
            and self.untaught.folder is not None
            and part is not None
            and isinstance(taught.model, Taught)
        ):
            self.feedback.check_folder()
            write_lesson(self.untaught, event.id, taught.model, part, [lesson.id for lesson in lessons])
        return self.feedback.append(event)

    def _known_labels(self, labels: np.ndarray | None, state: FeedbackState) -> dict[int, Any]:
        """Labels by row; of a large gallery, those of some rows, of rows with feedback, and of some like them."""
        if labels is None:
            return {}
        rows = self._learner.some
        if len(rows) < len(labels):
            mentioned = np.array(sorted(state.rows), np.int64)
            alike = (
                np.flatnonzero(labels == label)[:MOST_ALIKE] for label in {labels[row] for row in mentioned} - {None}
            )
            rows = np.unique(np.concatenate([rows, mentioned, *alike]))
        return {row: labels[row] for row in rows.tolist() if labels[row] is not None}


def _last(lessons: list[Event]) -> Event | None:
    return lessons[-1] if lessons else None


def _labels(group: Group) -> set[Node]:
    """The labels of a group."""
    return {node for node in group.belongs if node.kind == "label"}


def opened_feedback(index: BaseIndex) -> Feedback:
    """The feedback of an index that was loaded."""
    assert index.folder is not None
    feedback = Feedback(index.folder)
    if feedback.damaged:
        log.warning("%s: %d damaged records were passed over", feedback.path, feedback.damaged)
    return feedback


def load_index(folder: str | os.PathLike[str], *, verify: bool = True) -> Index | TaughtIndex:
    """Read an index under the last lesson in its journal; `verify` compares every file with its checksum."""
    index = Index.load(folder, verify=verify)
    return in_force(index) if has_feedback(Path(folder)) else index


def in_force(index: Index, feedback: Feedback | None = None, *, but_last: bool = False) -> TaughtIndex:
    """An untaught index under the last lesson in its journal (or the one before), with all labels that were given."""
    feedback = opened_feedback(index) if feedback is None else feedback
    labels = Resolver(index, feedback).state(feedback.events()).labels_of(index)
    lessons = feedback.lessons[:-1] if but_last else feedback.lessons
    recalled = _recalled(index, feedback, lessons[-1]) if lessons else None
    model, part, known = recalled or (None, None, None)
    taught = TaughtIndex(index, model, part, labels)
    taught.known = known
    return taught


def _recalled(index: Index, feedback: Feedback, lesson: Event) -> SavedLesson | None:
    """What a lesson has taught: from its file, or learned again if the index has another model by now."""
    is_kept = feedback.folder is not None and index.folder is not None
    recalled = read_lesson(index, lesson.id) if is_kept else None
    if recalled is None:
        teacher = Teacher(index, feedback)
        taught, part = teacher.taught_by(Resolver(index, feedback).state(feedback.events_at(lesson)))
        if part is None or not isinstance(taught.model, Taught):
            return None
        recalled = SavedLesson(taught.model, part)
        if is_kept:
            with suppress(LikewiseError):  # a folder that cannot be written is no reason not to search it
                others = [event.id for event in feedback.lessons if event.id != lesson.id]
                write_lesson(index, lesson.id, taught.model, part, others)
    return recalled
