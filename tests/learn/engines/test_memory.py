"""The memory engine: its sums against dense formulae."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from tests.planted import planted

from likewise.learn.engines.memory import MemoryEngine
from likewise.learn.maths.whitening import whiten

X, Y = planted(70, 6, 4)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("weighted", [True, False])
def test_class_sums_and_projections_are_in_the_order_they_should_be(make, weighted):
    weights = np.random.default_rng(0).random(70) if weighted else None
    engine = MemoryEngine(make(X), Y, 4, weights)
    w, L = np.ones(70) if weights is None else weights, np.random.default_rng(1).standard_normal((6, 3))
    expected = np.stack([(w[:, None] * X @ L)[c == Y].sum(axis=0) for c in range(4)])
    np.testing.assert_allclose(engine.class_sums(L), expected, atol=1e-12)
    np.testing.assert_allclose(engine.project(L), (X @ L)[engine.order], atol=1e-12)
    np.testing.assert_array_equal(engine.row_codes, Y)


@pytest.mark.parametrize("width", [None, 4])
def test_it_whitens_itself_in_all_directions_or_some(width):
    expected = whiten(X, None, 0.3)
    found = MemoryEngine(X, Y, 4).whiten(0.3, width)
    np.testing.assert_allclose(found.W, expected.W[:, :width])
    np.testing.assert_allclose(found.shrinkage, expected.shrinkage[:width])
