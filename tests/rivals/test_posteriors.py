"""Posteriors as embeddings: those of scikit-learn's classifiers."""

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize
from sklearn.svm import SVC

from likewise.learn.maths.kernels import mean_square_distance
from likewise.rivals import LDAPosterior, LogisticPosterior, SVMPosterior
from tests.planted import planted

Digits = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


@pytest.fixture(scope="module")
def some(digits: Digits) -> Digits:
    X, y, Q, y_q = digits
    return X[:300], y[:300], Q[:200], y_q[:200]


@pytest.fixture(scope="module")
def rows():
    return planted(150, 6, 4, condition=30.0)


def test_the_posterior_of_lda_is_that_of_scikit_learn(some: Digits) -> None:
    X, y, Q, _ = some
    rows, queries = normalize(X), normalize(Q)
    rows = rows[:, rows.std(axis=0) > 1e-3][:, :20]
    queries = queries[:, normalize(X).std(axis=0) > 1e-3][:, :20]
    ours = LDAPosterior(shrinkage=0.0, temperature=1.0, normalize=False).fit(rows, y)
    theirs = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=None).fit(rows, y)
    # scikit-learn divides the covariance by n less nothing, class by class, as here.
    np.testing.assert_allclose(ours.transform(queries) ** 2, theirs.predict_proba(queries), atol=1e-6)


def test_the_machines_are_those_of_scikit_learn(some: Digits) -> None:
    X, y, Q, _ = some
    model = SVMPosterior(C=10.0, width=1.0, temperature=1.0).fit(X, y)
    rows, queries = normalize(X), normalize(Q)
    one = SVC(C=10.0, gamma=1.0 / mean_square_distance(rows, None)).fit(rows, y == 3)
    Z = model.transform(Q) ** 2
    scores = np.log(Z[:, 3]) - np.log(Z[:, 5])
    other = SVC(C=10.0, gamma=1.0 / mean_square_distance(rows, None)).fit(rows, y == 5)
    np.testing.assert_allclose(scores, one.decision_function(queries) - other.decision_function(queries), atol=1e-2)


def test_the_posterior_is_that_of_scikit_learns_logistic_regression(rows):
    X, y = rows
    model = LogisticPosterior(C=0.15, temperature=1.0, normalize=False).fit(X, y)
    scaled = (X - X.mean(axis=0)) / np.sqrt(np.mean((X - X.mean(axis=0)) ** 2))
    theirs = LogisticRegression(C=0.15 * 1000 / 150, max_iter=200, tol=1e-3).fit(scaled, y)
    np.testing.assert_allclose(model.transform(X) ** 2, theirs.predict_proba(scaled), atol=1e-8)
    np.testing.assert_allclose(np.linalg.norm(model.transform(X), axis=1), 1)


def test_a_lower_temperature_sharpens_the_posterior(rows):
    X, y = rows
    cold, warm = (LogisticPosterior(C=0.1, temperature=t).fit(X, y).transform(X).max(axis=1) for t in (0.5, 2.0))
    assert (cold >= warm).all()
