"""Several labels per item, as tiles of targets."""

from __future__ import annotations

import re

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from likewise.errors import LikewiseError
from likewise.rows.shared_labels import SharedLabels


@given(st.integers(1, 12), st.integers(1, 5), st.integers(0, 10**6))
def test_a_tile_is_that_of_the_sets_of_labels(n, c, seed):
    Z = np.random.default_rng(seed).random((n, c)) < 0.4
    Z[0, 0] = True
    sets = [set(np.flatnonzero(row)) for row in Z]
    shared = [[float(bool(a & b)) for b in sets] for a in sets]
    jaccard = [[len(a & b) / len(a | b) if a | b else 0.0 for b in sets] for a in sets]
    everything = slice(0, n), slice(0, n)
    np.testing.assert_array_equal(SharedLabels(Z).tile(*everything).toarray(), shared)
    np.testing.assert_allclose(SharedLabels(sp.csr_matrix(Z), "jaccard").tile(*everything).toarray(), jaccard)
    part = SharedLabels(Z, "jaccard").tile(slice(n // 2, n), slice(0, n // 2 + 1)).toarray()
    np.testing.assert_allclose(part, np.array(jaccard)[n // 2 :, : n // 2 + 1])


def test_one_label_a_row_is_recognised():
    assert SharedLabels([[0, 1], [1, 0], [0, 0]]).single().tolist() == [1, 0, -1]
    assert SharedLabels([[1, 1], [1, 0]]).single() is None


@pytest.mark.parametrize(
    ("Z", "message"),
    [
        (np.array([[0, 2], [1, 0]]), "y is a matrix with the value 2: expected an indicator of zeros and ones"),
        (np.zeros((3, 2)), "y is an indicator of zeros: no item has a label"),
        (np.array([["a", "b"]]), "expected labels, or an indicator (n, c)"),
    ],
)
def test_what_is_no_indicator_gets_a_sentence(Z, message):
    with pytest.raises(LikewiseError, match=re.escape(message)):
        SharedLabels(Z)
    with pytest.raises(LikewiseError, match="grade='dice': expected 'jaccard' or None"):
        SharedLabels([[1]], "dice")
