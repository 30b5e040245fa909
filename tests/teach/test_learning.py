"""Groups become scores and coordinates: marks come first, others stay, and marks left out say what to expect."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.search.conftest import Digits

from likewise import SimilarityLearner
from likewise.rivals import Cosine
from likewise.search import Index
from likewise.teach import TaughtIndex, Teacher, learning
from likewise.teach.groups import Group, Node
from likewise.teach.learning import MAX_WRONG, MIN_RIGHT, ConceptCard, Learner, Trial, card_of, coordinate
from likewise.teach.taught import beyond


def rows(*numbers: Any) -> set[Node]:
    return {Node("row", int(number)) for number in numbers}


@pytest.fixture(scope="module")
def unlabelled(digits: Digits) -> tuple[Index, np.ndarray]:
    X, y, _, _ = digits
    X = X[:600].astype(np.float32)
    return Index.build(Cosine(centre=True).fit(X), X), y[:600]


@pytest.fixture(scope="module")
def learner(unlabelled: tuple[Index, np.ndarray]) -> Learner:
    return Learner(unlabelled[0])


@pytest.fixture(scope="module")
def labelled(digits: Digits) -> tuple[Index, np.ndarray]:
    """Digits under a model that was learned from them: rows of a class are nearly one point."""
    X, y, _, _ = digits
    X, y = X[:600].astype(np.float32), y[:600]
    return Index.build(SimilarityLearner(random_state=0).fit(X, y), X, {"label": y}, n_neighbors="auto"), y


def test_coordinates_are_brought_closer_to_zero_on_both_sides():
    f = np.array([-1.0, -0.2, 0.1, 0.6, 1.0], np.float32)
    np.testing.assert_allclose(beyond(f), [-1, 0, 0, 0.5, 1], atol=1e-6)


def test_right_ones_come_first_and_wrong_ones_last(learner, unlabelled):
    y = unlabelled[1]
    threes, eights = np.flatnonzero(y == 3)[:5], np.flatnonzero(y == 8)[:4]
    order = np.argsort(-learner.scores(learner.scored(Group(rows(*threes), rows(*eights)))))
    assert set(order[:5]) == set(threes)
    assert set(order[-4:]) == set(eights)


def test_examples_have_the_coordinates_they_were_given(learner, unlabelled):
    y = unlabelled[1]
    threes, eights = np.flatnonzero(y == 3)[:5], np.flatnonzero(y == 8)[:4]
    f = coordinate(learner.scored(Group(rows(*threes), rows(*eights))))
    assert f[threes].min() >= np.float32(MIN_RIGHT)
    assert f[eights] == pytest.approx(-MAX_WRONG)


def test_rows_far_from_every_group_stay_exactly_as_they_were(learner, unlabelled):
    index, y = unlabelled
    model, part = learner.learn([learner.scored(Group(rows(*np.flatnonzero(y == 0)[:5]), set()))])
    V = np.asarray(TaughtIndex(index, model, part).vectors)
    untouched = V[:, -1] == 0
    assert untouched.mean() > 0.7
    np.testing.assert_allclose(V[untouched, :-1], index.vectors[untouched], atol=1e-6)


def test_the_model_has_about_the_coordinates_of_the_rows(learner, unlabelled):
    index, y = unlabelled
    scored = [
        learner.scored(Group(rows(*np.flatnonzero(y == c)[:6]), rows(*np.flatnonzero(y == c + 1)[:4]))) for c in (0, 4)
    ]
    model, _ = learner.learn(scored)
    F = model.coordinates(index.plain_vectors)
    for column, one in enumerate(scored):
        assert np.corrcoef(F[:, column], coordinate(one))[0, 1] > 0.9


def test_a_query_from_outside_is_an_example_too(learner, unlabelled, digits):
    query = digits[2][0].astype(np.float32)
    group = Group({Node("query", tuple(query.tolist()))} | rows(5), rows(9))
    model, _ = learner.learn([learner.scored(group)])
    assert model.coordinates(learner.base.transform(query[None]))[0, 0] > 1


def test_what_is_marked_both_right_and_wrong_counts_as_wrong(learner):
    scored = learner.scored(Group(rows(1, 2, 3), rows(3, 4)))
    assert [node.value for node in scored.nodes] == [1, 2, 3, 4]
    assert scored.examples.right.tolist() == [True, True, False, False]


def test_many_examples_are_thinned_evenly(learner, monkeypatch):
    monkeypatch.setattr(learning, "MOST_EXAMPLES", 10)
    scored = learner.scored(Group(rows(*range(100)), rows(*range(200, 205))))
    assert [node.value for node in scored.nodes] == [*range(0, 100, 11), *range(200, 205)]


def test_a_large_gallery_is_scored_near_the_right_ones(unlabelled, monkeypatch):
    monkeypatch.setattr(learning, "MOST_ROWS", 500)
    monkeypatch.setattr(learning, "CANDIDATES", 200)
    index, y = unlabelled
    large, query = Learner(index), int(np.flatnonzero(y == 0)[0])
    zeros = np.flatnonzero(y == 0)[:4]
    group = Group(rows(*zeros), rows(7))
    scored = large.scored(group)
    assert len(scored.rows) < 400
    scores = large.scores(scored)
    likely = scored.rows[~scored.places(group.other)]
    assert scores[likely].min() > np.delete(scores, scored.rows).max()
    assert np.mean(y[np.argsort(-scores)[:50]] == y[query]) > 0.9


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
# Marks left out


def test_true_marks_left_out_are_told_apart_and_random_ones_are_not(learner, unlabelled):
    y = unlabelled[1]
    true = [Group(rows(*np.flatnonzero(y == c)[:6]), rows(*np.flatnonzero(y == d)[:6])) for c, d in [(0, 8), (4, 9)]]
    assert min(card_of("", learner.scored(group)).separates or 0 for group in true) > 0.9
    mixed = np.random.default_rng(0).permutation(600)
    random = [Group(rows(*mixed[i : i + 6]), rows(*mixed[i + 6 : i + 12])) for i in (0, 12, 24)]
    assert np.mean([card_of("", learner.scored(group)).separates or 0 for group in random]) < 0.75


def test_a_left_out_score_is_that_of_a_concept_without_the_mark(learner, unlabelled, monkeypatch):
    monkeypatch.setattr(learning, "FOLDS", 100)
    y = unlabelled[1]
    right, wrong = np.flatnonzero(y == 5)[:4], np.flatnonzero(y == 9)[:3]
    group = Group(rows(*right), rows(*wrong))
    (trial,) = (one for one in learner.scored(group).trials if one.node.value == right[3])
    rest = learner.scored(Group(group.belongs - {trial.node}, group.other))
    assert trial.score == pytest.approx(float(rest.scores[right[3]]), rel=0.1)


def test_without_marks_nothing_is_left_out(learner):
    assert learner.scored(Group(rows(3), set())).trials == []


def test_only_explicit_rows_are_left_out(learner, unlabelled):
    y = unlabelled[1]
    label = Group(rows(*np.flatnonzero(y == 0)) | {Node("label", 0)}, rows(*np.flatnonzero(y != 0)))
    given = rows(*np.flatnonzero(y == 0)[:4]) | rows(np.flatnonzero(y == 1)[0])
    assert len(learner.scored(label, given).trials) == 5


def test_a_base_that_is_no_cosine_has_its_marks_left_out_too(fitted, digits):
    X, y, _, _ = digits
    learner = Learner(Index.build(fitted["bilinear"], X[:300].astype(np.float32)))
    group = Group(rows(*np.flatnonzero(y[:300] == 0)[:5]), rows(*np.flatnonzero(y[:300] == 1)[:5]))
    assert (card_of("", learner.scored(group)).separates or 0) > 0.8


def trial(row: int, right: bool, score: float) -> Trial:
    return Trial(Node("row", row), right, score)


# ---------------------------------------------------------------------------------------------------------------------
# The card


def card(trials: list[Trial], n_right: int, n_wrong: int) -> ConceptCard:
    return ConceptCard("snow", n_right, n_wrong, trials, None)


def test_the_card_expects_about_what_is_there(learner, unlabelled):
    y, stated, there = unlabelled[1], [], []
    for digit in range(10):
        index, query = unlabelled[0], int(np.flatnonzero(y == digit)[2])
        shown = index.search(rows=[query], k=100).rows[0]
        right, wrong = shown[y[shown] == digit][::4][:8], shown[y[shown] != digit][:8]
        scored = learner.scored(Group(rows(query, *right), rows(*wrong)))
        expected = card_of("digit", scored).expected
        free = np.flatnonzero(~scored.is_marked)
        first = free[np.argsort(-scored.scores[free])[:20]]
        stated.append(expected)
        there.append(np.mean(y[first] == digit))
    assert np.mean([one.low <= truth <= one.high for one, truth in zip(stated, there, strict=True)]) >= 0.8
    assert abs(np.mean([one.precision for one in stated]) - np.mean(there)) < 0.15


def test_a_mark_that_contradicts_the_others_is_doubtful(learner, unlabelled):
    y = unlabelled[1]
    zeros, ones = np.flatnonzero(y == 0), np.flatnonzero(y == 1)
    group = Group(rows(*zeros[:8], ones[9]), rows(*ones[:8], zeros[9]))
    assert set(card_of("zero", learner.scored(group)).doubtful) == {int(ones[9]), int(zeros[9])}


@pytest.mark.parametrize(
    ("card", "words"),
    [
        (card([], 1, 10), "nothing right yet: ask for something else, or start from two or three examples"),
        (card([trial(i, i % 2 == 0, i % 5) for i in range(30)], 15, 15), "30 marks and hardly better than chance: "),
        (card([], 2, 1), "mark a few more, right and wrong ones"),
    ],
)
def test_the_card_says_what_to_do_next(card, words):
    assert card.next.startswith(words)
