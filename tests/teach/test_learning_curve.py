"""Have I marked enough? Outlooks follow the slope of the curve, and say when they cannot know."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits

from likewise.rivals import Cosine
from likewise.search import Index
from likewise.teach import Teacher
from likewise.teach.learning_curve import Outlook, _extrapolated, in_order

SIZES = np.array([10, 15, 20])


@pytest.fixture
def teacher() -> Teacher:
    X = load_digits(return_X_y=True)[0][:500].astype(np.float32)
    return Teacher(Index.build(Cosine().fit(X), X))


def marked(teacher: Teacher, right: int, wrong: int) -> Teacher:
    y = load_digits(return_X_y=True)[1][:500]
    teacher.mark(8, np.flatnonzero(y == y[8])[1 : right + 1].tolist(), True)
    teacher.mark(8, np.flatnonzero(y != y[8])[:wrong].tolist(), False)
    return teacher


def test_pairs_in_order_are_the_area_under_the_roc_curve() -> None:
    assert in_order(np.array([3.0, 1.0]), np.array([2.0, 0.0])) == 0.75
    assert in_order(np.array([1.0]), np.array([1.0])) == 0.5


def test_a_curve_that_rises_with_the_logarithm_is_continued_at_half_its_slope() -> None:
    accuracy = np.tile(0.5 + 0.1 * np.log(SIZES), (8, 1))
    found = _extrapolated(accuracy, SIZES, 26, 0.3, 10)
    assert found.now == pytest.approx(50 + 10 * np.log(20) + 5 * np.log(26 / 20))
    assert found.gain == pytest.approx(5 * np.log(36 / 26))


def test_where_no_draw_differs_the_interval_is_half_a_mark_either_way() -> None:
    found = _extrapolated(np.full((8, 3), 0.8), SIZES, 25, 0.3, 10)
    assert (found.gain, found.low, found.high) == pytest.approx((0, -2, 2))
    found = _extrapolated(np.ones((8, 3)), SIZES, 25, 0.3, 10)
    assert (found.now, found.gain, found.low, found.high) == pytest.approx((100, 0, -2, 2))


def test_the_interval_widens_with_the_spread_of_the_draws() -> None:
    rng = np.random.default_rng(0)
    calm, wild = (_extrapolated(0.7 + s * rng.standard_normal((16, 3)), SIZES, 26, 0.3, 10) for s in (0.02, 0.1))
    assert wild.high - wild.low > 2 * (calm.high - calm.low) > 0


def test_nobody_gains_beyond_all_pairs_in_order() -> None:
    accuracy = np.tile([0.7, 0.85, 0.99], (8, 1))
    found = _extrapolated(accuracy, SIZES, 20, 0.3, 100)
    assert found.now + found.gain <= 100 + 1e-9
    assert found.now + found.high <= 100 + 50 / 20 + 1e-9  # as far as 20 marks can tell


def test_with_fewer_than_four_marks_of_a_kind_nobody_can_tell(teacher: Teacher) -> None:
    assert teacher.outlook(query=8) is None
    assert marked(teacher, 10, 3).outlook(query=8) is None


def test_marks_give_an_outlook_with_its_interval_and_the_same_again(teacher: Teacher) -> None:
    found = marked(teacher, 8, 12).outlook(query=8, more=20)
    assert isinstance(found, Outlook)
    assert (found.marks, found.more) == (20, 20)
    assert found.low <= found.gain <= found.high
    assert 50 < found.now <= 100
    assert teacher.outlook(query=8, more=20) == found


def test_a_label_has_an_outlook_too(teacher: Teacher) -> None:
    y = load_digits(return_X_y=True)[1][:500]
    for digit in (3, 8):
        teacher.label(np.flatnonzero(y == digit)[:8].tolist(), str(digit))
    found = teacher.outlook(label="8")
    assert found is not None
    assert found.marks == 16
