"""How rows come to length one: as they are, or standardised where columns are in units of their own."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from tests.planted import planted

from likewise import SimilarityLearner
from likewise.errors import LikewiseError
from likewise.evaluate import mean_average_precision
from likewise.learn.choose.search import MOST_HELD, MOST_HELD_PER_SPLIT, inner_splits, mean_interval, row_splits
from likewise.learn.maths.engine import MemoryEngine
from likewise.learn.maths.kernels import Scaling, scaling_of
from likewise.utils.arrays import unit_rows as unit


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_standardised_rows_are_those_of_scikit_learn_and_a_constant(dtype: type) -> None:
    X, y = planted(200, 7, 3, dtype=dtype)
    X = X * np.logspace(-1, 3, 7, dtype=dtype) + np.logspace(1, -1, 7, dtype=dtype)
    Z = scaling_of(MemoryEngine(X, y, 3), "standard")(X)
    expected = np.hstack([StandardScaler().fit_transform(X.astype(np.float64)) / np.sqrt(7), np.ones((200, 1))])
    assert Z.dtype == dtype
    np.testing.assert_allclose(Z, unit(expected), atol=1e-4 if dtype == np.float32 else 1e-12)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10_000))
def test_weights_mean_repetition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, y, w = rng.standard_normal((40, 3)) + 100, np.arange(40) % 2, rng.integers(0, 3, 40)
    weighted = scaling_of(MemoryEngine(X, y, 2, w.astype(float)), "standard")
    repeated = scaling_of(MemoryEngine(X.repeat(w, axis=0), y.repeat(w), 2), "standard")
    np.testing.assert_allclose(weighted(X), repeated(X), atol=1e-10)


def test_a_column_that_does_not_vary_counts_for_nothing() -> None:
    X, y = planted(60, 5, 3)
    X[:, 2] = 1e6
    Z = scaling_of(MemoryEngine(X, y, 3), "standard")(X)
    np.testing.assert_array_equal(Z[:, 2], 0)
    assert Scaling().name == "unit"


def test_units_of_the_columns_do_not_matter_where_they_hide_the_rest(digits: Any) -> None:
    X, y, X_test, y_test = digits
    X, y, X_test, y_test = X[:300], y[:300], X_test[:300], y_test[:300]
    wild = 10.0 ** np.random.default_rng(0).uniform(-4, 4, X.shape[1])
    plain, unscaled, standardised = (
        SimilarityLearner("linear", scaling=scaling).fit(X * factor, y)
        for scaling, factor in (("auto", 1.0), ("unit", wild), ("auto", wild))
    )
    assert plain.setting_["scaling"] == "unit"
    assert standardised.setting_["scaling"] == "standard"
    assert {row["scaling"] for row in standardised.cv_results_["params"]} == {"unit", "roots", "standard"}
    assert standardised.score(X_test * wild, y_test) > unscaled.score(X_test * wild, y_test) + 0.05
    assert standardised.score(X_test * wild, y_test) == pytest.approx(plain.score(X_test, y_test), abs=0.03)


def test_a_table_is_ranked_better_than_by_what_people_would_pick_instead() -> None:
    X, y = load_wine(return_X_y=True)
    ours, lda = [], []
    for seed in range(2):
        train, test, y_train, y_test = train_test_split(X, y, test_size=0.3, stratify=y, random_state=seed)
        ours.append(SimilarityLearner(kernel="linear").fit(train, y_train).score(test, y_test))
        rival = LinearDiscriminantAnalysis(solver="eigen", shrinkage=0.1).fit(train, y_train)
        Z = unit(rival.transform(test))
        lda.append(mean_average_precision(Z, Z, y_test))
    assert np.mean(ours) > max(0.93, np.mean(lda))


def test_what_was_standardised_is_saved_and_takes_sparse_rows_too(tmp_path: Any) -> None:
    X, y = planted(90, 8, 4, dtype=np.float32)
    model = SimilarityLearner("linear", scaling="standard").fit(X, y)
    back = SimilarityLearner.load(model.save(tmp_path / "m"))
    np.testing.assert_array_equal(back.transform(X), model.transform(X))
    np.testing.assert_allclose(back.transform(sp.csr_array(X)), model.transform(X), atol=1e-6)


def test_sparse_rows_are_never_standardised() -> None:
    X, y = planted(90, 8, 4)
    assert SimilarityLearner("linear").fit(sp.csr_array(X), y).setting_["scaling"] == "unit"
    with pytest.raises(LikewiseError, match="X is sparse, and scaling='standard' would make it dense"):
        SimilarityLearner("linear", scaling="standard").fit(sp.csr_array(X), y)


def test_for_unseen_classes_rows_are_standardised_if_asked_to() -> None:
    X, y = planted(120, 8, 6)
    assert SimilarityLearner(settings={"share": 0.0}).fit(X, y).setting_["scaling"] == "unit"
    assert SimilarityLearner(settings={"share": 0.0}, scaling="standard").fit(X, y).setting_["scaling"] == "standard"


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_that_are_almost_the_same_have_a_kernel_in_either_precision(dtype: type) -> None:
    X, y = planted(300, 20, 5)
    X = (1000 + 0.1 * X).astype(dtype)  # squared distances of the unit rows are 1e-8, a tenth of float32's rounding
    model = SimilarityLearner("rbf", scaling="unit").fit(X[::2], y[::2])
    exact = SimilarityLearner("rbf", scaling="unit").fit(X[::2].astype(np.float64), y[::2])
    assert model.gamma_ == pytest.approx(exact.gamma_, rel=0.01)
    assert model.score(X[1::2], y[1::2]) == pytest.approx(exact.score(X[1::2].astype(np.float64), y[1::2]), abs=0.02)


def test_a_table_in_single_precision_is_learned_like_one_in_double() -> None:
    X, y = load_wine(return_X_y=True)
    for options in ({"kernel": "linear"}, {"scaling": "unit", "kernel": "rbf", "settings": {"temperature": "auto"}}):
        single, double = (SimilarityLearner(**options).fit(X[::2].astype(t), y[::2]) for t in (np.float32, np.float64))
        rows = X[1::2]
        assert single.score(rows.astype(np.float32), y[1::2]) == pytest.approx(double.score(rows, y[1::2]), abs=0.01)


# -- Held-out rows by class, and held-out classes


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


def test_the_interval_of_a_mean_over_rows_counts_a_row_of_several_splits_once() -> None:
    values = np.random.default_rng(0).uniform(size=200)
    rows = np.arange(200)
    low, high = mean_interval([values], [rows])
    assert low < values.mean() < high
    assert high - low == pytest.approx(2 * 1.96 * values.std(ddof=1) / np.sqrt(200))
    assert mean_interval([values, values], [rows, rows]) == pytest.approx([low, high])
    missing = np.append(values, np.nan)
    assert mean_interval([missing], [np.arange(201)]) == pytest.approx([low, high])
    assert mean_interval([np.array([0.4])], [np.array([0])]) == [0.0, 1.0]
    assert np.isnan(mean_interval([np.array([np.nan])], [np.array([0])])).all()
