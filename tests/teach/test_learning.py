"""Groups become coordinates: examples are where they were said to be, others stay, and marks left out are judged."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.preprocessing import normalize
from tests.search.conftest import Digits

from likewise import SimilarityLearner
from likewise.rivals import Cosine
from likewise.search import Index
from likewise.teach import TaughtIndex, Teacher, learning
from likewise.teach.groups import Group, Node
from likewise.teach.learning import (
    MAX_WRONG,
    MIN_RIGHT,
    MISSED,
    Bounds,
    GroupLearner,
    GroupMark,
    Trial,
    agreeing,
    bounds,
    corrections,
    group_scores,
    is_found,
    marks_to_leave_out,
    targets,
    without,
)
from likewise.teach.taught import beyond, build_graph
from likewise.teach.teacher import moved, still_on_top


def rows(*numbers: Any) -> set[Node]:
    return {Node("row", int(number)) for number in numbers}


@pytest.fixture(scope="module")
def unlabelled(digits: Digits) -> tuple[Index, np.ndarray]:
    X, y, _, _ = digits
    X = X[:600].astype(np.float32)
    return Index.build(Cosine(centre=True).fit(X), X), y[:600]


@pytest.fixture(scope="module")
def learner(unlabelled: tuple[Index, np.ndarray]) -> GroupLearner:
    return GroupLearner(unlabelled[0], np.random.default_rng(0))


@pytest.fixture(scope="module")
def labelled(digits: Digits) -> tuple[Index, np.ndarray]:
    """Digits under a model that was learned from them: rows of a class are nearly one point."""
    X, y, _, _ = digits
    X, y = X[:600].astype(np.float32), y[:600]
    return Index.build(SimilarityLearner(random_state=0).fit(X, y), X, {"label": y}, n_neighbors="auto"), y


def test_coordinates_are_brought_closer_to_zero_on_both_sides():
    f = np.array([-1.0, -0.2, 0.1, 0.6, 1.0], np.float32)
    np.testing.assert_allclose(beyond(f, weight=2.0, threshold=0.2), [-2, 0, 0, 1, 2], atol=1e-6)


def test_examples_are_where_they_were_said_to_be(learner, unlabelled):
    y = unlabelled[1]
    threes, eights = np.flatnonzero(y == 3)[:5], np.flatnonzero(y == 8)[:4]
    _, f = learner.learn([Group(rows(*threes), rows(*eights))])
    assert f[threes].min() > MIN_RIGHT - 0.1
    assert f[eights].max() < -MAX_WRONG + 0.1


def test_rows_far_from_every_group_stay_exactly_as_they_were(learner, unlabelled):
    index, y = unlabelled
    model, f = learner.learn([Group(rows(*np.flatnonzero(y == 0)[:5]), set())])
    V = TaughtIndex(index, model, f).vectors
    untouched = V[:, -1] == 0
    assert untouched.mean() > 0.7
    np.testing.assert_allclose(V[untouched, :-1], index.vectors[untouched], atol=1e-6)


def test_the_kernel_part_of_the_lesson_is_that_of_the_model(learner, unlabelled):
    index, _ = unlabelled
    model, f = learner.learn([Group(rows(1, 2, 3), rows(4, 5)), Group(rows(7, 8), set())])
    np.testing.assert_allclose(model.lifted(index.plain_vectors, f), model.transform(index.raw), atol=1e-4)


def test_a_query_from_outside_is_an_example_too(learner, unlabelled, digits):
    query = digits[2][0].astype(np.float32)
    model, _ = learner.learn([Group({Node("query", tuple(query.tolist()))} | rows(5), rows(9))])
    f = model.transform(query[None])[0, -1] / model.transform(query[None])[0, :-1].max()
    assert f > 0
    assert model._kernel_part(learner.base.transform(query[None]))[0, 0] > MIN_RIGHT - 0.1


@pytest.mark.parametrize("first", [0, 5])
def test_five_results_of_a_fitted_index_marked_wrong_are_below_place_15(labelled, first):
    index, _ = labelled
    for query in (3, 50, 211, 400):
        teacher = Teacher(index)
        wrong = index.search(rows=[query], k=10).rows[0][first : first + 5]
        for item in wrong:
            teacher.mark(query, int(item), False)
        found = teacher.learn().index.search(rows=[query], k=15).rows[0]
        assert not set(found) & set(wrong)


def test_six_rows_of_any_classes_with_a_new_label_find_one_another(labelled):
    index, y = labelled
    six = [int(np.flatnonzero(y == label)[7]) for label in range(6)]
    teacher = Teacher(index)
    for row in six:
        teacher.label(row, "my set")
    found = teacher.learn().index.search(rows=six, k=10).rows
    for row, results in zip(six, found, strict=True):
        assert set(six) - {row} <= set(results)


def test_marks_on_a_fitted_index_leave_other_classes_alone(labelled):
    index, y = labelled
    query = int(np.flatnonzero(y == 2)[0])
    teacher = Teacher(index)
    for item in index.search(rows=[query], k=5).rows[0]:
        teacher.mark(query, int(item), False)
    others = np.flatnonzero((y != 2) & (y != y[query]))[:100]
    before, after = (ix.search(rows=others, k=10).rows for ix in (index, teacher.learn().index))
    assert np.mean(before == after) > 0.99


# ---------------------------------------------------------------------------------------------------------------------
# The parts


def two_clusters() -> np.ndarray:
    rng = np.random.default_rng(0)
    centres = np.repeat(np.eye(2, 8), 60, axis=0)
    return normalize(centres + 0.1 * rng.standard_normal((120, 8))).astype(np.float32)


def test_a_group_reaches_its_own_cluster_and_not_the_other():
    ground = build_graph(two_clusters(), np.random.default_rng(0))
    belongs, other = np.zeros((120, 1), np.float32), np.zeros((120, 1), np.float32)
    belongs[:3], other[60] = 1, 1
    T = targets(ground, belongs, other)
    assert T[:60].mean() > 0.3
    assert T[60:].max() == 0
    assert T[:3].min() >= 1


def test_the_bounds_of_examples():
    belongs, other = np.array([[True], [False], [False]]), np.array([[False], [True], [False]])
    low, high = bounds(belongs, other, np.array([False]))
    np.testing.assert_allclose(low[:, 0], [MIN_RIGHT, -np.inf, -np.inf])
    np.testing.assert_allclose(high[:, 0], [np.inf, -MAX_WRONG, np.inf])
    assert bounds(belongs, other, np.array([True]))[1][1, 0] == 0


def close_together() -> Bounds:
    """Three examples, the last two nearly equal, of which one belongs and the other does not; and one of no group."""
    Z = normalize(np.vstack([np.eye(3), np.eye(3)[2] + 0.1 * np.eye(3)[1]])).astype(np.float32)
    low, high = np.full((4, 1), -np.inf, np.float32), np.full((4, 1), np.inf, np.float32)
    low[2], high[3] = 1.5, -0.5
    return Bounds(Z, low, high)


def test_corrections_bring_examples_into_their_bounds_and_leave_others():
    goal, F = close_together(), np.array([[0.3], [0.0], [1.0], [1.0]], np.float32)
    features, B = corrections(goal, F, narrow=100.0)
    np.testing.assert_allclose((F + features(goal.Z) @ B)[:, 0], [0.3, 0, 1.5, -0.5], atol=0.05)


def test_an_example_that_another_correction_would_push_out_joins_in():
    goal, F = close_together(), np.array([[0.0], [0.0], [1.5], [1.5]], np.float32)
    features, B = corrections(goal, F, narrow=40.0)
    assert len(B) == 2
    assert np.abs(goal.missing(F + features(goal.Z) @ B)).max() < MISSED


def test_nothing_missing_adds_nothing():
    goal, F = close_together(), np.array([[0.0], [0.0], [2.0], [-2.0]], np.float32)
    features, B = corrections(goal, F, narrow=1.0)
    assert not np.any(features(goal.Z) @ B)


@pytest.mark.parametrize("cosine", [True, False])
def test_group_scores_are_means_of_inner_products_of_joined_rows(cosine):
    rng = np.random.default_rng(0)
    Q, V = normalize(rng.standard_normal((3, 5))), normalize(rng.standard_normal((7, 5)))
    f_q, f = rng.standard_normal(3), rng.standard_normal(7)
    joined_q, joined = np.column_stack([Q, f_q]), np.column_stack([V, f])
    if cosine:
        joined_q, joined = normalize(joined_q), normalize(joined)
    np.testing.assert_allclose(group_scores(Q, f_q, V, f, cosine), (joined_q @ joined.T).mean(axis=0))


# ---------------------------------------------------------------------------------------------------------------------
# Marks left out


def test_a_lesson_agrees_with_true_marks_left_out_and_not_with_turned_ones(learner, unlabelled):
    y = unlabelled[1]
    true = [Group(rows(*np.flatnonzero(y == c)[:6]), rows(*np.flatnonzero(y == d)[:6])) for c, d in [(0, 8), (4, 9)]]
    agrees, of = learner.left_out(true)
    assert of == 24
    assert agrees >= 22
    mixed = np.random.default_rng(0).permutation(600)
    random = [Group(rows(*mixed[i : i + 6]), rows(*mixed[i + 6 : i + 12])) for i in (0, 12)]
    assert learner.left_out(random).agrees <= 18


def test_a_left_out_score_is_that_of_a_lesson_without_the_mark(learner, unlabelled, monkeypatch):
    """One mark at a time, the slow way: learn the group without it and search."""
    monkeypatch.setattr(learning, "MOST_ASKING", 1)
    index, y = unlabelled
    right, wrong = np.flatnonzero(y == 5)[:4], np.flatnonzero(y == 9)[:3]
    group = Group(rows(*right), rows(*wrong))
    from likewise.teach.learning import GroupMark

    left = Node("row", int(right[3]))
    (trial,) = learner._trials([group], [GroupMark(0, left, True)])
    model, f = learner.learn([Group(group.belongs - {left}, group.other)])
    V = TaughtIndex(index, model, f).vectors
    asking = sorted(group.belongs - {left}, key=repr)[0].value
    assert trial.score == pytest.approx(float(V[asking] @ V[right[3]]), abs=0.02)


def test_right_ones_alone_agree_if_they_are_found(learner, unlabelled):
    y = unlabelled[1]
    zeros = np.flatnonzero(y == 0)
    near = zeros[np.argsort(-(unlabelled[0].vectors[zeros] @ unlabelled[0].vectors[zeros[0]]))[:8]]
    assert learner.left_out([Group(rows(*near), set())]) >= (7, 8)
    assert learner.left_out([Group(rows(*range(0, 600, 75)), set())]) <= (3, 8)


def test_without_marks_nothing_is_left_out(learner):
    assert learner.left_out([]) == (0, 0)
    assert learner.left_out([Group(rows(3), set())]) == (0, 0)


def test_only_explicit_rows_are_left_out(learner, unlabelled):
    y = unlabelled[1]
    label = Group(rows(*np.flatnonzero(y == 0)) | {Node("label", 0)}, rows(*np.flatnonzero(y != 0)))
    given = rows(*np.flatnonzero(y == 0)[:4]) | rows(np.flatnonzero(y == 1)[0])
    assert learner.left_out([label], given).of == 5
    assert learner.left_out([label]).of == min(60, int((y == 0).sum()))


def test_a_base_that_is_no_cosine_has_its_marks_left_out_too(fitted, digits):
    X, y, _, _ = digits
    index = Index.build(fitted["bilinear"], X[:300].astype(np.float32))
    groups = [Group(rows(*np.flatnonzero(y[:300] == 0)[:5]), rows(*np.flatnonzero(y[:300] == 1)[:5]))]
    agrees, of = GroupLearner(index, np.random.default_rng(0)).left_out(groups)
    assert of == 10
    assert agrees >= 8


# ---------------------------------------------------------------------------------------------------------------------
# Marks left out, and what a lesson reports


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
