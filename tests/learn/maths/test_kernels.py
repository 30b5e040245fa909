"""Kernels and eigenbases: inner products are those of the kernel, the Gram matrix is diagonal."""

from __future__ import annotations

import numpy as np
import pytest

from likewise.learn.maths.kernels import Features, dual_basis, gram_basis, mean_square_distance
from likewise.utils.arrays import unit_rows


@pytest.mark.parametrize("shape", [(60, 12), (12, 60)])
def test_the_basis_diagonalises_the_centred_gram_matrix(shape):
    X = unit_rows(np.random.default_rng(0).standard_normal(shape))
    found = dual_basis(X, None) if shape[0] < shape[1] else gram_basis(X.T @ X, X.mean(axis=0), len(X), None)
    F = found(X)
    np.testing.assert_allclose(F.T @ F, np.diag(found.g), atol=1e-10)
    np.testing.assert_allclose(F @ F.T, (X - X.mean(0)) @ (X - X.mean(0)).T, atol=1e-8)


def test_with_every_row_a_landmark_the_kernel_features_have_the_kernel_as_inner_product():
    X = unit_rows(np.random.default_rng(0).standard_normal((40, 6)))
    features = Features(X, 0.7)
    K = features(X)
    distances = np.sum((X[:, None] - X[None]) ** 2, axis=2)
    np.testing.assert_allclose(K, np.exp(-0.7 * distances), atol=1e-12)
    F = gram_basis(K.T @ K, K.mean(axis=0), len(K), features.metric())(K)
    H = np.eye(40) - 1 / 40
    np.testing.assert_allclose(F @ F.T, H @ K @ H, atol=1e-4)


def test_the_mean_square_distance_needs_no_pairs():
    X = np.random.default_rng(0).standard_normal((40, 6))
    assert mean_square_distance(X, None) == pytest.approx(np.mean(np.sum((X[:, None] - X[None]) ** 2, axis=2)))
