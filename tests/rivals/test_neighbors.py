"""LMNN: its objective over all triplets by brute force, its gradient by finite differences."""

import numpy as np
import pytest
from scipy.optimize import check_grad

from likewise.rivals import LMNN
from likewise.rivals.neighbors import Triplets, objective, target_neighbours, working_set
from tests.planted import planted


def brute_force(L: np.ndarray, X: np.ndarray, y: np.ndarray, T: np.ndarray, mu: float) -> tuple[float, np.ndarray]:
    """The objective and its gradient over all triplets, one after the other."""
    loss, gradient = 0.0, np.zeros((X.shape[1], X.shape[1]))
    for i in range(len(X)):
        for j in T[i][T[i] >= 0]:
            near = X[i] - X[j]
            loss += mu * np.sum((L @ near) ** 2)
            gradient += mu * np.outer(near, near)
            for l in np.flatnonzero(y != y[i]):
                far = X[i] - X[l]
                hinge = 1 + np.sum((L @ near) ** 2) - np.sum((L @ far) ** 2)
                if hinge > 0:
                    loss += (1 - mu) * hinge
                    gradient += (1 - mu) * (np.outer(near, near) - np.outer(far, far))
    return loss, 2 * L @ gradient


@pytest.fixture(scope="module")
def problem():
    X, y = planted(40, 6, 3)
    y[:3] = [5, 5, 6]  # a class of two and a class of one
    y = np.unique(y, return_inverse=True)[1]
    L = np.random.default_rng(1).standard_normal((4, 6))
    return L, X, y, target_neighbours(X, y, 3)


def test_targets_are_the_nearest_rows_of_the_class(problem):
    _, X, y, T = problem
    for i in range(len(X)):
        same = [j for j in np.flatnonzero(y == y[i]) if j != i]
        nearest = sorted(same, key=lambda j: np.sum((X[i] - X[j]) ** 2))[:3]
        assert T[i][T[i] >= 0].tolist() == nearest
    assert T[y == 3].tolist() == [[1, -1, -1], [0, -1, -1]]
    assert T[2].tolist() == [-1, -1, -1]


@pytest.mark.parametrize("mu", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("scale", [0.05, 0.3, 2.0])
def test_the_objective_and_its_gradient_are_those_over_all_triplets(problem, mu, scale):
    L, X, y, T = problem
    L = L * scale
    triplets = working_set(L, X, y, T, np.arange(len(X)), most=len(X))
    loss, gradient = objective(L, X, triplets, mu)
    expected_loss, expected_gradient = brute_force(L, X, y, T, mu)
    assert loss == pytest.approx(expected_loss, rel=1e-10)
    np.testing.assert_allclose(gradient, expected_gradient, rtol=1e-8, atol=1e-8)


def test_the_gradient_is_that_of_finite_differences(problem):
    L, X, y, T = problem
    triplets = working_set(0.3 * L, X, y, T, np.arange(len(X)), most=len(X))

    def value(flat):
        return objective(flat.reshape(L.shape), X, triplets, 0.5)[0]

    def gradient(flat):
        return objective(flat.reshape(L.shape), X, triplets, 0.5)[1].ravel()

    at = 0.3 * L.ravel()
    assert check_grad(value, gradient, at) < 1e-4 * np.linalg.norm(gradient(at))


def test_a_working_set_holds_the_nearest_impostors_of_the_rows_asked_for(problem):
    L, X, y, T = problem
    rows = np.array([4, 9, 17])
    triplets = working_set(0.1 * L, X, y, T, rows, most=5)
    Z = X @ (0.1 * L).T
    for i in rows:
        D = ((Z - Z[i]) ** 2).sum(axis=1)
        reach = 1 + D[T[i]].max()
        other = [l for l in np.argsort(D) if y[l] != y[i] and D[l] < reach]
        assert sorted(triplets.impostors[triplets.anchors == i]) == sorted(other[:5])
    assert set(triplets.anchors) == set(rows)
    assert set(np.flatnonzero(triplets.targets[:, 0] >= 0)) == set(rows)


def test_the_loss_over_all_triplets_falls(problem):
    _, X, y, _ = problem
    T = target_neighbours(X - X.mean(axis=0), y, 3)
    losses = []
    for rounds in (1, 4):
        model = LMNN(rank=6, k=3, mu=0.5, n_rounds=rounds, n_iter=15, normalize=False).fit(X, y)
        losses.append(brute_force(model.components_, X, y, T, 0.5)[0])
    start = 1 / np.sqrt(np.mean([np.sum((X[i] - X[T[i][T[i] >= 0][-1]]) ** 2) for i in range(len(X)) if T[i, 0] >= 0]))
    before = brute_force(start * np.eye(6), X, y, T, 0.5)[0]
    assert losses[1] <= losses[0] < before


def test_rows_may_be_subsampled(digits):
    X, y, X_test, y_test = digits
    model = LMNN(rank=20, k=3, mu=0.5, n_rounds=3, max_rows=300).fit(X, y)
    assert model.score(X_test, y_test) > LMNN(rank=20, k=3, mu=0.5, n_rounds=1, n_iter=1).fit(X, y).score(
        X_test, y_test
    )


def test_no_triplets_is_no_trouble():
    empty = Triplets(np.full((4, 1), -1), np.array([], dtype=int), np.array([], dtype=int))
    loss, gradient = objective(np.eye(2), np.ones((4, 2)), empty, 0.5)
    assert loss == 0
    np.testing.assert_array_equal(gradient, 0)
