"""Kernel Rocchio in closed form: leave-one-out equals a fit without, and the intercept and width are as stated."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge
from sklearn.preprocessing import normalize

from likewise.learn.maths.rocchio import INTERCEPT, RBF_WIDTH, KernelBasis, LeftOut, features, rbf_gamma


@pytest.fixture
def rows() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return normalize(rng.standard_normal((40, 6))), rng.standard_normal((40, 3))


def kernel(Q: np.ndarray, L: np.ndarray, name: str, of: np.ndarray) -> np.ndarray:
    """The kernel of the page, its width from the rows `of` all queries."""
    if name == "linear":
        return Q @ L.T + INTERCEPT
    squares = ((of[:, None] - of) ** 2).sum(axis=2)
    return INTERCEPT + np.exp(-RBF_WIDTH * ((Q[:, None] - L) ** 2).sum(axis=2) / squares.mean())


@pytest.mark.parametrize("name", ["linear", "rbf"])
def test_leaving_queries_out_equals_a_fit_without_them(name: str, rows) -> None:
    Q, T = rows
    left_out = LeftOut(KernelBasis.of(Q, name, 100), T, 0.5)
    for group in (np.array([3]), np.array([3, 7, 20])):
        others = np.setdiff1d(np.arange(40), group)
        fit = KernelRidge(alpha=0.5, kernel="precomputed").fit(kernel(Q[others], Q[others], name, Q), T[others])
        expected = fit.predict(kernel(Q[[3]], Q[others], name, Q))[0]
        np.testing.assert_allclose(left_out.without(3, group), expected, atol=1e-6)
    np.testing.assert_allclose(left_out.alone(np.array([3]))[0], left_out.without(3, np.array([3])), atol=1e-6)


@pytest.mark.parametrize("name", ["linear", "rbf"])
def test_coefficients_are_those_of_kernel_ridge_regression(name: str, rows) -> None:
    Q, T = rows
    basis, new = KernelBasis.of(Q, name, 100), Q[:5] + 0.1
    fit = KernelRidge(alpha=0.5, kernel="precomputed").fit(kernel(Q, Q, name, Q), T)
    predicted = features(new, basis.landmarks) @ basis.coefficients(T, 0.5)
    np.testing.assert_allclose(predicted, fit.predict(kernel(new, Q, name, Q)), atol=1e-6)


def test_the_width_follows_the_queries_and_equal_queries_have_one(rows) -> None:
    Q, _ = rows
    assert rbf_gamma(Q / 2) == pytest.approx(4 * rbf_gamma(Q))
    assert np.isfinite(features(Q, np.ones((3, 6)))).all()
