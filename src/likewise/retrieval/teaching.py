"""Teaching an index by clicks: marks and labels become groups, groups spread, and one small system is solved.

Rows marked right belong together with their query, and so do rows with the same label: these are the groups, each with
rows known not to belong. A group is propagated over the graph of neighbours, its negatives against it, and the result
is regressed on the rows by a kernel. This gives one more coordinate per group beside those of the model.
"""

import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.preprocessing import normalize

from likewise.base import SimilarityModel
from likewise.errors import LikewiseError
from likewise.metrics import mean_average_precision
from likewise.retrieval.feedback import Event, Feedback, Group, Node, groups_of
from likewise.retrieval.index import Index
from likewise.retrieval.search import query_rows, row_numbers
from likewise.retrieval.taught import Ground, Taught, prepared
from likewise.utils.threads import single_threaded_blas

MOST_ROWS = 20_000  # of a larger gallery a sample of rows is used: the graph costs rows²
MOST_HELD = 1_000
HELD_SHARE = 0.3
REACH = 50  # rows of a group that count fully, or as many as it has examples
WEIGHT = 1.5  # of a taught coordinate relative to a unit row
THRESHOLD = 0.2  # taught coordinates below it are set to zero


@dataclass(frozen=True)
class Lesson:
    """The outcome of learning: a model, the index under it, and mAP on held-out labelled items before and after."""

    model: SimilarityModel
    index: Index
    before: float | None
    after: float | None
    seconds: float
    n_marks: int
    n_labels: int
    n_held: int
    events: tuple[Event, ...] = ()


