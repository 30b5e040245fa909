"""The benchmark of suggestions, on digits: what a simulated user marks, and what is counted."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.suggestions import CHOICES, Library, Run, concepts, marks_needed, user
from sklearn.datasets import load_digits

from likewise.rivals import Cosine
from likewise.search import Index
from likewise.teach import Teacher

pytestmark = pytest.mark.second


@pytest.fixture(scope="module")
def library() -> Library:
    X, y = load_digits(return_X_y=True)
    X, y = X[:600].astype(np.float32), np.array([str(digit) for digit in y[:600]])
    index = Index.build(Cosine().fit(X), X)
    return Library(index, y, Teacher(index)._learner)


@pytest.fixture(scope="module")
def runs(library: Library) -> dict[str, Run]:
    return {name: user(library, choice, 8, 0, 4) for name, choice in CHOICES.items()}


def test_all_users_start_alike_and_mark_ten_items_a_round_truly(library: Library, runs: dict[str, Run]) -> None:
    assert len({run.aps[0] for run in runs.values()}) == 1
    for run in runs.values():
        assert (len(run.aps), len(run.marks), run.concept) == (5, 40, "8")
        assert 8 not in run.marks
        assert all((library.y[row] == "8") == right for row, right in run.marks.items())


def test_half_of_the_rows_are_never_marked_by_anybody(library: Library, runs: dict[str, Run]) -> None:
    hidden = np.random.default_rng(0).random(len(library.y)) < 0.5
    for run in runs.values():
        assert not hidden[list(run.marks)].any()


def test_marks_needed_are_between_rounds_by_a_straight_line() -> None:
    curve = np.array([0.2, 0.6, 0.8])
    assert marks_needed(curve, 0.7) == pytest.approx(15)
    assert marks_needed(curve, 0.1) == 0
    assert marks_needed(curve, 0.9) is None


def test_the_worst_concepts_are_no_others(library: Library) -> None:
    found = concepts(library, 3)
    assert [len(names) for names in found.values()] == [3, 3]
    assert not set(found["ranked worst"]) & set(found["any"])
