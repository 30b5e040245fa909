from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from tests.planted import planted

from likewise.errors import LikewiseError
from likewise.learn.maths import whitening
from likewise.learn.maths.whitening import gram, whiten


@given(st.integers(2, 40), st.integers(1, 40), st.integers(0, 10**6))
def test_whitened_rows_are_orthonormal_and_span_the_rows(n, d, seed):
    X = np.random.default_rng(seed).standard_normal((n, d))
    w = whiten(X)
    U = X @ w.W
    assert w.rank == min(n, d)
    np.testing.assert_allclose(U.T @ U, np.eye(w.rank), atol=1e-9)
    np.testing.assert_allclose(U @ w.inverse, X, atol=1e-8 * np.abs(X).max())


@pytest.mark.parametrize("shape", [(60, 20), (20, 60)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_directions_without_variance_are_dropped(shape, dtype):
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((shape[0], 7)) @ rng.standard_normal((7, shape[1]))).astype(dtype)
    assert whiten(X).rank == 7


def test_whitening_twice_keeps_orthonormality_where_the_gram_matrix_loses_it():
    X, _ = planted(300, 40, 5, condition=1e6)
    U = X @ whiten(X).W
    np.testing.assert_allclose(U.T @ U, np.eye(40), atol=1e-8)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_weights_count_as_repetition(make):
    X, _ = planted(50, 6, 3)
    weights = np.random.default_rng(0).integers(1, 4, 50)
    np.testing.assert_allclose(gram(make(X), weights.astype(float)), gram(X.repeat(weights, axis=0)), atol=1e-10)


@pytest.mark.parametrize("shape", [(60, 20), (20, 60)])
def test_ridge_shrinks_what_is_kept_of_each_direction(shape):
    X = np.random.default_rng(0).standard_normal(shape)
    w = whiten(X, alpha=0.5)
    ridge = 0.5 * np.sum(X**2) / shape[1]
    s2 = np.linalg.svd(X, compute_uv=False) ** 2
    np.testing.assert_allclose(w.shrinkage, s2 / (s2 + ridge), atol=1e-10)
    np.testing.assert_allclose((X @ w.W).T @ (X @ w.W), np.diag(w.shrinkage), atol=1e-10)


def test_a_gram_matrix_beyond_memory_is_refused_in_words(monkeypatch):
    monkeypatch.setattr(whitening, "physical_memory", lambda: 10**9)
    X = sp.csr_array((20_000, 30_000))
    with pytest.raises(LikewiseError, match=r"X is 20000 x 30000: whitening it needs a 20000 x 20000 Gram matrix"):
        whiten(X)
