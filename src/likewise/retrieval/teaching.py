"""Teaching an index by clicks: marks and labels become groups, groups spread, and one small system is solved.

What was marked right belongs together with its query, what has one label belongs together: these are the groups, each
with rows that are known not to belong. A group spreads over the graph of neighbours, its negatives spread against it,
and the result is regressed on the rows by a kernel. The outcome is one coordinate a group beside those of the model.
"""

from __future__ import annotations

import time
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from likewise.base import SimilarityModel
from likewise.core.heads import unit
from likewise.core.passes import single_threaded_blas
from likewise.errors import LikewiseError
from likewise.metrics import mean_average_precision
from likewise.retrieval.feedback import Event, Feedback
from likewise.retrieval.index import Index
from likewise.retrieval.taught import Taught, prepared
from likewise.retrieval.validation import query_rows, row_numbers

__all__ = ["Lesson", "Teacher"]

MOST_ROWS = 20_000  # of a larger gallery some rows stand for all: the graph costs rows²
MOST_HELD = 1_000
HELD_SHARE = 0.3
REACH = 50  # rows of a group that count fully, or as many as it has examples
WEIGHT = 1.5  # of a taught coordinate beside a unit row
THRESHOLD = 0.2  # of a taught coordinate, below which a row is left as it was

Node = tuple[str, Hashable]


@dataclass(frozen=True)
class Lesson:
    """What was learned: the model, the index under it, and mAP of held-out labelled items before and after."""

    model: SimilarityModel
    index: Index
    before: float | None
    after: float | None
    seconds: float
    n_marks: int
    n_labels: int
    n_held: int


@dataclass
class _Group:
    """Rows that belong together and rows that do not, by their weights."""

    belongs: dict[int, float] = field(default_factory=dict)
    other: dict[int, float] = field(default_factory=dict)


class Teacher:
    """Learns from marks and labels while the index goes on serving.

    Parameters
    ----------
    index : Index
        What is taught; it is not changed, a lesson brings a new one.
    feedback : Feedback or None
        A journal: what it holds is taken over, and every mark and label is written to it before it counts.
    random_state : int
        Seed of the held-out items and of the landmarks.
    """

    def __init__(self, index: Index, feedback: Feedback | None = None, *, random_state: int = 0) -> None:
        self.index = index
        self.base: SimilarityModel = index.model.base if isinstance(index.model, Taught) else index.model
        self.feedback = feedback
        self._original = index.labels
        self._V = index.base_vectors
        self._cosine = bool(np.allclose(np.linalg.norm(self._V[:1000], axis=1), 1, atol=1e-3))
        centre = np.zeros(self._V.shape[1]) if self._cosine else self._V.mean(axis=0)
        self._centre = centre.astype(np.float32)
        rng = np.random.default_rng(random_state)
        self._held = _held_out(index.labels, rng)
        self._rows = np.sort(rng.permutation(len(index))[:MOST_ROWS])
        self._place = {int(row): place for place, row in enumerate(self._rows)}
        self._ground = prepared(self._z(self._V[self._rows]), rng)
        self._scale = 1.0 if self._cosine else _spread_of_scores(self.base, index, rng)
        self.events: list[Event] = [] if feedback is None else self._known(feedback.events())

    # -- telling ------------------------------------------------------------------------------------------------------

    def mark(self, query: Any, item: int, right: bool) -> Event:
        """A result is right or wrong for a query: a row of the index, or raw numbers of something else."""
        if np.ndim(query):
            asked: Any = query_rows(query, self.index.raw.shape[1])[0].tolist()
        else:
            asked = self._id(query)
            if int(query) == int(item):
                raise LikewiseError(f"item {item} is the query itself; mark another")
        return self._add(Event("mark", asked, self._id(item), bool(right)))

    def label(self, item: int, label: Any) -> Event:
        """An item has a label, a known one or a new one."""
        if label is None or (isinstance(label, str) and not label.strip()):
            raise LikewiseError(f"label={label!r}; expected a name")
        return self._add(Event("label", item=self._id(item), label=label))

    def undo(self) -> Event | None:
        """Take the last mark or label back; what it was, or None if there is none."""
        if not self.events:
            return None
        if self.feedback is not None:
            self.feedback.append(Event("undo"))
        return self.events.pop()

    def _add(self, event: Event) -> Event:
        if self.feedback is not None:
            event = self.feedback.append(event)
        self.events.append(event)
        return event

    def _id(self, row: Any) -> Any:
        return self.index.ids[row_numbers(int(row), len(self.index))[0]].item()

    def _known(self, events: list[Event]) -> list[Event]:
        """Events whose items are still in the index."""
        there = set(self.index.ids.tolist())
        return [e for e in events if e.item in there and (isinstance(e.query, list) or e.query in {None, *there})]

    # -- learning -----------------------------------------------------------------------------------------------------

    def learn(self) -> Lesson:
        """Solve for all marks and labels; the index of the lesson is ready to serve."""
        # One BLAS thread: on these small systems two of them took three times as long, waiting for each other.
        with single_threaded_blas():
            return self._learned(time.perf_counter())

    def _learned(self, began: float) -> Lesson:
        events = list(self.events)
        labels = self._labels(events)
        groups = _Grouping(self, events, labels).groups()
        model, fitted = self._solved(groups) if groups else (self.base, None)
        taught = self.index.with_model(model, fitted).with_labels(labels)
        held = self._still_held(events)
        before, after = self._score(self.index, held), self._score(taught, held)
        self.index = taught
        marks = sum(event.kind == "mark" for event in events)
        seconds = time.perf_counter() - began
        return Lesson(model, taught, before, after, seconds, marks, len(events) - marks, len(held))

    def _solved(self, groups: list[_Group]) -> tuple[Taught, np.ndarray | None]:
        """Spread the groups, let their examples count fully, regress; with the model what it gives for all rows."""
        ground = self._ground
        shape = (len(ground.z), len(groups))
        belongs, other = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
        for column, group in enumerate(groups):
            _fill(belongs[:, column], group.belongs)
            _fill(other[:, column], group.other)
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
            scale=self._scale,
        )
        return model, regression.fitted if len(self._rows) == len(self.index) else None

    def _labels(self, events: list[Event]) -> np.ndarray | None:
        """The labels of the gallery with those that were given."""
        given = {event.item: event.label for event in events if event.kind == "label"}
        if not given:
            return self._original
        labels = np.full(len(self.index), None, dtype=object) if self._original is None else self._original.copy()
        labels[self.index.rows_of(given)] = list(given.values())
        return labels

    def _still_held(self, events: list[Event]) -> np.ndarray:
        """Held-out rows that no mark and no label has touched, of labels that two at least of them have."""
        touched = {event.item for event in events} | {e.query for e in events if not isinstance(e.query, list)}
        ids = self.index.ids.tolist()
        kept = np.array([row for row in self._held.tolist() if ids[row] not in touched], dtype=np.int64)
        return _shared(kept, self._original)

    def _score(self, index: Index, held: np.ndarray) -> float | None:
        if not len(held):
            return None
        assert self._original is not None
        y = np.array([str(label) for label in self._original[held]])
        X = np.asarray(index.raw[held])
        V = index.vectors[held]
        Q = V if self._cosine else index.model.transform_query(X.astype(np.float32))
        return float(mean_average_precision(Q, V, y))

    def _z(self, V: np.ndarray) -> np.ndarray:
        return unit(V - self._centre)


