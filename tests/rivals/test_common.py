"""A distance as an inner product, loops with and without numba, and sparse rows too large to make dense."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from likewise.errors import LikewiseError
from likewise.rivals import LDA, Euclid, common
from likewise.rivals.common import distance_sides
from likewise.rivals.mahalanobis import squared_distances
from likewise.rivals.oasis import steps_of_block
from tests.processes import ran

numbers = st.floats(-100, 100)

SCORES = """
import numpy as np
from likewise.rivals import FRML, LMNN, OASIS
rng = np.random.default_rng(0)
y = np.arange(60) % 3
X = np.eye(3)[y] @ rng.standard_normal((3, 5)) + rng.standard_normal((60, 5))
models = (OASIS(n_steps=300), FRML(rank=2, n_iter=20), LMNN(rank=2, n_rounds=1))
scores = [model.fit(X, y).score(X, y) for model in models]
"""


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


@pytest.mark.second
def test_without_numba_the_same_python_gives_the_same_ranking():
    pytest.importorskip("numba")
    plain = ran("-c", "import sys; sys.modules['numba'] = None\n" + SCORES + "print(*scores)").stdout.split()
    compiled: dict[str, list[float]] = {}
    exec(SCORES, compiled)
    assert len(plain) == 3
    np.testing.assert_allclose(np.array(plain, float), compiled["scores"], atol=1e-6)


def test_a_compiled_function_keeps_its_name_and_takes_arrays():
    assert steps_of_block.__name__ == "steps_of_block"
    tau = steps_of_block(np.array([0.0, 0.0, 2.0]), np.ones((3, 3)), 0.25)
    assert tau == pytest.approx([0.25, 0.25, 0.0])
