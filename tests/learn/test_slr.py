"""SLR as people meet it: scikit-learn's manners, and every bad input answered in a sentence."""

import logging
import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer
from sklearn.utils.estimator_checks import check_estimator
from tests.planted import planted

from likewise import SLR, SimilarityLearner
from likewise.learn.maths.solvers import AllPairs


@pytest.mark.parametrize(
    "model",
    [
        SLR(),
        *(
            pytest.param(model, marks=pytest.mark.second)
            for model in (SLR(rank=None), SLR(adaptive=False), SLR(rank=2, alpha=0.1))
        ),
    ],
    ids=repr,
)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_own_checks_pass(model):
    check_estimator(model)


def test_learning_beats_the_inner_product_of_the_input(digits):
    X, y, X_test, y_test = digits
    model = SLR(rank=20).fit(X, y)
    euclid = np.linalg.norm(X_test[:, None] - X_test[None], axis=2)
    nearest = np.argsort(euclid + 1e9 * np.eye(len(euclid)), axis=1)[:, :10]
    learned = np.argsort(-model.similarity(X_test) + 1e9 * np.eye(len(euclid)), axis=1)[:, :10]
    before, after = ((y_test[hits] == y_test[:, None]).mean() for hits in (nearest, learned))
    assert model.score(X_test, y_test) > 0.8
    assert after > 0.9 * before


def test_similarity_is_the_inner_product_of_the_two_sides(digits):
    X, y, X_test, _ = digits
    model = SLR(rank=9, max_iter=2).fit(X, y)
    Q, G = model.transform_query(X_test[:5]), model.transform(X_test[5:9])
    np.testing.assert_allclose(model.similarity(X_test[:5], X_test[5:9]), Q @ G.T)
    np.testing.assert_allclose(X_test[:5] @ model.query_map() @ X_test[5:9].T, Q @ G.T)


def test_labels_may_be_strings(digits):
    X, y, *_ = digits
    numbers, names = SLR(9, max_iter=2).fit(X, y), SLR(9, max_iter=2).fit(X, np.array([f"digit {c}" for c in y]))
    np.testing.assert_array_equal(numbers.components_, names.components_)
    assert names.classes_[3] == "digit 3"


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_data_frames_come_in_and_go_out(frame):
    X, y = planted(60, 5, 3)
    table = frame({f"f{i}": X[:, i] for i in range(5)})
    model = SLR(2, max_iter=2).fit(table, y)
    kind = "pandas" if frame is pd.DataFrame else "polars"
    out = model.set_output(transform=kind).transform(table)
    assert list(model.feature_names_in_) == [f"f{i}" for i in range(5)]
    assert list(out.columns) == ["slr0", "slr1"]
    np.testing.assert_allclose(model.similarity(table), model.transform_query(table) @ out.to_numpy().T)
    with pytest.raises(ValueError, match="feature names"):
        model.transform(table.rename(columns={"f0": "g0"}) if kind == "pandas" else table.rename({"f0": "g0"}))


def test_it_works_in_a_pipeline_and_a_grid_search(digits):
    X, y, X_test, y_test = digits
    search = GridSearchCV(make_pipeline(Normalizer(), SLR(max_iter=1)), {"slr__rank": [2, 12]}, cv=2).fit(X, y)
    assert search.best_params_ == {"slr__rank": 12}
    assert search.score(X_test, y_test) > 0.7


def test_parameters_survive_cloning():
    model = SLR(rank=7, margins=(0.9, 0.1), compress="sample", compress_size=50)
    assert clone(model).get_params() == model.get_params()


def test_a_rank_above_that_of_the_data_is_lowered_and_said(caplog):
    X, y = planted(60, 5, 3)
    with caplog.at_level(logging.INFO, "likewise"):
        model = SLR(100, max_iter=1).fit(X, y)
    assert model.rank_ == 5
    assert "rank=100 is lowered to 5, the rank of X" in caplog.text


def test_tol_stops_early():
    X, y = planted(100, 8, 4)
    model = SLR(4, max_iter=500, tol=1e-3).fit(X, y)
    assert 1 < model.n_iter_ < 100
    assert len(model.history_) == model.n_iter_
    assert all(h["seconds"] >= 0 for h in model.history_)


def test_ctrl_c_leaves_the_model_of_the_last_full_iteration(monkeypatch):
    X, y = planted(100, 8, 4)
    expected = SLR(4, max_iter=2).fit(X, y)
    step, calls = AllPairs.step, []

    def interrupted(self, A, B):
        calls.append(1)
        if len(calls) > 5:
            raise KeyboardInterrupt
        return step(self, A, B)

    monkeypatch.setattr(AllPairs, "step", interrupted)
    with pytest.warns(UserWarning, match=re.escape("stopped by Ctrl-C: the model is that of iteration 2")):
        model = SLR(4, max_iter=10).fit(X, y)
    assert model.n_iter_ == 2
    np.testing.assert_array_equal(model.query_map(), expected.query_map())