class _Grouping:
    """From events to groups: what is linked by right marks or by a label is one group."""

    def __init__(self, teacher: Teacher, events: list[Event], labels: np.ndarray | None) -> None:
        self.teacher, self.events = teacher, events
        self.parent: dict[Node, Node] = {}
        self.row = {value: row for row, value in enumerate(teacher.index.ids.tolist())}
        self.known = self._known_labels(labels)
        self._link()

    def groups(self) -> list[_Group]:
        """A group for each set of linked nodes that was asked about or labelled."""
        found: dict[Node, _Group] = {}
        asked = {self._root(self._query(e)) if e.kind == "mark" else self._root(_label(e)) for e in self.events}
        for node in list(self.parent):
            root = self._root(node)
            if root in asked:
                self._join(found.setdefault(root, _Group()).belongs, node)
        for event in self.events:
            if event.kind == "mark" and not event.right:
                query, item = self._query(event), self._item(event)
                for one, two in ((query, item), (item, query)):
                    if self._root(one) in found:
                        self._join(found[self._root(one)].other, two)
        for root, group in found.items():
            self._rule_out(root, group)
        return list(found.values())

    def _link(self) -> None:
        """Right marks link query and item, labels link items; known labels link too, if no mark contradicts them."""
        for event in self.events:
            if event.kind == "label":
                self._union(self._item(event), _label(event))
            elif event.right:
                self._union(self._query(event), self._item(event))
            else:
                self._root(self._query(event))
                self._root(self._item(event))
        contradicted = self._contradicted()
        for node in [node for node in self.parent if node[0] == "row"]:
            label = self.known.get(int(str(node[1])))
            if label is not None and label not in contradicted:
                self._union(node, ("label", label))

    def _contradicted(self) -> set[Any]:
        """Labels that the marks do not follow: two rows of one marked wrong, or two of different ones right."""
        found = set[Any]()
        for event in self.events:
            if event.kind == "mark" and not isinstance(event.query, list):
                pair = [self.known.get(self.row[i]) for i in (event.query, event.item)]
                if None not in pair and (pair[0] == pair[1]) != event.right:
                    found |= set(pair)
        return found

    def _known_labels(self, labels: np.ndarray | None) -> dict[int, Any]:
        """Labels by row, without those of held-out rows: nothing is learned from what is measured on."""
        if labels is None:
            return {}
        given = {self.row[event.item] for event in self.events if event.kind == "label"}
        hidden = set(self.teacher._held.tolist()) - given
        return {row: label for row, label in enumerate(labels) if label is not None and row not in hidden}

    def _rule_out(self, root: Node, group: _Group) -> None:
        """A group with a label does not hold rows of another; it holds all rows of its own."""
        mine = {node[1] for node in self.parent if node[0] == "label" and self._root(node) == root}
        if not mine:
            return
        for row, label in self.known.items():
            self._join(group.belongs if label in mine else group.other, ("row", row))

    def _join(self, side: dict[int, float], node: Node) -> None:
        """Add a node by its place among the rows of the ground, or by its neighbours there."""
        teacher = self.teacher
        if node[0] == "label":
            return
        if node[0] == "row" and node[1] in teacher._place:
            side[teacher._place[int(str(node[1]))]] = 1.0
            return
        if node[0] == "row":
            V = teacher._V[[int(str(node[1]))]]
        else:
            query = next(e.query for e in self.events if isinstance(e.query, list) and str(e.query) == node[1])
            V = teacher.base.transform(np.array([query], dtype=np.float32))
        places, weights = teacher._ground.near(teacher._z(np.asarray(V, np.float32))[0])
        for place, weight in zip(places.tolist(), weights.tolist(), strict=True):
            side[place] = max(side.get(place, 0.0), weight)

    def _query(self, event: Event) -> Node:
        return ("query", str(event.query)) if isinstance(event.query, list) else ("row", self.row[event.query])

    def _item(self, event: Event) -> Node:
        return ("row", self.row[event.item])

    def _root(self, node: Node) -> Node:
        while self.parent.setdefault(node, node) != node:
            node = self.parent[node]
        return node

    def _union(self, one: Node, two: Node) -> None:
        self.parent[self._root(one)] = self._root(two)


