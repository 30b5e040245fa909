"""The lesson card counts what it says it counts."""

from __future__ import annotations

import numpy as np

from likewise.rivals import Cosine
from likewise.search import Index
from likewise.teach.groups import Group, Node
from likewise.teach.lesson_card import (
    GroupMark,
    Trial,
    agreeing,
    is_found,
    marks_to_leave_out,
    moved,
    still_on_top,
    without,
)


def node(row: int) -> Node:
    return Node("row", row)


def on_a_circle(degrees: list[float]) -> Index:
    X = np.column_stack([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))]).astype(np.float32)
    return Index.build(Cosine().fit(X), X)


def trial(row: int, right: bool, score: float, found: bool = True, group: int = 0) -> Trial:
    return Trial(GroupMark(group, node(row), right), score, found)


def test_right_ones_agree_above_the_median_of_wrong_ones_and_wrong_ones_below_that_of_right_ones():
    trials = [
        trial(1, True, 0.9),
        trial(2, True, 0.2),
        trial(3, False, 0.5),
        trial(4, False, 0.1),
        trial(5, False, 0.8),
    ]
    assert agreeing(trials) == (3, 5)  # .9; .5 and .1 are below .55, .2 is not above .5, .8 not below .55


def test_marks_of_another_group_do_not_count():
    trials = [trial(1, True, 0.1, found=True), trial(2, False, 0.9, found=False, group=1)]
    assert agreeing(trials) == (2, 2)


def test_in_a_group_of_one_kind_right_ones_agree_if_found_and_wrong_ones_if_not():
    assert agreeing([trial(1, True, 0.5, found=True), trial(2, True, 0.5, found=False)]) == (1, 2)
    assert agreeing([trial(1, False, 0.5, found=True), trial(2, False, 0.5, found=False)]) == (1, 2)


def test_found_is_on_the_first_page_or_in_the_first_twentieth():
    assert [is_found(above, 100) for above in (23, 24)] == [True, False]
    assert [is_found(above, 8_000) for above in (399, 400)] == [True, False]


def test_a_group_of_one_keeps_its_only_example():
    group = Group({node(1)}, {node(2), node(3)})
    assert [(mark.node, mark.right) for mark in marks_to_leave_out([group])] == [(node(2), False), (node(3), False)]


def test_queries_and_labels_are_not_left_out():
    group = Group({node(1), Node("query", (0.5,)), Node("label", "x")}, {node(2)})
    assert [mark.node for mark in marks_to_leave_out([group])] == [node(1)]
    assert [mark.node for mark in marks_to_leave_out([group], {node(2)})] == [node(2)]
    assert marks_to_leave_out([group], set()) == []


def test_of_many_marks_a_sample_of_60_is_left_out():
    group = Group({node(row) for row in range(100)}, {node(row) for row in range(100, 200)})
    marks = marks_to_leave_out([group])
    assert len(set(marks)) == 60
    assert {mark.right for mark in marks} == {True, False}


def test_what_is_left_says_nothing_about_the_node():
    group = without(Group({node(1), node(2)}, {node(3), node(1)}), node(1))
    assert (group.belongs, group.other) == ({node(2)}, {node(3)})


def test_moved_counts_new_results():
    before, after = on_a_circle([0, 10, 20, 170, 180]), on_a_circle([0, 160, 20, 10, 180])
    assert moved(before, after, [0], k=2) == 1  # 1 and 2, then 3 and 2
    assert moved(before, before, [0, 3], k=2) == 0
    assert moved(before, after, [], k=2) == 0


def test_still_on_top_lists_wrong_ones_among_the_first():
    index = on_a_circle([0, 10, 20, 170, 180])
    assert still_on_top(index, [(0, 1), (0, 4), (4, 3)], k=2) == [(0, 1), (4, 3)]
    assert still_on_top(index, []) == []
