"""What marks and labels say of the rows of an index, wherever these rows are now."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from likewise.search.identity import Identities, ItemRef
from likewise.search.index import BaseIndex
from likewise.teach.feedback import Event, Feedback
from likewise.teach.groups import Mark, Node


@dataclass(frozen=True)
class Said:
    """The last word on each pair of a query and an item, and on the label of each row."""

    marks: tuple[Mark, ...] = ()
    labels: Mapping[int, Any] = field(default_factory=dict)  # None where a label was removed
    distinct: tuple[tuple[int, ...], ...] = ()
    parked: int = 0  # events about items that are not in the index: they count again when these are back

    @property
    def rows(self) -> set[int]:
        """The rows that something was said about."""
        nodes = [node for mark in self.marks for node in (mark.query, mark.item)]
        return {int(str(node.value)) for node in nodes if node.kind == "row"} | set(self.labels)

    @property
    def explicit(self) -> set[Node]:
        """The rows that were marked or labelled themselves."""
        return {mark.item for mark in self.marks} | {Node("row", row) for row in self.labels}

    @property
    def queries(self) -> list[int]:
        """Rows that were queries of marks."""
        found = (mark.query.value for mark in self.marks if mark.query.kind == "row")
        return sorted({int(str(row)) for row in found})

    @property
    def wrong(self) -> list[tuple[int, int]]:
        """Rows of queries and of items that were marked wrong for them."""
        pairs = [(m.query.value, m.item.value) for m in self.marks if m.query.kind == "row" and not m.right]
        return [(int(str(query)), int(str(item))) for query, item in pairs]

    def labels_of(self, index: BaseIndex) -> np.ndarray | None:
        """The labels of an index, with those that were given or removed."""
        if not self.labels:
            return index.labels
        labels = np.full(len(index), None, dtype=object) if index.labels is None else index.labels.copy()
        for row, label in self.labels.items():
            labels[row] = label
        return labels


class Listener:
    """Finds the rows that events speak of."""

    def __init__(self, identities: Identities, feedback: Feedback, width: int) -> None:
        self._identities, self._feedback, self._width = identities, feedback, width

    def said(self, events: Iterable[Event]) -> Said:
        """What events say of the rows of the index."""
        marks: dict[tuple[Node, Node], bool | None] = {}
        labels: dict[int, Any] = {}
        distinct: list[tuple[int, ...]] = []
        parked = 0
        for event in events:
            items, queries = self.rows(event), self.queries(event)
            parked += not items or (event.kind == "mark" and not queries)
            if event.kind == "label":
                labels.update(dict.fromkeys(items, event.label))
            elif event.kind == "mark":
                marks.update({(query, Node("row", row)): event.right for query in queries for row in items})
            elif len(items) > 1:
                distinct.append(tuple(items))
        kept = [Mark(*pair, right) for pair, right in marks.items() if right is not None and pair[0] != pair[1]]
        return Said(tuple(kept), labels, tuple(distinct), parked)

    def rows(self, event: Event) -> list[int]:
        """The rows of the items of an event that are in the index."""
        found = (self.row(reference) for reference in event.items)
        return list(dict.fromkeys(row for row in found if row is not None))

    def queries(self, event: Event) -> list[Node]:
        """The queries of an event that are in the index or were given as numbers."""
        return [node for node in map(self._node, event.queries) if node is not None]

    def row(self, reference: ItemRef) -> int | None:
        """Where an item is now; None if it is not here."""
        return self._identities.row(reference, self._feedback.aliases)

    def _node(self, query: ItemRef | str) -> Node | None:
        if isinstance(query, ItemRef):
            row = self.row(query)
            return None if row is None else Node("row", row)
        numbers = self._feedback.numbers(query)
        if numbers is None or len(numbers) != self._width:
            return None
        return Node("query", tuple(numbers.tolist()))
