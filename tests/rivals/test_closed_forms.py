"""Whitening, RCA, LDA and ridge against their definitions and against scikit-learn; WithInput against its parts."""

from typing import Any

import numpy as np
import pytest
from scipy.linalg import eigh
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import Ridge
from sklearn.preprocessing import normalize

from likewise.rivals import LDA, RCA, Cosine, Kernelised, RidgeOneHot, Whitening, WithInput
from likewise.rivals.closed_forms import CentredRows, principal_directions
from tests.planted import planted


@pytest.fixture(scope="module")
def rows():
    return planted(150, 6, 4, condition=30.0)


def within_covariance(X, y):
    R = X - np.stack([X[y == c].mean(axis=0) for c in range(y.max() + 1)])[y]
    return R.T @ R / len(X)


def cosines(Z):
    Z = Z / np.linalg.norm(Z, axis=1, keepdims=True)
    return Z @ Z.T


def test_whitened_rows_have_the_identity_as_covariance(rows):
    X, y = rows
    model = Whitening(shrinkage=0.0, normalize=False).fit(X, y)
    Z = X @ model.components_.T - model.offset_
    np.testing.assert_allclose(Z.T @ Z / len(X), np.eye(6), atol=1e-8)
    np.testing.assert_allclose(model.similarity(X), cosines(Z), atol=1e-10)


def test_rca_as_a_distance_is_the_mahalanobis_distance_within_classes(rows):
    X, y = rows
    model = RCA(shrinkage=0.0, normalize=False, metric="distance").fit(X, y)
    inverse = np.linalg.inv(within_covariance(X, y))
    difference = X[:20, None] - X[None, :20]
    expected = -np.einsum("ijd,de,ije->ij", difference, inverse, difference)
    np.testing.assert_allclose(model.similarity(X[:20]), expected, rtol=1e-6, atol=1e-6)


def test_shrinkage_mixes_in_the_mean_variance(rows):
    X, y = rows
    S = within_covariance(X, y)
    for a in (0.1, 0.5, 1.0):
        T = RCA(shrinkage=a, normalize=False).fit(X, y).components_
        expected = (1 - a) * S + a * np.trace(S) / 6 * np.eye(6)
        np.testing.assert_allclose(np.linalg.inv(T.T @ T), expected, rtol=1e-8, atol=1e-8)


def test_lda_is_the_generalised_eigenproblem(rows):
    X, y = rows
    a = 0.2
    S = within_covariance(X, y)
    shrunk = (1 - a) * S + a * np.trace(S) / 6 * np.eye(6)
    centred = X - X.mean(axis=0)
    between = centred.T @ centred / len(X) - S
    _, V = eigh(between, shrunk)
    expected = cosines(centred @ V[:, -3:])
    np.testing.assert_allclose(LDA(shrinkage=a, normalize=False).fit(X, y).similarity(X), expected, atol=1e-8)


def test_lda_spans_what_scikit_learn_finds(rows):
    X, y = rows
    ours = LDA(shrinkage=0.0, normalize=False).fit(X, y)
    theirs = LinearDiscriminantAnalysis(solver="eigen").fit(X, y)
    np.testing.assert_allclose(ours.similarity(X), cosines((X - X.mean(axis=0)) @ theirs.scalings_[:, :3]), atol=1e-6)


def test_two_classes_are_compared_by_distance_along_the_one_direction():
    X, y = planted(80, 5, 2)
    model = LDA().fit(X, y)
    assert model.metric_ == "distance"
    assert len(np.unique(np.round(model.similarity(X), 6))) > 1000


def test_fewer_rows_than_columns_give_the_same_covariance_on_their_span():
    X, y = planted(25, 40, 3)
    rows = CentredRows.of(X, y)
    values, vectors = rows.covariance_within()
    V = rows.unfolded(vectors.T).T
    np.testing.assert_allclose((V * values) @ V.T, within_covariance(X, y), atol=1e-8)
    between = np.stack([X[y == c].mean(axis=0) for c in range(3)]) - X.mean(axis=0)
    np.testing.assert_allclose(between @ V @ V.T, between, atol=1e-8)


@pytest.mark.parametrize("shape", [(150, 6), (25, 40)])
def test_principal_directions_are_those_of_scikit_learn_up_to_sign(shape):
    X, _ = planted(*shape, 3)
    X = X - X.mean(axis=0)
    ours, theirs = principal_directions(X, 4), PCA(4, svd_solver="full").fit(X).components_
    np.testing.assert_allclose(np.abs(np.sum(ours * theirs, axis=1)), 1, atol=1e-8)
    assert len(principal_directions(X, 100)) == min(shape[0] - 1, shape[1])


@pytest.mark.parametrize("alpha", [0.01, 1.0])
def test_ridge_is_scikit_learns(rows, alpha):
    X, y = rows
    model = RidgeOneHot(alpha=alpha, normalize=False).fit(X, y)
    units = np.trace(np.cov(X.T, bias=True)) / 6 * len(X)
    theirs = Ridge(alpha=alpha * units).fit(X, np.eye(4)[y])
    np.testing.assert_allclose(model.similarity(X), cosines(theirs.predict(X)), atol=1e-8)


def test_a_weight_of_one_is_the_centred_cosine_and_of_nothing_the_base_alone(digits: Any) -> None:
    X, y, Q, _ = digits
    X, y, Q = X[:300], y[:300], Q[:200]
    rows, queries = normalize(X), normalize(Q)
    S = WithInput("ridge", weight=1.0).fit(X, y).similarity(Q)
    np.testing.assert_allclose(S, Cosine(centre=True).fit(rows).similarity(queries), atol=1e-12)
    model = WithInput("ridge", weight=0.0, holdout="rows").fit(X, y)
    alpha = model.cv_results_["params"][int(np.argmax(model.cv_results_["mean_test_score"]))]["alpha"]
    np.testing.assert_allclose(model.similarity(Q), RidgeOneHot(alpha).fit(X, y).similarity(Q), atol=1e-12)


def test_fewer_than_four_classes_are_chosen_by_rows() -> None:
    X, y = np.random.default_rng(0).standard_normal((30, 3)), np.repeat(np.arange(3), 10)
    by_class, by_row = LDA(holdout="classes", random_state=0).fit(X, y), LDA(random_state=0).fit(X, y)
    for name in ("params", "split0_test_score", "mean_test_score", "rank_test_score"):
        np.testing.assert_array_equal(by_class.cv_results_[name], by_row.cv_results_[name])
    assert "split1_test_score" not in by_class.cv_results_


def test_an_unknown_base_or_holdout_is_named() -> None:
    X, y = np.eye(4), [0, 0, 1, 1]
    for model, name in ((Kernelised("svm"), "base"), (WithInput("nca"), "base"), (LDA(holdout="items"), "holdout")):
        with pytest.raises(ValueError, match=f"The '{name}' parameter of {type(model).__name__} must be a str among"):
            model.fit(X, y)


def test_rows_that_are_equal_within_their_class_are_whitened_alike_in_any_order():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 19)
    X = rng.standard_normal((3, 6))[y]
    order = rng.permutation(19)
    one, other = (RCA(shrinkage=0.1).fit(X[rows], y[rows]).similarity(X) for rows in (np.arange(19), order))
    np.testing.assert_allclose(one, other, atol=1e-9)
