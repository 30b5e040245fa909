"""Leading directions and shrunk covariances: one way each, and the large one equals the small one."""

import numpy as np
import pytest
import scipy.sparse as sp

from likewise.learn.maths import scatter
from likewise.learn.maths.scatter import half_whitened, leading_directions, shrunk, shrunk_whitener


@pytest.mark.parametrize("sparse", [False, True])
def test_subspace_iteration_and_the_gram_matrix_give_the_same_directions(monkeypatch, sparse):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 40)) * np.logspace(0, -3, 40)
    weights = rng.integers(1, 4, 200).astype(float)
    values, V = leading_directions(X, weights, 5)
    monkeypatch.setattr(scatter, "EXACT_DIRECTIONS", 0)
    others, W = leading_directions(sp.csr_array(X) if sparse else X, weights, 5)
    np.testing.assert_allclose(others, values, rtol=1e-4)
    np.testing.assert_allclose(np.abs(np.sum(V * W, axis=0)), 1, atol=1e-3)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(X.T @ (weights[:, None] * X))[::-1][:5])


@pytest.mark.parametrize("shrink", [0.1, 0.5, 1.0])
def test_the_shrunk_covariance_becomes_the_identity(shrink):
    R = np.random.default_rng(0).standard_normal((60, 6)) * np.arange(1, 7)
    values, vectors = np.linalg.eigh(R.T @ R / 60)
    S = (vectors * shrunk(values, 6, shrink)[0]) @ vectors.T
    W = shrunk_whitener(R, shrink)
    np.testing.assert_allclose(W.T @ S @ W, np.eye(6), atol=1e-10)


def test_directions_that_hardly_vary_are_left_out_of_half_whitening():
    V = half_whitened(np.array([4.0, 1.0, 1e-9]), np.eye(3))
    np.testing.assert_allclose(V, np.eye(3)[:, :2] / np.sqrt([1.0, 0.5]))
