"""Groups: the rows and queries that marks and labels say belong together, and those that do not belong to them."""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.cluster.hierarchy import DisjointSet

from likewise.search.index import BaseIndex
from likewise.search.items import ItemRef, Place, Places
from likewise.teach.feedback import Event, Feedback


class Node(NamedTuple):
    """A row of the index, a query from outside it (its raw numbers), or a label."""

    kind: Literal["row", "query", "label"]
    value: Hashable


class Mark(NamedTuple):
    """An item that is right or wrong for a query."""

    query: Node
    item: Node
    right: bool


@dataclass
class Group:
    """Nodes that belong together, and nodes that do not belong to them, some of which merely have another label."""

    belongs: set[Node] = field(default_factory=set)
    other: set[Node] = field(default_factory=set)
    labelled: set[Node] = field(default_factory=set)


def groups_of(marks: Sequence[Mark], given_labels: Mapping[int, Any], labels: Mapping[int, Any]) -> list[Group]:
    """One group for each set of linked nodes that a query or a given label is part of.

    `given_labels` are the labels that were given, by row; `labels` all that are known, those included.
    """
    links = _linked(marks, given_labels, labels)
    taught = {links[mark.query] for mark in marks} | {links[Node("label", label)] for label in given_labels.values()}
    groups: dict[Node, Group] = {}
    for node in links:
        if links[node] in taught:
            groups.setdefault(links[node], Group()).belongs.add(node)
    for mark in marks:
        if not mark.right:
            for one, two in ((mark.query, mark.item), (mark.item, mark.query)):
                if links[one] in groups:
                    groups[links[one]].other.add(two)
    by_label = _rows_by_label(labels)
    for group in groups.values():
        _add_labelled_rows(group, by_label)
    return list(groups.values())


def _linked(marks: Sequence[Mark], given_labels: Mapping[int, Any], labels: Mapping[int, Any]) -> DisjointSet:
    """Right marks and labels link two nodes; a known label links its rows unless a mark contradicts it.

    One mistaken click must not join two groups: what both have in common joins them only if no mark keeps them apart.
    """
    links = _Links()
    for mark in marks:
        links.keep_apart(mark.query, mark.item) if not mark.right else links.add(mark.query, mark.item)
    for row, label in given_labels.items():
        links.merge(Node("row", row), Node("label", label))
    right = [mark for mark in marks if mark.right]
    claims = Counter(mark.item for mark in right) + Counter({mark.query: 1 for mark in right})
    for mark in sorted(right, key=lambda mark: claims[mark.item] > 1):  # what nobody else claims comes first
        if links.may_join(mark.query, mark.item):
            links.merge(mark.query, mark.item)
    contradicted = _contradicted(marks, labels)
    for node in list(links.sets):
        label = _label_of(node, labels)
        if label is not None and label not in contradicted:
            links.merge(node, Node("label", label))
    return links.sets


class _Links:
    """Sets of linked nodes, and which nodes each set is known not to go with."""

    def __init__(self) -> None:
        self.sets = DisjointSet()
        self._members: dict[Node, set[Node]] = {}
        self._apart: dict[Node, set[Node]] = {}

    def add(self, *nodes: Node) -> None:
        for node in nodes:
            if node not in self.sets:
                self.sets.add(node)
                self._members[node], self._apart[node] = {node}, set()

    def keep_apart(self, one: Node, two: Node) -> None:
        self.add(one, two)
        self._apart[self.sets[one]].add(two)
        self._apart[self.sets[two]].add(one)

    def may_join(self, one: Node, two: Node) -> bool:
        """Whether no negative mark separates the sets of two nodes."""
        first, second = self.sets[one], self.sets[two]
        smaller, larger = sorted((first, second), key=lambda root: len(self._apart[root]))
        return self._apart[smaller].isdisjoint(self._members[larger])

    def merge(self, one: Node, two: Node) -> None:
        self.add(one, two)
        first, second = self.sets[one], self.sets[two]
        if not self.sets.merge(one, two):
            return
        root = self.sets[one]
        other = second if root == first else first
        for known in (self._members, self._apart):
            small, large = sorted((known.pop(root), known.pop(other)), key=len)
            large.update(small)
            known[root] = large


def _contradicted(marks: Sequence[Mark], labels: Mapping[int, Any]) -> set[Any]:
    """Labels the marks disagree with: two rows of one label marked wrong, or of different labels marked right."""
    contradicted = set[Any]()
    for query, item, right in marks:
        both = [_label_of(query, labels), _label_of(item, labels)]
        if None not in both and (both[0] == both[1]) != right:
            contradicted |= set(both)
    return contradicted


def _label_of(node: Node, labels: Mapping[int, Any]) -> Any:
    return labels.get(node.value) if node.kind == "row" else None  # type: ignore[call-overload]


