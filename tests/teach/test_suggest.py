"""What to mark next: the covariance is a Gaussian process's, and a batch never asks the same thing twice."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF

from likewise.errors import LikewiseError
from likewise.rivals import Cosine
from likewise.search import Index
from likewise.teach import Teacher
from likewise.teach.suggest import NOISE, covariance, most_telling
from likewise.utils.arrays import unit_rows

N = 400


@pytest.fixture(scope="module")
def digits() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_digits(return_X_y=True)
    return X[:N].astype(np.float32), y[:N]


@pytest.fixture
def teacher(digits: tuple[np.ndarray, np.ndarray]) -> Teacher:
    X, _ = digits
    return Teacher(Index.build(Cosine().fit(X), X))


def brute_force_gain(C: np.ndarray, weights: np.ndarray, row: int) -> float:
    """The weighted variance before a noisy value at a row, less that after it, by the posterior itself."""
    after = C - np.outer(C[:, row], C[row]) / (C[row, row] + NOISE)
    return float(weights @ (np.diag(C) - np.diag(after)))


# -- the mathematics ---------------------------------------------------------------------------------------------------


def test_the_covariance_is_the_posterior_of_a_gaussian_process() -> None:
    rng = np.random.default_rng(0)
    Z, marked = (unit_rows(rng.standard_normal((n, 5))) for n in (30, 7))
    process = GaussianProcessRegressor(RBF(1 / np.sqrt(2), "fixed"), alpha=NOISE, optimizer=None)  # exp(2 (z·z' - 1))
    _, expected = process.fit(marked, np.zeros(7)).predict(Z, return_cov=True)
    np.testing.assert_allclose(covariance(Z, marked), expected, atol=1e-6)


def test_without_marks_the_covariance_is_the_kernel() -> None:
    Z = unit_rows(np.random.default_rng(0).standard_normal((10, 4)))
    np.testing.assert_allclose(covariance(Z, Z[:0]), np.exp(2 * (Z @ Z.T - 1)), atol=1e-6)


def test_the_first_choice_lowers_the_weighted_variance_most() -> None:
    rng = np.random.default_rng(1)
    A = rng.standard_normal((12, 12))
    C, weights = A @ A.T / 12, np.ones(12)
    gains = [brute_force_gain(C, weights, row) for row in range(12)]
    (first,) = most_telling(C, weights, 1)
    assert first.place == int(np.argmax(gains))
    assert first.gain == pytest.approx(max(gains) / np.trace(C))


def test_each_choice_is_made_as_if_those_before_were_marked() -> None:
    rng = np.random.default_rng(2)
    Z = unit_rows(rng.standard_normal((40, 6)))
    weights = rng.random(40) + 0.1
    first, second = most_telling(covariance(Z, Z[:0]), weights, 2)
    C = covariance(Z, Z[[first.place]])
    taught = [weights[row] * brute_force_gain(C, weights, row) for row in range(40)]
    taught[first.place] = 0
    assert second.place == int(np.argmax(taught))
    assert second.gain == pytest.approx(brute_force_gain(C, weights, second.place) / (weights @ np.diag(C)), rel=1e-4)


def test_a_batch_has_no_near_duplicates() -> None:
    rng = np.random.default_rng(3)
    points = unit_rows(rng.standard_normal((10, 20)))
    Z = unit_rows(np.repeat(points, 5, axis=0) + 0.01 * rng.standard_normal((50, 20)))
    chosen = most_telling(covariance(Z, Z[:0]), np.ones(50), 10)
    assert sorted(found.place // 5 for found in chosen) == list(range(10))


def test_more_than_there_is_gives_all_there_is() -> None:
    assert sorted(found.place for found in most_telling(np.eye(3), np.ones(3), 10)) == [0, 1, 2]


# -- from a teacher ----------------------------------------------------------------------------------------------------


def test_what_was_marked_or_labelled_never_comes(teacher: Teacher, digits: tuple[np.ndarray, np.ndarray]) -> None:
    _, y = digits
    said = {0}
    for _ in range(5):
        rows = [found.row for found in teacher.suggest(10, query=0)]
        assert len(set(rows)) == 10
        assert not said & set(rows)
        for row in rows:
            teacher.mark(0, row, bool(y[row] == y[0]))
        said |= set(rows)
    teacher.label([1, 2, 3], "others")
    assert not {1, 2, 3} & {found.row for found in teacher.suggest(200, label="others")}


def test_a_duplicate_of_a_marked_item_is_not_suggested(digits: tuple[np.ndarray, np.ndarray]) -> None:
    X = np.vstack([digits[0][:200], digits[0][:200]])
    teacher = Teacher(Index.build(Cosine().fit(X), X))
    rows = [found.row for found in teacher.suggest(10, query=0)]
    teacher.mark(0, rows, True)
    again = [found.row % 200 for found in teacher.suggest(10, query=0)]
    assert len({row % 200 for row in rows}) == len(set(again)) == 10
    assert not set(again) & {row % 200 for row in rows}


def test_two_teachers_suggest_the_same(digits: tuple[np.ndarray, np.ndarray]) -> None:
    X, _ = digits
    found = []
    for _ in range(2):
        teacher = Teacher(Index.build(Cosine().fit(X), X))
        teacher.mark(0, [10, 20], True)
        teacher.mark(0, [1, 2], False)
        found.append([(one.row, one.gain, one.reason) for one in teacher.suggest(10, query=0)])
    assert found[0] == found[1]


def test_suggestions_have_reasons_with_the_name_of_the_concept(teacher: Teacher) -> None:
    teacher.label([10, 20, 30], "zero")
    teacher.label([1, 2], "others")
    reasons = {found.reason for found in teacher.suggest(30, label="zero")}
    assert "near the border of zero" in reasons
    assert all(found.concept is not None and found.concept.name == "zero" for found in teacher.suggest(5, label="zero"))


def test_all_concepts_are_taught_in_turn_the_one_with_fewest_marks_first(teacher: Teacher) -> None:
    teacher.mark(0, [10, 20, 30], True)
    teacher.mark(5, [15], True)
    found = teacher.suggest(6)
    assert [one.concept.node.value for one in found if one.concept] == [5, 0] * 3
    assert len({one.row for one in found}) == 6


def test_where_nothing_was_marked_the_items_represent_others(
    teacher: Teacher, digits: tuple[np.ndarray, np.ndarray]
) -> None:
    found = teacher.suggest(10)
    assert {one.reason for one in found} == {"many others are like it"}
    assert len({digits[1][one.row] for one in found}) >= 7  # of ten digits
    gains = [one.gain for one in found]
    assert gains[0] > gains[-1]


def test_the_choice_can_be_limited(teacher: Teacher) -> None:
    assert {found.row for found in teacher.suggest(10, query=0, among=[3, 4, 5])} == {3, 4, 5}
    assert {found.row for found in teacher.suggest(10, among=[3, 4, 5])} == {3, 4, 5}


def test_if_everything_was_labelled_nothing_is_suggested(digits: tuple[np.ndarray, np.ndarray]) -> None:
    X = digits[0][:30]
    teacher = Teacher(Index.build(Cosine().fit(X), X))
    teacher.label(list(range(30)), "all")
    assert teacher.suggest(10, label="all") == []


def test_a_query_from_outside_is_a_concept_too(teacher: Teacher) -> None:
    X = load_digits(return_X_y=True)[0].astype(np.float32)
    teacher.mark(X[700], [1, 2], False)
    found = teacher.suggest(5, query=X[700])
    assert len(found) == 5
    assert not {1, 2} & {one.row for one in found}
    assert found[0].concept is not None
    assert found[0].concept.name == "the query"


def test_a_label_nobody_gave_and_two_concepts_at_once_are_refused(teacher: Teacher) -> None:
    teacher.label([1, 2], "one")
    with pytest.raises(LikewiseError, match="label='two' was given to no item; expected one of one"):
        teacher.suggest(label="two")
    with pytest.raises(LikewiseError, match="label='one' and query=3; expected one of them"):
        teacher.suggest(label="one", query=3)


def test_suggested_marks_teach_more_than_the_top_results(digits: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = load_digits(return_X_y=True)
    X, y = X[:1000].astype(np.float32), y[:1000]
    index = Index.build(Cosine().fit(X), X)
    found = {how: np.mean([_unmarked_share(index, y, how, query) for query in (0, 8, 9)]) for how in ("top", "told")}
    assert found["told"] > found["top"]


def _unmarked_share(index: Index, y: np.ndarray, how: str, query: int) -> float:
    """After 20 marks, the share of right ones among the first of the rows that cannot be marked."""
    teacher, hidden = Teacher(index), np.arange(len(index)) % 2 == 1
    for _ in range(2):
        now = teacher.taught_by(teacher.state())[0]
        free = np.setdiff1d(np.flatnonzero(~hidden), [query, *teacher.state().rows])
        ranked = free[np.argsort(-(now.vectors[free] @ now.vectors[query]), kind="stable")]
        rows = ranked[:10].tolist() if how == "top" else [s.row for s in teacher.suggest(query=query, among=free)]
        for row in rows:
            teacher.mark(query, row, bool(y[row] == y[query]))
    now = teacher.taught_by(teacher.state())[0]
    hidden[query] = False
    scores = now.vectors[hidden] @ now.vectors[query]
    right = y[hidden] == y[query]
    return float(right[np.argsort(-scores, kind="stable")[: right.sum()]].mean())