def _label(event: Event) -> Node:
    return ("label", event.label)


def _fill(column: np.ndarray, weights: dict[int, float]) -> None:
    column[list(weights)] = list(weights.values())


def _shares(Y: np.ndarray) -> np.ndarray:
    """Columns that sum to one, so that a group of many examples does not outweigh one of few."""
    return Y / np.maximum(Y.sum(axis=0), 1e-12)


def _reached(F: np.ndarray, belongs: np.ndarray) -> np.ndarray:
    """How far each group reaches each row, from 0 to 1: full for its first rows, then as what was spread falls off."""
    ordered = -np.sort(-F, axis=0)
    reach = np.minimum(np.maximum(REACH, (belongs > 0).sum(axis=0)), max(1, len(F) // 20))
    level = np.maximum(ordered[reach - 1, np.arange(F.shape[1])], 1e-12)
    return np.clip(F / level, 0, 1)


def _held_out(labels: np.ndarray | None, rng: np.random.Generator) -> np.ndarray:
    """Some labelled rows to measure on, at most a share of each label and never all of it."""
    if labels is None:
        return np.empty(0, np.int64)
    there = np.flatnonzero([label is not None for label in labels])
    share = min(HELD_SHARE, MOST_HELD / max(len(there), 1))
    names = np.array([str(label) for label in labels[there]])
    held = [rng.permutation(there[names == name]) for name in np.unique(names)]
    chosen = [rows[: min(len(rows) - 1, max(2, round(share * len(rows))))] for rows in held]
    return np.sort(np.concatenate(chosen)).astype(np.int64) if chosen else np.empty(0, np.int64)


def _shared(rows: np.ndarray, labels: np.ndarray | None) -> np.ndarray:
    """Rows whose label another of them has."""
    if labels is None or not len(rows):
        return rows[:0]
    _, inverse, counts = np.unique([str(label) for label in labels[rows]], return_inverse=True, return_counts=True)
    return rows[counts[inverse] > 1]


def _spread_of_scores(base: SimilarityModel, index: Index, rng: np.random.Generator) -> float:
    """The standard deviation of the base's scores, which the taught part is measured in where they are no cosines."""
    rows = np.sort(rng.permutation(len(index))[:300])
    S = base.transform_query(np.asarray(index.raw[rows], np.float32)) @ index.base_vectors[rows].T
    return float(S.std()) or 1.0