class Teacher:
    """Learns from marks and labels while the index keeps serving.

    Parameters
    ----------
    index : Index
        The index to teach; it is not changed: each lesson brings a new one.
    feedback : Feedback or None
        A journal: its events are loaded, and every mark and label is written to it before it counts.
    random_state : int
        Seed of the held-out items and of the landmarks.
    """

    def __init__(self, index: Index, feedback: Feedback | None = None, *, random_state: int = 0) -> None:
        self.index = index
        self.base: SimilarityModel = index.model.base if isinstance(index.model, Taught) else index.model
        self.feedback = feedback
        self._original = index.labels
        self._row_of = index.items.row_of
        self._V = index.base_vectors
        self._cosine = bool(np.allclose(np.linalg.norm(self._V[:1000], axis=1), 1, atol=1e-3))
        centre = np.zeros(self._V.shape[1]) if self._cosine else self._V.mean(axis=0)
        self._centre = centre.astype(np.float32)
        self._rng = np.random.default_rng(random_state)
        self._held = _held_out(index.labels, self._rng)
        self._rows = np.sort(self._rng.permutation(len(index))[:MOST_ROWS])
        self._place = {int(row): place for place, row in enumerate(self._rows)}
        self._lock = threading.Lock()
        self._prepared: tuple[Ground, float] | None = None
        self.events: list[Event] = [] if feedback is None else [e for e in feedback.events() if self._is_known(e)]

    def prepare(self) -> None:
        """Compute what all lessons share, once per index: the graph and the kernel of the gallery.

        `learn` does this if it has not been done before.
        """
        with self._lock:
            if self._prepared is None:
                ground = prepared(self._directions(self._V[self._rows]), self._rng)
                scale = 1.0 if self._cosine else _spread_of_scores(self.base, self.index, self._rng)
                self._prepared = ground, scale

    # -- feedback -----------------------------------------------------------------------------------------------------

    def mark(self, query: Any, item: int, right: bool) -> Event:
        """Mark an item right or wrong for a query: a row of the index, or the raw numbers of something else."""
        return self.mark_each([query], item, right)[0]

    def mark_each(self, queries: Sequence[Any], item: int, right: bool) -> list[Event]:
        """Mark an item for several queries; nothing is saved unless all of them are valid."""
        events = [self._mark_event(query, item, right) for query in queries]
        return [self._add(event) for event in events]

    def label(self, item: int, label: Any) -> Event:
        """Give an item a label, a known one or a new one."""
        if label is None or (isinstance(label, str) and not label.strip()):
            raise LikewiseError(f"label={label!r}; expected a name")
        return self._add(Event("label", item=self._id(item), label=label))

    def undo(self) -> Event | None:
        """Undo the last mark or label and return it; None if there is none."""
        if not self.events:
            return None
        if self.feedback is not None:
            self.feedback.append(Event("undo"))
        return self.events.pop()

    def _mark_event(self, query: Any, item: int, right: bool) -> Event:
        if np.ndim(query):
            numbers = query_rows(query, self.index.raw.shape[1])[0].tolist()
            return Event("mark", numbers, self._id(item), bool(right))
        event = Event("mark", self._id(query), self._id(item), bool(right))
        if event.query == event.item:
            raise LikewiseError(f"item {item} is the query itself; mark another")
        return event

    def _add(self, event: Event) -> Event:
        if self.feedback is not None:
            event = self.feedback.append(event)
        self.events.append(event)
        return event

    def _id(self, row: Any) -> Any:
        return self.index.ids[row_numbers(row, len(self.index))].tolist()[0]

    def _is_known(self, event: Event) -> bool:
        """Whether the items of an event are still in the index."""
        from_outside = event.query is None or isinstance(event.query, list)
        return event.item in self._row_of and (from_outside or event.query in self._row_of)

    # -- learning -----------------------------------------------------------------------------------------------------

    def learn(self) -> Lesson:
        """Learn from all marks and labels; the index of the lesson is ready to search."""
        self.prepare()
        # One BLAS thread: on these small systems two of them took three times as long, waiting for each other.
        with single_threaded_blas():
            return self._learned(tuple(self.events), time.perf_counter())

    def _learned(self, events: tuple[Event, ...], began: float) -> Lesson:
        labels = self._labels(events)
        groups = groups_of(events, self._row_of, self._known_labels(labels, events))
        model, fitted = self._solved(groups) if groups else (self.base, None)
        taught = self.index.with_model(model, fitted).with_labels(labels)
        held = self._still_held(events)
        before, after = self._score(self.index, held), self._score(taught, held)
        self.index = taught
        marks = sum(event.kind == "mark" for event in events)
        seconds = time.perf_counter() - began
        return Lesson(model, taught, before, after, seconds, marks, len(events) - marks, len(held), events)

    def _solved(self, groups: list[Group]) -> tuple[Taught, np.ndarray | None]:
        """The taught model, and its kernel part for all rows if every row is part of the graph."""
        assert self._prepared is not None
        ground, scale = self._prepared
        belongs = np.column_stack([self._weights(group.belongs) for group in groups])
        other = np.column_stack([self._weights(group.other) for group in groups])
        sides = ground.spread(np.hstack([_shares(belongs), _shares(other)]))
        T = _reached(sides[:, : len(groups)] - sides[:, len(groups) :], belongs)
        T = np.where(other > 0, 0, np.where(belongs > 0, np.maximum(T, belongs), T))
        regression = ground.regress(T)
        model = Taught.of(
            self.base,
            regression.features,
            regression.coefficients,
            self._centre,
            weight=WEIGHT,
            threshold=THRESHOLD,
            cosine=self._cosine,
            scale=scale,
        )
        return model, regression.fitted if len(self._rows) == len(self.index) else None

    def _weights(self, nodes: Iterable[Node]) -> np.ndarray:
        """Weights of the rows of the graph: 1 for a node that is one of them, else shared by its neighbours."""
        weights = np.zeros(len(self._rows), np.float32)
        for node in nodes:
            place = self._place.get(node.value) if node.kind == "row" else None  # type: ignore[call-overload]
            if place is not None:
                weights[place] = 1.0
            elif node.kind != "label":
                places, shares = self._near(node)
                weights[places] = np.maximum(weights[places], shares)
        return weights

    def _near(self, node: Node) -> tuple[np.ndarray, np.ndarray]:
        assert self._prepared is not None
        if node.kind == "row":
            V = self._V[[node.value]]  # type: ignore[index, unused-ignore]
        else:
            V = np.asarray(self.base.transform(np.array([node.value], dtype=np.float32)), np.float32)
        return self._prepared[0].near(self._directions(V)[0])

    def _labels(self, events: Iterable[Event]) -> np.ndarray | None:
        """The labels of the gallery, including those given."""
        given = {event.item: event.label for event in events if event.kind == "label"}
        if not given:
            return self._original
        labels = np.full(len(self.index), None, dtype=object) if self._original is None else self._original.copy()
        labels[self.index.rows_of(given)] = list(given.values())
        return labels

    def _known_labels(self, labels: np.ndarray | None, events: Iterable[Event]) -> dict[int, Any]:
        """Labels by row, without those of held-out rows unless given: nothing is learned from what is measured on."""
        if labels is None:
            return {}
        given = {self._row_of[event.item] for event in events if event.kind == "label"}
        hidden = set(self._held.tolist()) - given
        return {row: label for row, label in enumerate(labels) if label is not None and row not in hidden}

    def _still_held(self, events: Iterable[Event]) -> np.ndarray:
        """Held-out rows that no event is about, of labels that at least two of them have."""
        touched = {event.item for event in events} | {e.query for e in events if not isinstance(e.query, list)}
        ids = self.index.ids.tolist()
        kept = np.array([row for row in self._held.tolist() if ids[row] not in touched], dtype=np.int64)
        return _shared(kept, self._original)

    def _score(self, index: Index, held: np.ndarray) -> float | None:
        if not len(held):
            return None
        assert self._original is not None
        y = np.array([str(label) for label in self._original[held]])
        V = index.vectors[held]
        Q = V if self._cosine else index.model.transform_query(np.asarray(index.raw[held], np.float32))
        return float(mean_average_precision(Q, V, y))

    def _directions(self, V: np.ndarray) -> np.ndarray:
        return np.asarray(normalize(V - self._centre))


