"""NCA, LMNN and FRML: objectives by brute force, gradients by finite differences, the retraction by dense algebra."""

import numpy as np
import pytest
from scipy.io import loadmat
from scipy.optimize import check_grad

from likewise.evaluate import mean_average_precision
from likewise.rivals import FRML, LMNN
from likewise.rivals.mahalanobis import (
    Triplets,
    draw,
    neighbour_scale,
    objective,
    retract,
    target_neighbours,
    working_set,
)
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


def test_without_triplets_there_is_a_map_too():
    empty = Triplets(np.full((4, 1), -1), np.array([], dtype=int), np.array([], dtype=int))
    loss, gradient = objective(np.eye(2), np.ones((4, 2)), empty, 0.5)
    assert loss == 0
    np.testing.assert_array_equal(gradient, 0)


# -- FRML: its draws, its retraction against the dense formula, and its authors' own figure ---------------------------


def dense_retraction(L: np.ndarray, G: np.ndarray) -> np.ndarray:
    """M = LLᵀ moved along the symmetric G: Z M⁺ Z with Z = M + ½ξₛ + ξₚ − ⅛ξₛM⁺ξₛ − ½ξₚM⁺ξₛ, as one factor."""
    M, pinv = L @ L.T, np.linalg.pinv(L)
    Mp, P = pinv.T @ pinv, L @ pinv
    inside, across = P @ G @ P, (np.eye(len(P)) - P) @ G @ P
    Z = M + inside / 2 + across - inside @ Mp @ inside / 8 - across @ Mp @ inside / 2
    return Z @ pinv.T


@pytest.mark.parametrize("seed", range(5))
def test_the_retraction_is_the_dense_formula(seed):
    rng = np.random.default_rng(seed)
    L, q = rng.standard_normal((9, 4)), rng.standard_normal((5, 9))
    delta = 0.05 * rng.standard_normal(5)
    expected = dense_retraction(L, (q.T * delta) @ q)
    retract(L, q, q @ L, delta, np.inf)
    np.testing.assert_allclose(L, expected, rtol=1e-6, atol=1e-6)


def test_the_retraction_is_of_second_order():
    """M moves along the tangent part of G, PGP + P⊥GP + PGP⊥, up to the square of the step."""
    rng = np.random.default_rng(0)
    L0, q, delta = rng.standard_normal((9, 4)), rng.standard_normal((5, 9)), rng.standard_normal(5)
    G, P = (q.T * delta) @ q, L0 @ np.linalg.pinv(L0)
    tangent = P @ G + G @ P - P @ G @ P
    errors = []
    for t in (1e-2, 5e-3):
        L = L0.copy()
        retract(L, q, q @ L, t * delta, np.inf)
        errors.append(np.linalg.norm(L @ L.T - L0 @ L0.T - t * tangent))
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.2)


def test_a_step_is_shortened_to_what_is_trusted():
    rng = np.random.default_rng(0)
    L, q = rng.standard_normal((9, 4)), rng.standard_normal((5, 9))
    h = np.linalg.pinv(L) @ q.T
    delta = rng.standard_normal(5)
    size = np.linalg.norm(h.T @ h * delta)
    shortened = dense_retraction(L, (q.T * delta * 0.5 / size) @ q)
    retract(L, q, q @ L, delta, 0.5)
    np.testing.assert_allclose(L, shortened, rtol=1e-6, atol=1e-6)


def test_draws_weigh_each_pair_by_the_rank_it_seems_to_have():
    X, y = planted(40, 6, 3)
    order = np.argsort(y, kind="stable")
    X, y = X[order], y[order]
    sizes = np.bincount(y)
    first, size = (np.cumsum(sizes) - sizes)[y], sizes[y]
    phi = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, 41))])
    L = np.linalg.qr(np.random.default_rng(0).standard_normal((6, 3)))[0]
    rng = np.random.default_rng(1)
    for i in range(40):
        q, z, weights = draw(L, X, first, size, phi, np.array([i]), 0.2, 1.0, rng)
        near = [j for j in np.flatnonzero(y == y[i]) if j != i and np.allclose(X[i] - X[j], q[0])]
        assert len(near) == 1
        np.testing.assert_allclose(z, q @ L)
        if len(q) == 1:
            assert weights[0] == pytest.approx(0.2)
            continue
        assert any(np.allclose(X[i] - X[k], q[1]) for k in np.flatnonzero(y != y[i]))
        assert z[1] @ z[1] < z[0] @ z[0] + 1
        omega = -weights[1] / 0.8
        assert weights[0] == pytest.approx(0.2 + 0.8 * omega)
        others = 40 - size[i]
        ranks = {others // draws for draws in range(1, others + 1)}
        assert min(abs(omega - phi[rank] / phi[others]) for rank in ranks) < 1e-12


def test_rescaling_brings_nearest_neighbours_to_distance_one():
    X, _ = planted(200, 6, 3)
    for factor in (0.01, 1, 100):
        Z = X * factor * neighbour_scale(X * factor)
        D = ((Z[:, None] - Z[None]) ** 2).sum(axis=2) + 1e9 * np.eye(200)
        assert D.min(axis=1).mean() == pytest.approx(1)


def test_the_scale_of_the_data_does_not_matter_when_it_is_rescaled():
    X, y = planted(90, 8, 3)
    one, other = (
        FRML(rank=3, n_iter=4000, normalize=False).fit(factor * X, y).score(factor * X, y) for factor in (1.0, 1024.0)
    )
    assert one == pytest.approx(other, abs=0.02)  # pairs are drawn by what rows hold, so other pairs are


@pytest.mark.second
def test_its_authors_figure_is_reached_under_their_protocol(data_folder):
    """Fold 0 of in300, test queries rank the training rows; they report .798."""
    fold = loadmat(data_folder / "in300_folds.mat", squeeze_me=True, struct_as_record=False)["folds"][0]
    X, y, Q, y_q = fold.Ktrain.T, fold.Ytrain, fold.Ktest.T, fold.Ytest
    assert mean_average_precision(Q, X, y_q, y) < 0.5
    model = FRML(rank=2, lam=0.7, step=1e4, batch=2, n_iter=20_000, decay=0.0, rescale=False, normalize=False)
    model.fit(X, y)
    assert mean_average_precision(model.transform_query(Q), model.transform(X), y_q, y) >= 0.78
