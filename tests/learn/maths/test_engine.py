"""Rows in memory and sums over blocks of rows: against dense formulae, however rows are divided."""

import numpy as np
import pytest
import scipy.sparse as sp
from tests.planted import planted

from likewise.learn.maths.engine import (
    ClassSums,
    GramSum,
    MemoryEngine,
    ProjectedGram,
    RowBlock,
    block_sums,
    labelled_block,
)
from likewise.learn.maths.scatter import whiten
from likewise.utils.threads import added

X, Y = planted(70, 6, 4)
W = np.random.default_rng(0).integers(0, 3, 70).astype(float)


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


def test_it_whitens_its_rows():
    expected, whitening = whiten(X, None, 0.3), MemoryEngine(X, Y, 4).whiten(0.3)
    np.testing.assert_allclose(whitening.W, expected.W)
    np.testing.assert_allclose(whitening.shrinkage, expected.shrinkage)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_sums_over_a_block_are_the_dense_formulae(make):
    dense = labelled_block(X, Y, W, np.dtype(float))
    assert dense.codes.tolist() == sorted(Y[W > 0].tolist())
    block = RowBlock(make(dense.rows), dense.codes, dense.weights)
    np.testing.assert_allclose(block_sums(GramSum(), block)[0], (X * W[:, None]).T @ X, atol=1e-12)
    M = np.random.default_rng(1).standard_normal((6, 2))
    np.testing.assert_allclose(block_sums(ProjectedGram(M), block)[0], (X @ M * W[:, None]).T @ X @ M, atol=1e-12)
    sums = np.stack([(X * W[:, None])[c == Y].sum(axis=0) for c in range(4)])
    np.testing.assert_allclose(block_sums(ClassSums(4), block)[0], sums, atol=1e-12)


def test_parts_are_added_in_double_precision():
    parts = [(np.float32(1e8), np.ones(2, np.float32)), (np.float32(1), np.ones(2, np.float32))]
    total, ones = added(parts)
    assert (float(total), ones.tolist()) == (1e8 + 1, [2.0, 2.0])