def _shares(Y: np.ndarray) -> np.ndarray:
    """Columns that sum to one, so that a group with many examples does not outweigh one with few."""
    return Y / np.maximum(Y.sum(axis=0), 1e-12)


def _reached(F: np.ndarray, belongs: np.ndarray) -> np.ndarray:
    """How far each group reaches each row, from 0 to 1: fully for its first rows, then falling off with F."""
    ordered = -np.sort(-F, axis=0)
    reach = np.minimum(np.maximum(REACH, (belongs > 0).sum(axis=0)), max(1, len(F) // 20))
    level = np.maximum(ordered[reach - 1, np.arange(F.shape[1])], 1e-12)
    return np.clip(F / level, 0, 1)


def _held_out(labels: np.ndarray | None, rng: np.random.Generator) -> np.ndarray:
    """Labelled rows to measure on: at most a share of each label, and never all of it."""
    if labels is None:
        return np.empty(0, np.int64)
    there = np.flatnonzero([label is not None for label in labels])
    share = min(HELD_SHARE, MOST_HELD / max(len(there), 1))
    _, codes, counts = np.unique([str(label) for label in labels[there]], return_inverse=True, return_counts=True)
    members = np.split(there[np.argsort(codes, kind="stable")], np.cumsum(counts)[:-1])
    held = [rng.permutation(rows) for rows in members if len(rows)]
    chosen = [rows[: min(len(rows) - 1, max(2, round(share * len(rows))))] for rows in held]
    return np.sort(np.concatenate(chosen)).astype(np.int64) if chosen else np.empty(0, np.int64)


def _shared(rows: np.ndarray, labels: np.ndarray | None) -> np.ndarray:
    """Rows that share their label with another of them."""
    if labels is None or not len(rows):
        return rows[:0]
    _, inverse, counts = np.unique([str(label) for label in labels[rows]], return_inverse=True, return_counts=True)
    return rows[counts[inverse] > 1]


def _spread_of_scores(base: SimilarityModel, index: Index, rng: np.random.Generator) -> float:
    """The standard deviation of the base's scores: the unit of the taught part unless they are cosines."""
    rows = np.sort(rng.permutation(len(index))[:300])
    S = base.transform_query(np.asarray(index.raw[rows], np.float32)) @ index.base_vectors[rows].T
    return float(S.std()) or 1.0
