"""Groups: what marks and labels link, and what they keep apart."""

from __future__ import annotations

from typing import Any

from likewise.teach.groups import Group, Mark, Node, groups_of


def mark(query: Any, item: int, right: bool) -> Mark:
    node = Node("query", tuple(query)) if isinstance(query, list) else Node("row", query)
    return Mark(node, Node("row", item), right)


def rows(nodes: set[Node]) -> set[Any]:
    return {node.value for node in nodes if node.kind == "row"}


def sides(groups: list[Group]) -> list[tuple[set[Any], set[Any]]]:
    return [(rows(group.belongs), rows(group.other)) for group in groups]


def test_right_marks_link_and_wrong_marks_keep_apart() -> None:
    marks = [mark(0, 1, True), mark(1, 2, True), mark(0, 3, False), mark(5, 6, True)]
    assert sides(groups_of(marks, {}, {})) == [({0, 1, 2}, {3}), ({5, 6}, set())]


def test_a_wrong_mark_counts_for_both_groups() -> None:
    marks = [mark(0, 1, True), mark(2, 3, True), mark(0, 2, False)]
    assert sides(groups_of(marks, {}, {})) == [({0, 1}, {2}), ({2, 3}, {0})]


def test_items_of_one_given_label_are_one_group_against_other_labels() -> None:
    labels = {0: "a", 1: "a", 2: "b"}
    assert sides(groups_of([], labels, labels)) == [({0, 1}, {2}), ({2}, {0, 1})]


def test_known_labels_join_in_unless_a_mark_contradicts_them() -> None:
    labels = {0: "a", 1: "a", 2: "a", 3: "b"}
    assert sides(groups_of([mark(0, 1, True)], {}, labels)) == [({0, 1, 2}, {3})]
    assert sides(groups_of([mark(0, 1, False)], {}, labels)) == [({0}, {1})]
    assert sides(groups_of([mark(0, 3, True)], {}, labels)) == [({0, 3}, set())]


def test_a_query_from_outside_is_a_node_of_its_own() -> None:
    (group,) = groups_of([mark([0.5, 1.5], 4, True), mark([0.5, 1.5], 5, True)], {}, {})
    assert group.belongs == {Node("query", (0.5, 1.5)), Node("row", 4), Node("row", 5)}


def test_without_marks_and_given_labels_there_are_no_groups() -> None:
    assert groups_of([], {}, {0: "a"}) == []


def test_one_mistaken_click_does_not_join_two_groups() -> None:
    """0 and 5 are of two kinds, and each has marked one of the other's wrong; then 0 takes one of 5's for its own."""
    marks = [mark(0, i, True) for i in (1, 2, 3)] + [mark(5, i, True) for i in (6, 7, 8)]
    apart = [mark(0, 6, False), mark(5, 1, False)]
    mistaken = mark(0, 7, True)
    assert len(groups_of([*marks, mistaken], {}, {})) == 1  # nothing speaks against it
    found = sides(groups_of([*marks, *apart, mistaken], {}, {}))
    assert [belongs & {0, 1, 2, 3} for belongs, _ in found] == [{0, 1, 2, 3}, set()]
    assert [belongs & {5, 6, 7, 8} for belongs, _ in found] == [set(), {5, 6, 7, 8}]


def test_many_marks_are_linked_in_time() -> None:
    marks = [mark(query, 10_000 + 10 * query + i, True) for query in range(2000) for i in range(10)]
    marks += [mark(query, 10_000 + 10 * (query + 1), False) for query in range(1999)]
    assert len(groups_of(marks, {}, {})) == 2000
