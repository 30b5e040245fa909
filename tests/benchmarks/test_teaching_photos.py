"""The benchmark of teaching, on digits: what is counted, and what rivals are given."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.teaching_photos import (
    Marks,
    average_precision,
    flipped,
    ranked_worst,
    rocchio,
    searched,
    task,
    taught,
    two_samples,
    untouched_ap,
)
from sklearn.datasets import load_digits
from sklearn.metrics import average_precision_score

pytestmark = pytest.mark.second


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X.astype(np.float32), y


def test_average_precision_is_that_of_scikit_learn():
    rng = np.random.default_rng(0)
    S, relevant = rng.standard_normal(50), rng.random(50) < 0.3
    assert average_precision(S, relevant) == pytest.approx(average_precision_score(relevant, S))


def test_the_two_samples_have_no_row_in_common(digits):
    one, two = two_samples(digits[1], np.random.default_rng(0))
    assert not set(one) & set(two)
    assert set(digits[1][one]) == set(digits[1][two])


def test_marks_are_true_and_nothing_marked_is_counted(digits):
    t = task(*digits, seed=0)
    for marks in t.marks:
        assert {t.y[item] for item in marks.right} <= {t.y[marks.query]}
        assert t.y[marks.query] not in {t.y[item] for item in marks.wrong}
        assert len(marks.right) + len(marks.wrong) <= 10
    touched = np.concatenate([marks.touched for marks in t.marks])

    def only_touched(marks: Marks) -> np.ndarray:
        S = searched(t.index, marks)
        S[touched] = np.random.default_rng(0).random(len(touched))
        return S

    assert untouched_ap(t, only_touched) == untouched_ap(t, lambda m: searched(t.index, m))


def test_a_lesson_is_ahead_of_no_lesson_and_of_rocchio(digits):
    t = task(*digits, seed=0)
    after = taught(t.index, t.marks)
    ours = untouched_ap(t, lambda m: searched(after, m))
    assert ours > untouched_ap(t, lambda m: searched(t.index, m)) + 0.05
    assert ours > untouched_ap(t, lambda m: rocchio(m, t.index.vectors))


def test_the_worst_class_is_ranked_first(digits):
    t = task(*digits, seed=0)
    order = ranked_worst(t.index, t.y)
    assert list(order[:4]) == [t.y[marks.query] for marks in t.marks]
    assert 0 in order[-4:]  # zeros are easy


def test_flipped_marks_are_the_same_items():
    marks = Marks(0, [1, 2, 3], [4, 5])
    turned = flipped(marks, 1.0, np.random.default_rng(0))
    assert (sorted(turned.right), sorted(turned.wrong)) == ([4, 5], [1, 2, 3])
    assert flipped(marks, 0.0, np.random.default_rng(0)) == marks
