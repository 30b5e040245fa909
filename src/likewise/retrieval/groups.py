"""From marks and labels to groups: rows and queries that belong together, and rows that do not belong to them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from scipy.cluster.hierarchy import DisjointSet

from likewise.retrieval.feedback import Event

__all__ = ["Group", "Node", "groups_of"]


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
