"""FRML: its draws, its retraction against the dense formula, and its authors' own figure."""

import numpy as np
import pytest
from scipy.io import loadmat

from likewise.evaluate import mean_average_precision
from likewise.rivals import FRML
from likewise.rivals.common import neighbour_scale
from likewise.rivals.frml import draw, retract
from tests.planted import planted


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
