"""Held-out rows by class, and held-out classes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from likewise.learn.choose.holdout import MOST_HELD, MOST_HELD_PER_SPLIT, inner_splits, row_splits


@given(st.lists(st.integers(1, 30), min_size=2, max_size=6), st.integers(0, 100))
def test_an_inner_holdout_leaves_and_takes_two_of_every_class_of_four(sizes, seed):
    y = np.repeat(np.arange(len(sizes)), sizes)
    splits = inner_splits(y, np.random.default_rng(seed))
    if max(sizes) < 4:
        assert splits == []
        return
    (split,) = splits
    np.testing.assert_array_equal(np.sort(np.concatenate([split.train, split.held])), np.arange(len(y)))
    for code, size in enumerate(sizes):
        expected = 0 if size < 4 else max(2, round(0.3 * size))
        assert (y[split.held] == code).sum() == expected
        assert (y[split.train] == code).sum() >= min(2, size)


def test_a_large_holdout_is_limited():
    y = np.repeat(np.arange(10), 5000)
    (split,) = inner_splits(y, np.random.default_rng(0))
    assert len(split.held) == MOST_HELD
    by_class = inner_splits(y, np.random.default_rng(0), "classes")
    assert [len(split.held) for split in by_class] == [MOST_HELD_PER_SPLIT] * 8


@given(st.lists(st.integers(2, 8), min_size=4, max_size=30), st.integers(0, 100))
def test_held_out_classes_are_not_learned_from(sizes, seed):
    y = np.repeat(np.arange(len(sizes)), sizes)
    splits = inner_splits(y, np.random.default_rng(seed), "classes")
    assert len(splits) == (4 if len(sizes) > 20 else 8)
    for split in splits:
        assert not set(y[split.train]) & set(y[split.held])


def test_holdouts_by_class_leave_something_to_find():
    y = np.repeat(np.arange(9), [1, 1, 1, 5, 6, 7, 8, 2, 3])
    splits = inner_splits(y, np.random.default_rng(0), "classes")
    assert len(splits) >= 4
    for split in splits:
        assert not set(y[split.train]) & set(y[split.held])
        assert np.bincount(y[split.held]).max() > 1


def test_three_classes_are_too_few_to_hold_some_out():
    y = np.repeat(np.arange(3), 10)
    by_class, by_row = (inner_splits(y, np.random.default_rng(1), by) for by in ("classes", "rows"))
    np.testing.assert_array_equal(by_class[0].held, by_row[0].held)


@pytest.mark.parametrize(("size", "draws"), [(10, 4), (200, 4), (400, 3), (2000, 1)])
def test_a_small_holdout_is_drawn_several_times(size, draws):
    splits = row_splits(np.repeat([0, 1], size // 2), np.random.default_rng(0))
    assert len(splits) == draws
    assert len({tuple(split.held) for split in splits}) == draws


def test_classes_of_one_leave_nothing_to_hold_out():
    assert row_splits(np.arange(5), np.random.default_rng(0)) == []
