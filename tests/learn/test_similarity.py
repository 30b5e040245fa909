"""SimilarityLearner as people meet it: better rankings by default, and no data that breaks it."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import StratifiedKFold
from sklearn.utils.estimator_checks import check_estimator, estimator_checks_generator
from tests.planted import planted

from likewise import SLR, SimilarityLearner
from likewise.evaluate import mean_average_precision
from likewise.learn.cosine import Cosine
from likewise.learn.maths.engine import MemoryEngine
from likewise.learn.maths.kernels import Features, UnitRows
from likewise.learn.maths.regressions import _canonical, anchored_regression
from likewise.utils.arrays import unit_rows as unit


def raw_cosine(X, y, X_test, y_test):
    """mAP of the centred cosine of the input."""
    centre = unit(X).mean(axis=0)
    Z = unit(unit(X_test) - centre)
    return mean_average_precision(Z, Z, y_test)


# Few settings to choose from, on two holdouts: what scikit-learn asks of a model does not depend on how many it tried.
FEW = {
    "scaling": "unit",
    "settings": {"geometry": "lda", "ridge": 0.1, "adaptation": 1.0, "trust": 0.5, "temperature": 0.03},
}
QUICK = SimilarityLearner("linear", cv=2, **FEW)
# Ten fits each, of one matrix in all of SciPy's formats: conversion comes before the choice, and `QUICK` tests it.
OF_FORMATS = ("check_estimator_sparse_matrix", "check_estimator_sparse_array")
CHECKS = [
    check for _, check in estimator_checks_generator(SimilarityLearner()) if check.func.__name__ not in OF_FORMATS
]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.func.__name__)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_own_checks_pass(check):
    check(SimilarityLearner())


@pytest.mark.second
@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_own_checks_pass_of_a_posterior():
    check_estimator(QUICK)


def test_defaults_rank_digits_better_than_what_people_would_pick_instead(digits):
    X, y, X_test, y_test = digits
    score = {
        "linear": SimilarityLearner(kernel="linear").fit(X, y).score(X_test, y_test),
        "auto": SimilarityLearner().fit(X, y).score(X_test, y_test),
        "slr": SLR(20).fit(X, y).score(X_test, y_test),
    }
    lda = LinearDiscriminantAnalysis(solver="eigen", shrinkage=0.1).fit(X, y)
    Z = unit(lda.transform(X_test))
    score["lda"] = mean_average_precision(Z, Z, y_test)
    assert score["auto"] > 0.98
    assert score["auto"] > score["linear"] > score["lda"]
    assert score["linear"] > score["slr"] > raw_cosine(*digits)


def test_the_posterior_is_a_unit_vector_and_ranks_a_closed_world_better(digits):
    X, y, X_test, y_test = digits
    cosine = SimilarityLearner(kernel="linear").fit(X, y)
    posterior = SimilarityLearner(kernel="linear", settings={"temperature": "auto"}).fit(X, y)
    Z = posterior.transform(X_test)
    assert Z.shape == (len(y_test), 10 + 65)
    np.testing.assert_allclose(np.linalg.norm(Z, axis=1), 1, atol=1e-9)
    assert posterior.score(X_test, y_test) > cosine.score(X_test, y_test) + 0.03


@pytest.mark.parametrize("settings", [None, {"temperature": "auto"}], ids=["cosine", "posterior"])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_a_model_comes_back_bit_by_bit_kernel_and_all(kernel, settings, tmp_path):
    X, y = planted(90, 8, 4, dtype=np.float32)
    model = SimilarityLearner(kernel, settings=settings).fit(X, y)
    back = SimilarityLearner.load(model.save(tmp_path / "m"))
    np.testing.assert_array_equal(back.transform(X), model.transform(X))
    assert back.setting_ == model.setting_
    assert back.cv_results_["params"] == model.cv_results_["params"]
    np.testing.assert_array_equal(back.cv_results_["mean_test_score"], model.cv_results_["mean_test_score"])


def test_two_fits_with_one_seed_are_identical():
    X, y = planted(120, 8, 4)
    one, two = (SimilarityLearner(random_state=3).fit(X, y).transform(X) for _ in range(2))
    np.testing.assert_array_equal(one, two)


def test_sparse_rows_give_the_model_of_dense_rows():
    X, y = planted(90, 12, 4)
    X[np.abs(X) < 0.1] = 0.0  # few enough that no two rows are equal: among equal ones rounding decides who is first
    for kwargs in ({"kernel": "linear"}, {"kernel": "rbf"}, {"settings": {"share": 0.0}}):
        dense = SimilarityLearner(**kwargs, scaling="unit").fit(X, y).similarity(X)
        sparse = SimilarityLearner(**kwargs, scaling="unit").fit(sp.csr_array(X), y).similarity(sp.csr_array(X))
        np.testing.assert_allclose(sparse, dense, atol=1e-6)


def test_results_hold_what_was_tried_and_a_fixed_setting_stays():
    X, y = planted(120, 8, 4)
    model = SimilarityLearner(kernel="linear", settings={"geometry": "lda", "ridge": 0.2}).fit(X, y)
    assert all(p["geometry"] == "lda" and p["ridge"] == 0.2 for p in model.cv_results_["params"])
    assert model.setting_["ridge"] == 0.2
    assert len(model.cv_results_["mean_test_score"]) == len(model.cv_results_["mean_fit_time"]) >= 6
    fixed = SimilarityLearner(
        kernel="linear", settings={"geometry": "lda", "ridge": 0.2, "adaptation": 1.0, "trust": 0.5}
    ).fit(X, y)
    assert (fixed.setting_["adaptation"], fixed.setting_["trust"]) == (1.0, 0.5)


@pytest.mark.parametrize("cv", [3, StratifiedKFold(2), [(np.arange(60), np.arange(60, 120))]])
def test_held_out_rows_are_whatever_scikit_learn_makes_of_cv(cv):
    X, y = planted(120, 8, 4)
    assert SimilarityLearner(kernel="linear", cv=cv).fit(X, y).score(X, y) > 0.5


@pytest.mark.second
def test_unseen_classes_are_never_ranked_much_worse_than_by_the_plain_cosine(digits):
    X, y, X_test, y_test = digits
    for seen in ([0, 2, 4, 6, 8], [5, 6, 7, 8, 9]):
        train, test = np.isin(y, seen), ~np.isin(y_test, seen)
        model = SimilarityLearner(settings={"share": 0.0}).fit(X[train], y[train])
        raw = raw_cosine(X[train], y[train], X_test[test], y_test[test])
        assert model.score(X_test[test], y_test[test]) >= raw - 0.003


def test_the_family_for_unseen_classes_contains_the_plain_cosine():
    X, y = planted(90, 8, 3)  # too few classes to hold any out
    model = SimilarityLearner(settings={"share": 0.0}).fit(X, y)
    Z = unit(unit(X) - unit(X).mean(axis=0))
    np.testing.assert_allclose(model.similarity(X), Z @ Z.T, atol=1e-9)


def noisy(digits):
    X, y, X_test, y_test = digits
    rng = np.random.default_rng(0)
    wrong = rng.uniform(size=len(y)) < 0.1
    return X, np.where(wrong, rng.integers(0, 10, len(y)), y), X_test, y_test


def class_of_one(digits):
    X, y, X_test, y_test = digits
    keep = np.concatenate([np.flatnonzero(y != 7), np.flatnonzero(y == 7)[:1]])
    return X[keep], y[keep], X_test, y_test


def many_small_classes(_):
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((200, 30))
    X = np.repeat(centres, 6, axis=0) + 0.7 * rng.standard_normal((1200, 30))
    X = X.astype(np.float32)
    y, learn = np.repeat(np.arange(200), 6), np.tile([True] * 3 + [False] * 3, 200)
    return X[learn], y[learn], X[~learn], y[~learn]


def two_classes(digits):
    X, y, X_test, y_test = digits
    train, test = np.isin(y, [3, 8]), np.isin(y_test, [3, 8])
    return X[train], y[train], X_test[test], y_test[test]


def duplicates(digits):
    X, y, X_test, y_test = digits
    return np.vstack([X, X_test[:200]]), np.concatenate([y, y_test[:200]]), X_test, y_test


def wild_scales(digits):
    X, y, X_test, y_test = digits
    scale = 10.0 ** np.random.default_rng(0).uniform(-4, 4, X.shape[1])
    return X * scale, y, X_test * scale, y_test


@pytest.mark.parametrize(
    "case", [noisy, class_of_one, many_small_classes, two_classes, duplicates, wild_scales], ids=lambda f: f.__name__
)
def test_awkward_data_is_ranked_no_worse_than_by_the_plain_cosine(case, digits):
    data = case(digits)
    model = SimilarityLearner().fit(*data[:2])
    assert model.score(*data[2:]) > raw_cosine(*data) - 0.01


def test_zero_rows_are_similar_to_nothing():
    X, y = planted(90, 8, 3)
    X[:3] = 0.0
    model = SimilarityLearner(kernel="linear").fit(X, y)
    assert np.isfinite(model.similarity(X)).all()


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_many_classes_of_two_are_learned_from_in_narrow_maps(kernel, monkeypatch):
    monkeypatch.setattr("likewise.learn.similarity.MOST_CLASSES", 40)
    monkeypatch.setattr("likewise.learn.maths.labels.MOST_DIRECTIONS", 50)
    rng = np.random.default_rng(0)
    y = np.arange(150).repeat(2)
    X = rng.standard_normal((150, 16))[y] + 0.3 * rng.standard_normal((300, 16))
    model = SimilarityLearner(kernel).fit(X, y)
    assert model.held_out_["rows"] <= 80
    assert model.projection_.shape[1] <= 50
    assert len(model.classes_) == 150
    assert model.score(X, y) > 0.9


def test_more_classes_than_features_are_decomposed_by_the_features():
    X, y = planted(120, 6, 20)
    regression = anchored_regression(UnitRows(MemoryEngine(X, y, 20)), Features(), None, np.random.default_rng(0))
    K, divisor = regression.class_factors, regression.divisor(0.1)
    rho, E, n_null = _canonical(K, divisor)
    values, vectors = np.linalg.eigh(K.T @ (K / divisor))
    assert len(rho) + n_null == 19
    np.testing.assert_allclose(rho, values[::-1][: len(rho)], atol=1e-10)
    directions = K @ vectors[:, ::-1][:, : len(rho)]
    np.testing.assert_allclose(np.abs((K @ E).T @ (directions / divisor)), np.diag(rho), atol=1e-8)


def test_directions_that_say_nothing_do_not_choose_the_scaling_nor_a_kernel():
    """A kernel of such rows is noise: one scaling won by chance, which cost 28 points of mAP."""
    rng, n, d = np.random.default_rng(2), 900, 200
    y = np.arange(n) % 30
    X = (rng.normal(size=(30, d)) * 0.35)[y] + rng.normal(size=(n, d))
    X += rng.normal(size=(n, 30)) @ rng.normal(size=(30, d)) * 0.9  # dominate
    model, linear = SimilarityLearner(), SimilarityLearner("linear", scaling="unit")
    assert model.fit(X[:600], y[:600]).setting_["gamma"] == 0
    assert model.score(X[600:], y[600:]) > 0.95 * linear.fit(X[:600], y[:600]).score(X[600:], y[600:])


def test_a_map_for_new_classes_keeps_directions_that_are_small_in_the_rows_of_fit():
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(20), 30)
    X = rng.normal(size=(600, 300)) * np.repeat([1.0, 0.2], [280, 20])
    known, new = y < 10, y >= 10
    X[known, :280] += rng.normal(size=(10, 280))[y[known]]
    X[new, 280:] += 2 * rng.normal(size=(10, 20))[y[new] - 10]
    model = SimilarityLearner(settings={"share": 0}).fit(X[known], y[known])
    assert model.score(X[new], y[new]) > Cosine().fit(X[known]).score(X[new], y[new]) - 0.02 > 0.9
