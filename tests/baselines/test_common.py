"""A distance as an inner product, and what is said about sparse rows too large to make dense."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from likewise.baselines import LDA, Euclid, common
from likewise.baselines.common import distance_sides, squared_distances
from likewise.errors import LikewiseError

numbers = st.floats(-100, 100)


@given(arrays(np.float64, (6, 3), elements=numbers))
def test_the_two_sides_of_a_distance_multiply_to_minus_its_square(Z):
    Q, G = distance_sides(Z)
    D = ((Z[:, None] - Z[None]) ** 2).sum(axis=2)
    np.testing.assert_allclose(Q @ G.T, -D, atol=1e-8)
    np.testing.assert_allclose(squared_distances(Z, Z), D, atol=1e-8)


def test_euclid_far_from_the_origin_keeps_its_digits_in_float32():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 4)) + 1000
    D = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    S = Euclid().fit(X.astype(np.float32)).similarity(X.astype(np.float32))
    np.testing.assert_allclose(S, -D, atol=2e-2)


def test_sparse_rows_too_large_to_be_dense_are_refused_in_a_sentence(monkeypatch):
    monkeypatch.setattr(common, "DENSE_LIMIT", 1000)
    X = sp.random_array((40, 10), density=0.2, format="csr", rng=np.random.default_rng(0))
    message = r"X is sparse and its 40 × 10 values would take 0.0 GiB dense: reduce it first, .* TruncatedSVD"
    with pytest.raises(LikewiseError, match=message):
        LDA().fit(X, np.arange(40) % 2)
