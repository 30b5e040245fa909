"""The iterations, the loop around them, where they start and their result."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import scipy.sparse as sp
from tests.planted import planted, same_label

from likewise.learn.maths.engine import MemoryEngine
from likewise.learn.maths.labels import LabelTarget
from likewise.learn.maths.solvers import (
    Factors,
    Iterate,
    Result,
    Solution,
    balanced,
    completed,
    fixed_start,
    label_factors,
    paper_start,
    run,
    squares_of_target,
    turn,
)  # fmt: skip


def test_turning_the_factors_does_not_change_the_matrix():
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((9, 4)), np.linalg.qr(rng.standard_normal((9, 4)))[0]
    A2, B2 = turn(A, B)
    np.testing.assert_allclose(A2 @ B2.T, (A @ B.T).T, atol=1e-12)
    np.testing.assert_allclose(B2.T @ B2, np.eye(4), atol=1e-12)


def test_balanced_factors_share_the_scale():
    rng = np.random.default_rng(0)
    A, B = 100 * rng.standard_normal((9, 4)), np.linalg.qr(rng.standard_normal((9, 4)))[0]
    L, R = balanced(A, B)
    np.testing.assert_allclose(L @ R.T, A @ B.T, atol=1e-10)
    np.testing.assert_allclose(np.linalg.norm(L, axis=0), np.linalg.norm(R, axis=0))


def _iterates(objectives: list[float]) -> Iterator[Iterate]:
    for t, objective in enumerate(objectives, start=1):
        yield Iterate(np.full((2, 1), float(t)), np.ones((2, 1)), objective)


START = Result(Factors(np.zeros((2, 1)), np.ones((2, 1))))


def test_a_run_takes_so_many_iterations_and_keeps_the_last() -> None:
    seen: list[int] = []
    result = run(
        _iterates([8.0, 4.0, 2.0]), START, 2, n_pairs=4.0, on_iteration=lambda result: seen.append(result.n_iter)
    )
    assert (result.n_iter, [entry["loss"] for entry in result.history], seen) == (2, [2.0, 1.0], [1, 2])
    assert result.factors.A[0, 0] == 2.0
    assert not result.interrupted
    assert run(_iterates([8.0]), START, 0) is START


def test_a_run_stops_where_the_loss_hardly_falls_and_stays_stopped() -> None:
    result = run(_iterates([8.0, 4.0, 3.9, 3.8]), START, 9, tol=0.1)
    assert result.n_iter == 3
    again = run(_iterates([3.8]), result, 9, tol=0.1)
    assert again == result
    assert run(_iterates([3.8]), result, 4).n_iter == 4


def test_ctrl_c_ends_a_run_after_the_last_full_iteration() -> None:
    def interrupted() -> Iterator[Iterate]:
        yield from _iterates([8.0])
        raise KeyboardInterrupt

    result = run(interrupted(), START, 9)
    assert (result.n_iter, result.interrupted) == (1, True)


def test_a_solution_has_two_sides() -> None:
    rng = np.random.default_rng(0)
    L, R = rng.standard_normal((5, 2)), rng.standard_normal((4, 2))
    solution = Solution(L, R, 2, 1.0, START)
    query, gallery = solution.components()
    np.testing.assert_allclose(query.T @ gallery, L @ R.T)
    assert (np.take_along_axis(gallery, np.abs(gallery).argmax(axis=1)[:, None], axis=1) > 0).all()


def test_squares_of_the_target_need_the_sizes_of_classes_alone():
    X, y = planted(50, 4, 3)
    w = np.random.default_rng(0).integers(0, 3, 50).astype(float)
    Y = np.where(same_label(y), 0.9, 0.2) * np.sqrt(np.outer(w, w))
    squares = squares_of_target(MemoryEngine(X, y, 3, w), LabelTarget(0.9, 0.2))
    assert squares == pytest.approx(np.sum(Y**2))


# -- Where the iterations start ----------------------------------------------------------------------------------------

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
