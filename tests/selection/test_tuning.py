"""The inner holdout: by class, never empty-handed, and on training data only."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from likewise.baselines.common import compare
from likewise.metrics import mean_average_precision
from likewise.selection.tuning import HELD_LIMIT, choose, stratified_holdout, stratified_subset


@given(st.lists(st.integers(1, 30), min_size=2, max_size=6), st.integers(0, 100))
def test_a_holdout_leaves_and_takes_two_of_every_class_of_four(sizes, seed):
    y = np.repeat(np.arange(len(sizes)), sizes)
    parts = stratified_holdout(y, seed)
    if max(sizes) < 4:
        assert parts is None
        return
    train, held = parts
    np.testing.assert_array_equal(np.sort(np.concatenate([train, held])), np.arange(len(y)))
    for code, size in enumerate(sizes):
        expected = 0 if size < 4 else max(2, round(0.3 * size))
        assert (y[held] == code).sum() == expected
        assert (y[train] == code).sum() >= min(2, size)


def test_a_large_holdout_is_limited():
    y = np.repeat(np.arange(10), 5000)
    _, held = stratified_holdout(y)
    assert len(held) == HELD_LIMIT


@given(st.integers(2, 60), st.integers(0, 10))
def test_a_subset_keeps_every_class(size, seed):
    y = np.repeat(np.arange(5), [40, 30, 20, 5, 2])
    rows = stratified_subset(y, size, seed)
    assert len(np.unique(rows)) == len(rows)
    assert set(y[rows]) == set(range(5))
    np.testing.assert_array_equal(stratified_subset(y, None), np.arange(97))


def test_the_best_setting_is_that_of_the_highest_held_out_map():
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(3), 20)
    X = np.hstack([y[:, None] + 0.1 * rng.standard_normal((60, 1)), 10 * rng.standard_normal((60, 1))])
    seen = []

    def fit(X_train, y_train):
        seen.append(len(X_train))
        return lambda setting: lambda rows: compare(rows[:, [setting["column"]]], "distance")

    best, results = choose([{"column": 1}, {"column": 0}], fit, X, y)
    assert best == {"column": 0}
    assert seen == [42]
    _, held = stratified_holdout(y)
    expected = mean_average_precision(*compare(X[held][:, [0]], "distance"), y[held])
    assert results["score"][1] == expected


def test_one_setting_is_not_searched():
    best, results = choose([{"C": 1}], lambda X, y: 1 / 0, np.eye(4), np.arange(4))
    assert best == {"C": 1}
    assert results == {"settings": [{"C": 1}], "score": []}
