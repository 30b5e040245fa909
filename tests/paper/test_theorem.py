"""Theorem 1's measurement against dense linear algebra."""

import numpy as np
import pytest

from likewise.paper.theorem import (
    LabelRegression,
    _error,
    asked_size,
    deviation,
    deviations,
    epsilon,
    errors,
    factor,
    slope,
    smallest_size,
)


@pytest.fixture(scope="module")
def rows() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = np.arange(150) % 4
    return 0.7 * rng.standard_normal((4, 8))[y] + rng.standard_normal((150, 8)), y


def _dense(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    Y = (y[:, None] == y).astype(float)
    P = np.linalg.pinv(X)
    M = P @ Y @ P.T
    return Y, M, Y - X @ M @ X.T


def test_the_deviation_is_that_of_dense_regressions(rows: tuple[np.ndarray, np.ndarray]) -> None:
    """(S₁ᵀX)⁺ S₁ᵀ Y S₂ (XᵀS₂)⁺ for real Gaussian matrices, against the formula that never forms them."""
    X, y = rows
    Y, M, _ = _dense(X, y)
    problem = LabelRegression.of(X, y)
    U = X @ problem.V * problem.scale
    Z = (y[:, None] == np.arange(4)).astype(float)
    outside = np.linalg.qr(Z - U @ (U.T @ Z))[0]
    S1, S2 = np.random.default_rng(1).standard_normal((2, 150, 40)) / np.sqrt(40)
    M_hat = np.linalg.pinv(S1.T @ X) @ S1.T @ Y @ S2 @ np.linalg.pinv(X.T @ S2)
    E1, E2 = (np.linalg.pinv(S.T @ U) @ S.T @ outside for S in (S1, S2))
    assert deviation(problem, E1, E2) == pytest.approx(np.linalg.norm(M - M_hat, 2), rel=1e-8)


def test_norms_and_bounds_are_those_of_the_dense_problem(rows: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = rows
    Y, M, residual = _dense(X, y)
    problem = LabelRegression.of(X, y)
    sigma = np.linalg.svd(X, compute_uv=False)
    assert problem.residual == pytest.approx(np.linalg.norm(residual, 2), rel=1e-9)
    assert problem.norm == pytest.approx(np.linalg.norm(M, 2), rel=1e-9)
    assert problem.gamma == pytest.approx(np.linalg.norm(residual, 2) / np.linalg.norm(Y - residual, 2), rel=1e-9)
    first, second = problem.bounds(0.5)
    assert first == pytest.approx(np.linalg.norm(residual, 2) / sigma[-1] ** 2 * factor(0.5), rel=1e-9)
    condition = (sigma[0] / sigma[-1]) ** 2
    assert second == pytest.approx(problem.gamma * condition * np.linalg.norm(M, 2) * factor(0.5), rel=1e-9)


def test_the_factor_of_one_half_by_hand() -> None:
    by_hand = 0.25 * 1.5 / 0.5 + 2 * 0.5 * 1.5**1.5 / np.sqrt(0.5) + 2 * 1.0 * 1.5**1.5
    assert factor(0.5) == pytest.approx(by_hand, rel=1e-12)


def test_epsilon_is_the_inverse_of_the_size_asked_for() -> None:
    assert epsilon(asked_size(60, 0.3), 60) == pytest.approx(0.3, rel=1e-4)
    assert asked_size(60) > 10_000


def test_errors_without_a_sketch_are_distributed_as_with_one(rows: tuple[np.ndarray, np.ndarray]) -> None:
    """E[E Eᵀ] = k/(m - r - 1) I, the mean of an inverse Wishart matrix; and quantiles as with real sketches."""
    problem = LabelRegression.of(*rows)
    r, k, m = problem.rank, len(problem.C), 40
    rng = np.random.default_rng(0)
    drawn = np.array([_error(problem, m, rng) for _ in range(4000)])
    mean = np.einsum("nik,njk->ij", drawn, drawn) / len(drawn)
    np.testing.assert_allclose(mean, k / (m - r - 1) * np.eye(r), atol=0.01)
    real = []
    for _ in range(4000):
        G, H = rng.standard_normal((m, r)), rng.standard_normal((m, k))
        real.append(np.linalg.norm(np.linalg.pinv(G) @ H))
    sizes = np.linalg.norm(drawn, axis=(1, 2))
    np.testing.assert_allclose(np.quantile(sizes, [0.1, 0.5, 0.9]), np.quantile(real, [0.1, 0.5, 0.9]), rtol=0.03)


def test_the_deviation_falls_as_the_root_of_m_and_stays_within_the_bound(rows: tuple[np.ndarray, np.ndarray]) -> None:
    problem = LabelRegression.of(*rows)
    rng = np.random.default_rng(0)
    sizes = np.array([100, 400, 1600, 6400])
    medians = np.array([np.median(deviations(problem, int(m), 100, rng)) for m in sizes])
    assert slope(sizes, medians, problem.rank) == pytest.approx(-0.5, abs=0.07)
    required = asked_size(problem.rank)
    assert np.all(deviations(problem, required, 50, rng) < problem.bounds(0.5)[0])


def test_the_smallest_size_is_where_the_bound_begins_to_hold(rows: tuple[np.ndarray, np.ndarray]) -> None:
    problem = LabelRegression.of(*rows)
    bound = float(np.quantile(deviations(problem, 100, 500, np.random.default_rng(5)), 0.95))
    m, share = smallest_size(problem, bound, 300, np.random.default_rng(0))
    assert 85 <= m <= 118
    assert share >= 0.95


# -- Corollary 1: the alternating method with a fixed target


def _made(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = np.arange(n) % 5
    return rng.standard_normal((5, d))[y] + rng.standard_normal((n, d)), y


def test_iterates_of_the_optimum_s_rank_are_exact_after_one_iteration() -> None:
    for n, d in ((100, 20), (12, 20)):
        assert max(errors(*_made(n, d), rank=5, n_iter=3)) < 1e-10


def test_iterates_of_a_smaller_rank_approach_the_best_of_that_rank() -> None:
    distances = errors(*_made(100, 20), rank=2, n_iter=60)
    assert distances[-1] < 1e-3 * distances[0]
