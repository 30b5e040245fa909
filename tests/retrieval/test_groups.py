"""Groups: what marks and labels link, and what they keep apart."""

from __future__ import annotations

from typing import Any

from likewise.retrieval.feedback import Event, Group, Node, groups_of

IDS = {f"id {row}": row for row in range(10)}


def mark(query: Any, item: int, right: bool) -> Event:
    return Event("mark", query if isinstance(query, list) else f"id {query}", f"id {item}", right)


def label(item: int, name: str) -> Event:
    return Event("label", item=f"id {item}", label=name)


def rows(nodes: set[Node]) -> set[Any]:
    return {node.value for node in nodes if node.kind == "row"}


def sides(groups: list[Group]) -> list[tuple[set[Any], set[Any]]]:
    return [(rows(group.belongs), rows(group.other)) for group in groups]


def test_right_marks_link_and_wrong_marks_keep_apart() -> None:
    events = [mark(0, 1, True), mark(1, 2, True), mark(0, 3, False), mark(5, 6, True)]
    assert sides(groups_of(events, IDS, {})) == [({0, 1, 2}, {3}), ({5, 6}, set())]


def test_a_wrong_mark_counts_for_both_groups() -> None:
    events = [mark(0, 1, True), mark(2, 3, True), mark(0, 2, False)]
    assert sides(groups_of(events, IDS, {})) == [({0, 1}, {2}), ({2, 3}, {0})]


def test_items_of_one_given_label_are_one_group_against_other_labels() -> None:
    events = [label(0, "a"), label(1, "a"), label(2, "b")]
    labels = {0: "a", 1: "a", 2: "b"}
    assert sides(groups_of(events, IDS, labels)) == [({0, 1}, {2}), ({2}, {0, 1})]


def test_known_labels_join_in_unless_a_mark_contradicts_them() -> None:
    labels = {0: "a", 1: "a", 2: "a", 3: "b"}
    assert sides(groups_of([mark(0, 1, True)], IDS, labels)) == [({0, 1, 2}, {3})]
    assert sides(groups_of([mark(0, 1, False)], IDS, labels)) == [({0}, {1})]
    assert sides(groups_of([mark(0, 3, True)], IDS, labels)) == [({0, 3}, set())]


def test_a_query_from_outside_is_a_node_of_its_own() -> None:
    (group,) = groups_of([mark([0.5, 1.5], 4, True), mark([0.5, 1.5], 5, True)], IDS, {})
    assert group.belongs == {Node("query", (0.5, 1.5)), Node("row", 4), Node("row", 5)}


def test_without_events_there_are_no_groups() -> None:
    assert groups_of([], IDS, {0: "a"}) == []
