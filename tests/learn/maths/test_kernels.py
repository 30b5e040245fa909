"""Kernels and eigenbases: inner products are those of the kernel, the Gram matrix is diagonal."""

import numpy as np
import pytest
import scipy.sparse as sp

from likewise.learn.maths.kernels import BaseMap, Features, dual_basis, gram_basis, mean_square_distance
from likewise.learn.maths.scatter import leading_directions
from likewise.utils.arrays import unit_rows


@pytest.mark.parametrize("shape", [(60, 12), (12, 60)])
def test_the_basis_diagonalises_the_centred_gram_matrix(shape):
    X = unit_rows(np.random.default_rng(0).standard_normal(shape))
    basis = dual_basis(X, None) if shape[0] < shape[1] else gram_basis(X.T @ X, X.mean(axis=0), len(X), None)
    F = basis(X)
    np.testing.assert_allclose(F.T @ F, np.diag(basis.g), atol=1e-10)
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


# -- Sparse rows of many columns, which are never made dense


@pytest.fixture
def wide_rows() -> sp.csr_array:
    rng = np.random.default_rng(0)
    return sp.csr_array(unit_rows(rng.poisson(0.05, (40, 5000)).astype(float)))


@pytest.mark.parametrize("weights", [None, np.arange(1.0, 41.0)])
def test_the_basis_of_sparse_rows_is_that_of_dense_ones(wide_rows, weights):
    sparse, dense = dual_basis(wide_rows, weights), dual_basis(wide_rows.toarray(), weights)
    np.testing.assert_allclose(sparse.g, dense.g, rtol=1e-9)
    assert sparse.unit == pytest.approx(dense.unit)
    F, expected = sparse(wide_rows), dense(wide_rows.toarray())
    np.testing.assert_allclose(F @ F.T, expected @ expected.T, atol=1e-12)
    L = np.random.default_rng(1).standard_normal((len(sparse.g), 3))
    np.testing.assert_allclose(wide_rows @ sparse.unfolded(L) - sparse.offset @ L, F @ L, atol=1e-10)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_kernel_with_sparse_landmarks_is_that_with_dense_ones(wide_rows, dtype):
    rows = wide_rows.astype(dtype)
    K = Features(rows[:30], 0.7)(rows)
    assert K.dtype == dtype
    expected = Features(rows[:30].toarray().astype(float), 0.7)(rows.toarray().astype(float))
    np.testing.assert_allclose(K, expected, atol=np.finfo(dtype).eps)


@pytest.mark.parametrize("weights", [None, np.arange(1.0, 41.0)])
def test_leading_directions_of_sparse_rows_less_their_mean_are_those_of_dense_ones(wide_rows, weights):
    X, mean = wide_rows.toarray(), wide_rows.mean(axis=0)
    values, V = leading_directions(wide_rows, weights, 5, mean)
    expected, W = leading_directions(X - mean, weights, 5)
    np.testing.assert_allclose(values, expected)
    np.testing.assert_allclose(np.abs(V.T @ W), np.eye(5), atol=1e-7)
    base = BaseMap(mean, V)
    np.testing.assert_allclose(base(wide_rows), base(X), atol=1e-12)
