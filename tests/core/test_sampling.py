"""Samples by class: every class there, in proportion."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from likewise.core.sampling import draw_landmarks, rows_by_class, sample_by_class, sample_rows, stratified_holdout


@given(st.integers(2, 60), st.integers(0, 10))
def test_a_sample_keeps_every_class(size, seed):
    y = np.repeat(np.arange(5), [40, 30, 20, 5, 2])
    rows = sample_by_class(y, size, np.random.default_rng(seed))
    assert len(np.unique(rows)) == len(rows)
    assert set(y[rows]) == set(range(5))
    np.testing.assert_array_equal(sample_by_class(y, None, np.random.default_rng(0)), np.arange(97))


def test_a_sample_keeps_classes_in_their_share_and_small_ones_whole():
    codes = np.repeat([0, 1, 2], [900, 90, 4])
    kept = sample_by_class(codes, 100, np.random.default_rng(0), least=4)
    np.testing.assert_array_equal(np.bincount(codes[kept]), [91, 9, 4])
    assert len(np.unique(kept)) == len(kept)
    for most in (None, 994):
        np.testing.assert_array_equal(sample_by_class(codes, most, np.random.default_rng(0)), np.arange(994))


@given(st.lists(st.integers(1, 30), min_size=1, max_size=6), st.integers(0, 3), st.integers(1, 3), st.integers(0, 99))
def test_a_holdout_takes_its_share_and_leaves_some(sizes, least, spare, seed):
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    train, held = stratified_holdout(y, 0.3, rng, least, spare)
    np.testing.assert_array_equal(np.sort(np.concatenate([train, held])), np.arange(len(y)))
    for code, size in enumerate(sizes):
        expected = min(max(least, round(0.3 * size)), size - spare) if size >= least + spare else 0
        assert (y[held] == code).sum() == expected


@given(st.lists(st.integers(0, 4), min_size=1, max_size=40))
def test_rows_by_class_are_all_rows_class_by_class(codes):
    codes = np.array(codes)
    groups = rows_by_class(codes)
    assert [codes[rows[0]] for rows in groups] == np.unique(codes).tolist()
    for rows in groups:
        np.testing.assert_array_equal(rows, np.flatnonzero(codes == codes[rows[0]]))


@given(st.lists(st.integers(0, 4), min_size=1, max_size=40), st.integers(1, 50), st.integers(0, 99))
def test_landmarks_are_places_in_label_order_with_every_class_there(codes, size, seed):
    codes = np.sort(codes)
    places = draw_landmarks(codes, 5, size, np.random.default_rng(seed))
    assert len(np.unique(places)) == len(places)
    assert set(codes[places]) == set(codes)
    if size >= len(codes):
        np.testing.assert_array_equal(np.sort(places), np.arange(len(codes)))


def test_random_rows_are_sorted_and_distinct():
    rows = sample_rows(50, 20, np.random.default_rng(0))
    assert len(rows) == 20
    assert (np.diff(rows) > 0).all()
    np.testing.assert_array_equal(sample_rows(5, None, np.random.default_rng(0)), np.arange(5))
    np.testing.assert_array_equal(sample_rows(5, 9, np.random.default_rng(0)), np.arange(5))