def test_verbose_shows_a_bar_on_standard_error(capsys):
    X, y = planted(100, 8, 4)
    SLR(4, max_iter=2, verbose=1).fit(X, y)
    out, err = capsys.readouterr()
    assert out == ""
    assert "learning, loss" in err


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, bool, np.float16])
def test_other_numbers_are_read_as_doubles(dtype):
    X, y = planted(60, 5, 3)
    assert SLR(2, max_iter=1).fit((X * 3).astype(dtype), y).components_.dtype == np.float64


X, Y = planted(40, 5, 4)
MIXED = np.array([1, "a"] * 20, dtype=object)
BAD = {
    "nan": (SLR(), np.where(np.eye(40, 5) == 1, np.nan, X), Y, "NaN"),
    "infinite": (SLR(), np.where(np.eye(40, 5) == 1, np.inf, X), Y, "infinity"),
    "empty": (SLR(), np.empty((0, 5)), [], "0 sample"),
    "no columns": (SLR(), np.empty((40, 0)), Y, "0 feature"),
    "one row": (SLR(), X[:1], Y[:1], "minimum of 2"),
    "one class": (SLR(), X, np.zeros(40), "y has one class only, 0.0: a similarity is learned from at least"),
    "all distinct": (SLR(), X, np.arange(40), "all 40 labels in y are distinct: no two rows are alike"),
    "zeros": (SLR(), np.zeros((40, 5)), Y, "X holds zeros alone"),
    "rank": (SLR(0), X, Y, "The 'rank' parameter of SLR must be an int in the range [1, inf) or None. Got 0 instead."),
    "compress": (SLR(compress="zip"), X, Y, "The 'compress' parameter of SLR must be a str among"),
    "no size": (SLR(compress="sample"), X, Y, "compress='sample' needs compress_size"),
    "size": (
        SLR(4, compress="sample", compress_size=3),
        X,
        Y,
        "compress_size=3 is below rank=4: a sample must have at least as many items as the rank",
    ),
    "margins": (SLR(margins=(0.0, 1.0)), X, Y, "margins=(0.0, 1.0): expected (δ1, δ2) with δ1 > δ2"),
    "length": (SLR(), X, Y[:39], "inconsistent numbers of samples"),
    "no labels": (SLR(), X, None, "requires y to be passed"),
    "complex": (SLR(), X + 1j, Y, "Complex data not supported"),
    "objects": (SLR(), np.full((40, 5), "word", dtype=object), Y, "could not convert string to float"),
    "mixed labels": (SLR(), X, MIXED, "y mixes labels of the types int, str: use one type for all"),
    "missing labels": (
        SimilarityLearner(),
        X,
        np.array([None, "a", "a", "a"] * 10, dtype=object),
        "y has one class only, 'a'",
    ),
    "one dimension": (SLR(), X[:, 0], Y, "Expected 2D array, got 1D array"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_gets_a_sentence(case):
    model, rows, labels, message = BAD[case]
    with pytest.raises(ValueError, match=re.escape(message)):
        model.fit(rows, labels)


def test_weights_must_leave_two_classes():
    with pytest.raises(ValueError, match="sample_weight leaves fewer than two classes with a positive weight"):
        SLR().fit(X, Y, sample_weight=(Y == 0).astype(float))
    with pytest.raises(ValueError, match="Negative values in data passed to `sample_weight`"):
        SLR().fit(X, Y, sample_weight=-np.ones(40))


def test_another_width_and_an_unfitted_model_are_refused():
    with pytest.raises(ValueError, match="X has 4 features, but SLR is expecting 5 features as input"):
        SLR(2, max_iter=1).fit(X, Y).transform(X[:, :4])
    for use in (lambda m: m.transform(X), lambda m: m.score(X, Y), lambda m: m.save("x"), lambda m: m.query_map()):
        with pytest.raises(NotFittedError):
            use(SLR())


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_awkward_columns_and_rows_do_no_harm(make):
    """Constant and duplicate columns, zero and duplicate rows, one column."""
    rng = np.random.default_rng(0)
    awkward = np.hstack([X, X[:, :2], np.ones((40, 1)), np.zeros((40, 1))])
    awkward[rng.integers(0, 40, 5)] = 0.0
    awkward[:4] = awkward[4:8]
    for rows in (awkward, X[:, :1]):
        for model in (SLR(), SLR(rank=None), SLR(adaptive=False)):
            model.fit(make(rows), Y)
            assert np.isfinite(model.similarity(make(rows))).all()
            assert 0 < model.score(make(rows), Y) <= 1


def test_a_class_of_one_and_two_rows_a_class():
    labels = np.repeat(np.arange(20), 2)
    labels[0] = 99
    assert 0 < SLR(3).fit(X, labels).score(X, labels) <= 1
