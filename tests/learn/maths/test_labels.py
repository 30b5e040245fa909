"""Labels: classes and counts, or a sentence; targets, sums and samples by class."""

from datetime import date

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from likewise.errors import LikewiseError
from likewise.learn.maths.labels import (
    LabelTarget,
    class_starts,
    class_sums,
    draw_landmarks,
    encode_labels,
    generator,
    has_one_label_per_row,
    indicator,
    label_runs,
    row_weights,
    rows_by_class,
    same_label_blocks,
    sample_by_class,
    sample_rows,
    stratified_holdout,
    with_every_label,
)
from likewise.rows import Relevance


@pytest.mark.parametrize("y", [[3, 1, 3], ["b", "a", "b"], np.array([True, False, True])])
def test_classes_are_the_sorted_distinct_labels(y):
    classes, codes = encode_labels(y)
    assert codes.tolist() == [1, 0, 1]
    assert classes[codes].tolist() == list(y)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([1, 1, 1], "y has one class only"),
        ([1, 2, 3], "all 3 labels in y are distinct"),
        (np.array([1, "a", 1], dtype=object), "y mixes labels of the types int, str"),
        (np.array(["a", None, "a"], dtype=object), "y has one class only, 'a'"),
        ([-1, 1, 1], "y has one class only, .*1.*-1 means unlabelled"),
        ([-1, -1], 'y has 2 rows and not one of them has a label: None, NaN, "" and -1 mean unlabelled'),
        (["", None], "not one of them has a label"),
    ],
)
def test_labels_that_teach_nothing_are_refused(y, message):
    with pytest.raises(LikewiseError, match=message):
        encode_labels(y)


@pytest.mark.parametrize(
    "y",
    [
        [2, -1, 1, 2],
        [2.0, np.nan, 1.0, 2.0],
        [2.0, -1.0, 1.0, 2.0],
        ["b", "", "a", "b"],
        ["b", "-1", "a", "b"],
        np.array(["b", None, "a", "b"], dtype=object),
        np.array([2, -1, 1, 2], dtype=object),
        np.array(["2026-02-02", "NaT", "2026-02-01", "2026-02-02"], dtype="M8[D]"),
    ],
)
def test_every_way_to_write_a_missing_label_means_unlabelled(y):
    with pytest.warns(UserWarning, match="y: 1 of 4 rows has no label and is left out"):
        classes, codes = encode_labels(y)
    assert (len(classes), codes.tolist()) == (2, [1, -1, 0, 1])
    filled = np.asarray(with_every_label(y))
    assert (filled == classes[[1, 1, 0, 1]]).all()


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        ([0, 1, 0], True),
        ([[0], [1], [0]], True),
        (["a", "b", "a"], True),
        (None, True),
        ([0, 1, -1], True),
        (np.array(["a", None, "b"], dtype=object), True),
        (np.eye(3), False),
        (sp.eye_array(3), False),
        (Relevance(np.eye(3)), False),
    ],
)
def test_one_label_per_row_is_recognised(y, expected):
    assert has_one_label_per_row(y) is expected


def test_weights_of_one_are_none_and_of_zero_are_absence():
    codes = np.array([0, 1, 1])
    assert row_weights(None, codes, codes) is None
    assert row_weights(np.ones(3), codes, codes) is None
    assert row_weights([2, 1, 0], codes, codes).tolist() == [2.0, 1.0, 0.0]


@given(st.lists(st.integers(0, 5), min_size=1, max_size=30).map(sorted), st.integers(1, 7), st.integers(0, 10**6))
def test_a_folded_tile_is_what_the_formula_says(codes, width, seed):
    codes, rng = np.array(codes), np.random.default_rng(seed)
    columns = np.sort(rng.integers(0, 6, 12))
    S = rng.standard_normal((len(codes), 12))
    target, starts, runs = LabelTarget(0.8, 0.1), class_starts(columns, 6), label_runs(codes)
    same = codes[:, None] == columns[None, :]
    E = np.where(same, np.minimum(S - 0.8, 0), np.maximum(S - 0.1, 0))
    for first in range(0, 12, width):
        tile = S[:, first : first + width].copy()
        blocks = target.fold_tile(tile, runs, starts, first)
        np.testing.assert_allclose(tile, (2 * E - (S - 0.1))[:, first : first + width], atol=1e-12)
        covered = np.zeros(tile.shape, dtype=bool)
        for a, b, excess in blocks:
            covered[a, b] = True
            np.testing.assert_allclose(excess, E[:, first : first + width][a, b], atol=1e-12)
        np.testing.assert_array_equal(covered, same[:, first : first + width])


