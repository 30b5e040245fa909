"""Where the iterations start."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from tests.planted import planted, same_label

from likewise.learn.engines.memory import MemoryEngine
from likewise.learn.maths.labels import LabelTarget
from likewise.learn.maths.solvers import completed, fixed_start, label_factors, paper_start

X, Y = planted(60, 7, 3)


@pytest.mark.parametrize("margins", [(1.0, 0.0), (0.8, 0.2)])
def test_label_factors_are_those_of_the_target(margins):
    engine = MemoryEngine(X, Y, 3)
    whitening = engine.whiten(0.0)
    F, w = label_factors(engine, whitening, LabelTarget(*margins))
    U, target = X @ whitening.W, np.where(same_label(Y), *margins)
    np.testing.assert_allclose((F * w) @ F.T, U.T @ target @ U, atol=1e-10)


@pytest.mark.parametrize("rank", [2, 5, None])
def test_the_fixed_start_is_the_best_of_its_rank(rank):
    engine = MemoryEngine(X, Y, 3)
    whitening = engine.whiten(0.0)
    F, w = label_factors(engine, whitening, LabelTarget())
    A, B = fixed_start(F, w, whitening, rank, np.random.default_rng(0))
    K = (F * w) @ F.T
    np.testing.assert_allclose(B.T @ B, np.eye(B.shape[1]), atol=1e-12)
    P, s, Qt = np.linalg.svd(K)
    np.testing.assert_allclose(A @ B.T, (P[:, :rank] * s[:rank]) @ Qt[:rank], atol=1e-10)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_the_papers_start_is_some_rows_on_both_sides(make):
    engine = MemoryEngine(make(X), Y, 3)
    whitening = engine.whiten(0.0)
    A, B = paper_start(engine, whitening, 3, np.random.default_rng(0))
    chosen = np.sort(np.random.default_rng(0).choice(60, 3, replace=False))
    rows = X[np.argsort(Y, kind="stable")][chosen]
    np.testing.assert_allclose(whitening.W @ A @ B.T @ whitening.W.T, rows.T @ rows, atol=1e-10)
    A, B = paper_start(engine, whitening, None, np.random.default_rng(0))
    np.testing.assert_allclose(whitening.W @ A @ B.T @ whitening.W.T, np.eye(7), atol=1e-10)


def test_columns_are_added_at_random_and_orthonormal():
    whitening = MemoryEngine(X, Y, 3).whiten(0.0)
    B = np.linalg.qr(np.random.default_rng(1).standard_normal((7, 2)))[0]
    more = completed(B, whitening, 5, np.random.default_rng(0))
    np.testing.assert_array_equal(more[:, :2], B)
    np.testing.assert_allclose(more.T @ more, np.eye(5), atol=1e-12)
    assert completed(B, whitening, 2, np.random.default_rng(0)) is B
