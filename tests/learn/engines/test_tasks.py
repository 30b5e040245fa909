"""Tasks over blocks: the same sums, however rows are divided."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from tests.planted import planted, same_label

from likewise.learn.engines.tasks import ClassSums, GramSum, ProjectedGram, block_sums, class_squares, labelled_block
from likewise.learn.maths.engine import RowBlock
from likewise.learn.maths.labels import LabelTarget
from likewise.utils.threads import added

X, Y = planted(50, 4, 3)
W = np.random.default_rng(0).integers(0, 3, 50).astype(float)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_sums_over_a_block_are_the_dense_formulae(make):
    dense = labelled_block(X, Y, W, np.dtype(float))
    assert dense.codes.tolist() == sorted(Y[W > 0].tolist())
    block = RowBlock(make(dense.rows), dense.codes, dense.weights)
    np.testing.assert_allclose(block_sums(GramSum(), block)[0], (X * W[:, None]).T @ X, atol=1e-12)
    M = np.random.default_rng(1).standard_normal((4, 2))
    np.testing.assert_allclose(block_sums(ProjectedGram(M), block)[0], (X @ M * W[:, None]).T @ X @ M, atol=1e-12)
    sums = np.stack([(X * W[:, None])[c == Y].sum(axis=0) for c in range(3)])
    np.testing.assert_allclose(block_sums(ClassSums(3), block)[0], sums, atol=1e-12)


def test_parts_are_added_in_double_precision():
    parts = [(np.float32(1e8), np.ones(2, np.float32)), (np.float32(1), np.ones(2, np.float32))]
    total, ones = added(parts)
    assert (float(total), ones.tolist()) == (1e8 + 1, [2.0, 2.0])


def test_squares_of_the_target_need_the_sizes_of_classes_alone():
    Y_target = np.where(same_label(Y), 0.9, 0.2) * np.sqrt(np.outer(W, W))
    assert class_squares(Y, W, 3, LabelTarget(0.9, 0.2)) == pytest.approx(np.sum(Y_target**2))