def test_runs_starts_and_blocks():
    codes = np.array([0, 0, 2, 2, 2, 5])
    assert label_runs(codes) == [(0, 2, 0), (2, 5, 2), (5, 6, 5)]
    assert class_starts(codes, 6).tolist() == [0, 2, 2, 5, 5, 5, 6]
    assert same_label_blocks(3, label_runs(codes), class_starts(codes, 6), 1) == [
        ((slice(0, 2), slice(0, 1)), 0),
        ((slice(2, 5), slice(1, 3)), 2),
    ]


def test_the_indicator_has_the_weight_of_each_row_in_its_class():
    Z = indicator(np.array([1, 0, 1]), np.array([2.0, 3.0, 4.0]), 3)
    assert Z.toarray().tolist() == [[0, 2, 0], [3, 0, 0], [0, 4, 0]]
    assert indicator(np.array([1]), None, 2).toarray().tolist() == [[0, 1]]


@pytest.mark.parametrize("margins", [(0.0, 1.0), (1.0, 1.0), (1.0,), (1.0, 0.0, 0.0)])
def test_margins_are_two_and_in_order(margins):
    with pytest.raises(LikewiseError, match=r"expected \(δ1, δ2\) with δ1 > δ2"):
        LabelTarget.of_margins(margins, adaptive=True)
    assert LabelTarget.of_margins((1, 0), adaptive=False) == LabelTarget(1.0, 0.0, adaptive=False)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("weighted", [True, False])
def test_class_sums_are_those_of_a_loop(make, weighted):
    rng = np.random.default_rng(0)
    V, codes = rng.standard_normal((30, 4)).astype(np.float32), rng.integers(0, 5, 30)
    weights = rng.random(30) if weighted else None
    expected = np.zeros((7, 4))
    for row, c, w in zip(V.astype(float), codes, np.ones(30) if weights is None else weights, strict=True):
        expected[c] += w * row
    sums = class_sums(make(V), codes, weights, 7)
    assert (sums.dtype, sums.shape) == (np.float64, (7, 4))
    np.testing.assert_allclose(sums, expected, atol=1e-12)


@given(st.integers(2, 60), st.integers(0, 10))
def test_a_sample_keeps_every_class(size, seed):
    y = np.repeat(np.arange(5), [40, 30, 20, 5, 2])
    rows = sample_by_class(y, size, np.random.default_rng(seed))
    assert len(np.unique(rows)) == len(rows)
    assert set(y[rows]) == set(range(5))
    np.testing.assert_array_equal(sample_by_class(y, None, np.random.default_rng(0)), np.arange(97))


def test_a_sample_keeps_classes_in_their_share_and_small_ones_whole():
    codes = np.repeat([0, 1, 2], [900, 90, 4])
    sampled = sample_by_class(codes, 100, np.random.default_rng(0), least=4)
    np.testing.assert_array_equal(np.bincount(codes[sampled]), [91, 9, 4])
    assert len(np.unique(sampled)) == len(sampled)
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


@pytest.mark.parametrize(
    ("y", "kind"),
    [([date(2020, 1, 1), date(2021, 1, 1)], "date"), ([b"a", 1.0], "bytes"), (np.ones(2, complex), "complex")],
)
def test_labels_that_no_file_can_hold_are_refused_at_once(y, kind):
    with pytest.raises(LikewiseError, match=f"y has labels of the type {kind}.*expected text, numbers or booleans"):
        encode_labels(np.asarray(y, dtype=object) if kind != "complex" else y)


@pytest.mark.parametrize("weights", [[1e300, 1.0, 1.0, 1.0], [1.0, 1e-300, 1.0, 1.0]])
def test_weights_beyond_floating_point_are_refused(weights):
    with pytest.raises(LikewiseError, match=r"sample_weight has values from .* expected zero, or between 1e-12"):
        row_weights(weights, np.eye(4), np.array([0, 0, 1, 1]))


# -- From scikit-learn's seeds to generators ----------------------------------------------------------------------


def test_equal_seeds_draw_equal_numbers_and_none_is_one_of_them():
    for seed in (None, 7, np.int64(7)):
        assert generator(seed).random() == generator(seed).random()
    assert generator(np.random.RandomState(3)).random() == generator(np.random.RandomState(3)).random()
    assert generator(1).random() != generator(2).random()


def test_a_generator_is_taken_as_it_is():
    rng = np.random.default_rng(0)
    assert generator(rng) is rng
