"""Class sums, against a loop."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from likewise.core.class_sums import class_sums


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("weighted", [True, False])
def test_class_sums_are_those_of_a_loop(make, weighted):
    rng = np.random.default_rng(0)
    V, codes = rng.standard_normal((30, 4)).astype(np.float32), rng.integers(0, 5, 30)
    weights = rng.random(30) if weighted else None
    expected = np.zeros((7, 4))
    for row, c, w in zip(V.astype(float), codes, np.ones(30) if weights is None else weights, strict=True):
        expected[c] += w * row
    sums = class_sums(make(V), codes, weights, 7)
    assert (sums.dtype, sums.shape) == (np.float64, (7, 4))
    np.testing.assert_allclose(sums, expected, atol=1e-12)