def _rows_by_label(labels: Mapping[int, Any]) -> dict[Any, set[Node]]:
    by_label: dict[Any, set[Node]] = {}
    for row, label in labels.items():
        by_label.setdefault(label, set()).add(Node("row", row))
    return by_label


def _add_labelled_rows(group: Group, by_label: Mapping[Any, set[Node]]) -> None:
    """All rows with a label of the group belong to it; rows with another label do not."""
    names = {node.value for node in group.belongs if node.kind == "label"}
    if names:
        for label, rows in by_label.items():
            if label in names:
                group.belongs |= rows
            else:
                group.labelled |= rows - group.other
                group.other |= rows


# ---------------------------------------------------------------------------------------------------------------------
# What marks and labels say of the rows of an index, wherever these rows are now


@dataclass(frozen=True)
class FeedbackState:
    """The last word on each pair of a query and an item, and on the label of each row."""

    marks: tuple[Mark, ...] = ()
    labels: Mapping[int, Any] = field(default_factory=dict)  # None where a label was removed
    distinct: tuple[tuple[int, ...], ...] = ()
    parked: int = 0  # events about items that are not in the index: they count again when these are back

    @property
    def rows(self) -> set[int]:
        """The rows with feedback."""
        nodes = [node for mark in self.marks for node in (mark.query, mark.item)]
        return {int(str(node.value)) for node in nodes if node.kind == "row"} | set(self.labels)

    @property
    def explicit(self) -> set[Node]:
        """The rows that were marked or labelled themselves."""
        return {mark.item for mark in self.marks} | {Node("row", row) for row in self.labels}

    def labels_of(self, index: BaseIndex) -> np.ndarray | None:
        """The labels of an index, with those that were given or removed."""
        if not self.labels:
            return index.labels
        labels = np.full(len(index), None, dtype=object) if index.labels is None else index.labels.copy()
        for row, label in self.labels.items():
            labels[row] = label
        return labels


class Resolver:
    """Finds the rows of an index that events refer to."""

    def __init__(self, index: BaseIndex, feedback: Feedback) -> None:
        self._identities, self._feedback, self._width = index.identities, feedback, index.raw.shape[1]
        self._places: tuple[object, Places] | None = None

    def state(self, events: Iterable[Event]) -> FeedbackState:
        """The last mark of each pair and the last label of each row; what was said about a file itself comes first.

        What was said about a file that is gone counts for one with the same content of which nothing else was said.
        """
        marks: tuple[dict[tuple[Node, Node], bool | None], ...] = ({}, {})
        labels: tuple[dict[int, Any], ...] = ({}, {})
        distinct: list[tuple[int, ...]] = []
        parked = 0
        for event in events:
            items, queries = self._found(event), self._queries(event)
            parked += not items or (event.kind == "mark" and not queries)
            if event.kind == "label":
                for place in items:
                    labels[place.own][place.row] = event.label
            elif event.kind == "mark":
                for (query, own), place in product(queries, items):
                    marks[own and place.own][query, Node("row", place.row)] = event.right
            elif len(rows := dict.fromkeys(place.row for place in items)) > 1:
                distinct.append(tuple(rows))
        pairs = {**marks[0], **marks[1]}
        last_marks = [Mark(*pair, right) for pair, right in pairs.items() if right is not None and pair[0] != pair[1]]
        return FeedbackState(tuple(last_marks), {**labels[0], **labels[1]}, tuple(distinct), parked)

    def rows(self, event: Event) -> list[int]:
        """The rows of the items of an event that are in the index."""
        return list(dict.fromkeys(place.row for place in self._found(event)))

    def row(self, reference: ItemRef, event: Event) -> int | None:
        """Where an item of an event is now; None if it is not here."""
        place = self._place(reference, event)
        return None if place is None else place.row

    def parked(self, event: Event) -> list[ItemRef]:
        """The items and queries of an event that are not in the index."""
        named = (ref for ref in (*event.items, *event.queries) if isinstance(ref, ItemRef))
        return [reference for reference in named if self._place(reference, event) is None]

    def _found(self, event: Event) -> list[Place]:
        places = (self._place(reference, event) for reference in event.items)
        return [place for place in places if place is not None]

    def _place(self, reference: ItemRef, event: Event) -> Place | None:
        version = self._feedback.version
        if self._places is None or self._places[0] != version:
            self._places = version, self._feedback.places(self._identities)
        return self._places[1][self._feedback.names(reference, event)[0]]

    def _queries(self, event: Event) -> list[tuple[Node, bool]]:
        """Queries, and whether they are these very files."""
        queries: list[tuple[Node, bool]] = []
        for query in event.queries:
            if isinstance(query, ItemRef):
                place = self._place(query, event)
                if place is not None:
                    queries.append((Node("row", place.row), place.own))
            elif (numbers := self._feedback.numbers(query)) is not None and len(numbers) == self._width:
                queries.append((Node("query", tuple(numbers.tolist())), True))
        return queries
