"""The known answers of the mathematics. Every engine and every shortcut is held to them."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from tests.planted import algorithm_1, algorithm_3, hinge, planted, regress, same_label

from likewise import SLR
from likewise.learn.maths.engine import MemoryEngine
from likewise.learn.maths.labels import LabelTarget
from likewise.learn.maths.solvers import AllPairs, alternating, fixed_start, label_factors, paper_start, turn, whole

shapes = st.tuples(st.integers(12, 60), st.integers(2, 14), st.integers(2, 6), st.integers(0, 10**6))


def problem(X, y, alpha=0.0, adaptive=True, margins=(1.0, 0.0)):
    engine = MemoryEngine(X, np.asarray(y), int(y.max()) + 1)
    whitening = engine.whiten(alpha)
    return AllPairs(engine, whitening, LabelTarget(*margins, adaptive=adaptive))


# 1 ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("condition", [1e1, 1e2, 1e3])
def test_fixed_target_equals_one_hot_least_squares(condition):
    X, y = planted(200, 30, 7, condition=condition)
    C = np.linalg.pinv(X) @ np.eye(7)[y]
    M = SLR(rank=None, adaptive=False).fit(X, y).query_map()
    np.testing.assert_allclose(M, C @ C.T, atol=1e-10 * np.abs(C @ C.T).max())


@pytest.mark.parametrize("condition", [1e4, 1e5])
def test_accuracy_falls_with_the_condition_of_the_data_and_no_faster(condition):
    X, y = planted(200, 30, 7, condition=condition)
    C = np.linalg.pinv(X) @ np.eye(7)[y]
    M = SLR(rank=None, adaptive=False).fit(X, y).query_map()
    np.testing.assert_allclose(M, C @ C.T, atol=1e-14 * condition * np.abs(C @ C.T).max())


def test_single_precision_follows_double():
    X, y = planted(200, 30, 7)
    double, single = (SLR(rank=10, max_iter=5).fit(X.astype(t), y).similarity(X.astype(t)) for t in (float, np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, double, atol=1e-4)


# 2 ------------------------------------------------------------------------------------------------------------------


@given(shapes, st.sampled_from([(1.0, 0.0), (0.8, 0.2), (1.0, -0.5)]))
def test_the_hinge_loss_never_rises_for_the_whole_matrix(shape, margins):
    n, d, c, seed = shape
    X, y = planted(n, d, c, seed)
    p = problem(X, y, margins=margins)
    start = paper_start(p.engine, p.whitening, None, np.random.default_rng(0))
    losses = [it.objective for it, _ in zip(whole(p, *start), range(6), strict=False)]
    assert np.all(np.diff(losses) <= 1e-9 * max(losses) + 1e-14 * n**2)  # an interpolated target leaves rounding alone


@given(shapes, st.floats(0, 1), st.integers(1, 5))
def test_the_objective_never_rises_at_any_half_step_with_or_without_ridge(shape, alpha, rank):
    n, d, c, seed = shape
    X, y = planted(n, d, c, seed)
    p = problem(X, y, alpha)
    A, B = fixed_start(
        *label_factors(p.engine, p.whitening, p.target),
        p.whitening,
        min(rank, p.whitening.rank),
        np.random.default_rng(0),
    )
    losses = []
    for _ in range(8):
        step = p.step(A, B)
        losses.append(step.objective)
        A, B = turn(step.A, B)
    assert np.all(np.diff(losses) <= 1e-9 * max(losses) + 1e-14 * n**2)  # an interpolated target leaves rounding alone


def test_the_loss_of_the_history_is_the_hinge_loss_of_the_page():
    X, y = planted(60, 10, 4)
    first = SLR(rank=6, max_iter=1).fit(X, y)
    second = SLR(rank=6, max_iter=2).fit(X, y)
    assert second.history_[1]["loss"] == pytest.approx(hinge(first.query_map(), X, y) / 60**2, rel=1e-9)


# 3 ------------------------------------------------------------------------------------------------------------------


@given(shapes)
def test_a_low_rank_half_step_at_full_rank_equals_a_whole_step(shape):
    n, d, c, seed = shape
    X, y = planted(n, d, c, seed)
    p = problem(X, y)
    K, I = paper_start(p.engine, p.whitening, None, np.random.default_rng(0))
    A, B = turn(*turn(K, I))  # the same K by another pair of factors
    np.testing.assert_allclose(p.step(A, B).A @ B.T, p.step(K, I).A, atol=1e-8 * np.abs(K).max())


@pytest.mark.parametrize("rank", [5, 6, 9, 12])
def test_any_rank_from_the_number_of_classes_up_equals_the_whole_matrix_for_a_fixed_target(rank):
    X, y = planted(120, 12, 5)
    low = SLR(rank=rank, adaptive=False).fit(X, y).query_map()
    np.testing.assert_allclose(low, SLR(rank=None, adaptive=False).fit(X, y).query_map(), atol=1e-11)


def test_algorithm_1_gives_what_the_printed_algorithm_gives():
    X, y = planted(50, 8, 4)
    ours = SLR(rank=None, init="paper", max_iter=7).fit(X, y).query_map()
    np.testing.assert_allclose(ours, algorithm_1(X, y, np.eye(8), 7), atol=1e-9)


def test_algorithm_3_gives_what_the_printed_algorithm_gives():
    X, y = planted(50, 8, 4)
    p = problem(X, y)
    A, B = paper_start(p.engine, p.whitening, 3, np.random.default_rng(1))
    *_, last = (it for it, _ in zip(alternating(p, A, B), range(5), strict=False))
    W = p.whitening.W
    np.testing.assert_allclose(W @ last.A @ last.B.T @ W.T, algorithm_3(X, y, W @ A, W @ B, 5), atol=1e-8)


# 4 ------------------------------------------------------------------------------------------------------------------


def test_low_rank_with_a_fixed_target_converges_to_the_truncated_svd():
    X, y = planted(150, 20, 8)
    U = np.linalg.qr(X)[0]
    P, s, Qt = np.linalg.svd(U.T @ same_label(y) @ U)
    best = U @ (P[:, :4] * s[:4]) @ Qt[:4] @ U.T
    for model in (SLR(rank=4, adaptive=False), SLR(rank=4, adaptive=False, init="paper", max_iter=300, random_state=0)):
        np.testing.assert_allclose(model.fit(X, y).similarity(X), best, atol=1e-6)


# 5 ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rank", [None, 6])
@pytest.mark.parametrize("make", [sp.csr_matrix, sp.csr_array])
def test_sparse_rows_give_the_model_of_dense_rows(rank, make):
    X, y = planted(90, 12, 5)
    X[np.abs(X) < 1.0] = 0.0
    dense = SLR(rank=rank, max_iter=4).fit(X, y)
    sparse = SLR(rank=rank, max_iter=4).fit(make(X), y)
    np.testing.assert_allclose(sparse.query_map(), dense.query_map(), atol=1e-9)
    np.testing.assert_allclose(sparse.transform(make(X)), dense.transform(X), atol=1e-9)


@pytest.mark.parametrize("rank", [None, 6])
def test_the_order_of_the_rows_changes_rounding_only(rank):
    X, y = planted(90, 12, 5)
    order = np.random.default_rng(1).permutation(90)
    one, other = SLR(rank=rank).fit(X, y), SLR(rank=rank).fit(X[order], y[order])
    np.testing.assert_allclose(one.query_map(), other.query_map(), atol=1e-9)


@pytest.mark.parametrize("kwargs", [{"rank": None}, {"rank": 6}, {"rank": 6, "alpha": 0.3}, {"adaptive": False}])
@pytest.mark.parametrize("sparse", [False, True])
def test_a_weight_means_repetition(kwargs, sparse):
    X, y = planted(60, 8, 4)
    weights = np.random.default_rng(2).integers(0, 4, 60)
    make = sp.csr_array if sparse else np.asarray
    weighted = SLR(**kwargs).fit(make(X), y, sample_weight=weights)
    repeated = SLR(**kwargs).fit(make(X.repeat(weights, axis=0)), y.repeat(weights))
    np.testing.assert_allclose(weighted.query_map(), repeated.query_map(), atol=1e-9)
    np.testing.assert_allclose(
        [h["loss"] for h in weighted.history_], [h["loss"] for h in repeated.history_], rtol=1e-9
    )


# 6 ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [20, 30])
def test_with_full_row_rank_the_first_step_interpolates_and_adapting_changes_nothing(n):
    X, y = planted(n, 30, 4)
    adapted = SLR(rank=None).fit(X, y)
    fixed = SLR(rank=None, adaptive=False).fit(X, y)
    np.testing.assert_allclose(adapted.query_map(), fixed.query_map(), atol=1e-11)
    np.testing.assert_allclose(fixed.similarity(X), same_label(y), atol=1e-10)


# 7 ------------------------------------------------------------------------------------------------------------------


def test_with_labels_the_whole_matrix_stays_symmetric_and_may_be_indefinite():
    X, y = planted(80, 10, 4)
    M = SLR(rank=None, max_iter=20).fit(X, y).query_map()
    np.testing.assert_allclose(M, M.T, atol=1e-12)
    assert np.linalg.eigvalsh((M + M.T) / 2)[0] < 0


def test_a_low_rank_matrix_becomes_symmetric_as_it_converges():
    X, y = planted(80, 10, 4)
    early, late = (SLR(rank=3, max_iter=t).fit(X, y).query_map() for t in (1, 400))
    assert np.abs(late - late.T).max() < 0.05 * np.abs(early - early.T).max()


# 8 ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("init", ["fixed", "paper"])
def test_a_rank_above_the_number_of_classes_with_a_fixed_target_stays_stable(dtype, init):
    X, y = planted(120, 16, 3, dtype=dtype)
    model = SLR(rank=16, adaptive=False, init=init, max_iter=30).fit(X, y)
    np.testing.assert_allclose(model.similarity(X), X @ regress(X, same_label(y)) @ X.T, atol=2e-3)


def test_ridge_has_its_closed_form():
    X, y = planted(80, 10, 4)
    G = X.T @ X
    inverse = np.linalg.inv(G + 0.3 * np.trace(G) / 10 * np.eye(10))
    M = SLR(rank=None, adaptive=False, alpha=0.3).fit(X, y).query_map()
    np.testing.assert_allclose(M, inverse @ X.T @ same_label(y) @ X @ inverse, atol=1e-12)


@pytest.mark.parametrize("margins", [(1.0, 0.0), (0.8, 0.2)])
@pytest.mark.parametrize("compress", [None, "landmarks"])
def test_the_loss_of_a_fixed_target_is_the_distance_from_it(margins, compress):
    X, y = planted(60, 10, 4)
    kwargs = {"rank": 3, "adaptive": False, "init": "paper", "margins": margins, "random_state": 0}
    kwargs |= {"compress": compress, "compress_size": 60 if compress else None}
    first, second = (SLR(max_iter=t, **kwargs).fit(X, y) for t in (1, 2))
    Y = np.where(same_label(y), *margins)
    distance = np.sum((X @ first.query_map() @ X.T - Y) ** 2)
    assert second.history_[1]["loss"] == pytest.approx(distance / 60**2, rel=1e-9)


def test_the_objective_with_ridge_is_that_of_the_page():
    X, y = planted(60, 10, 4)
    M = SLR(rank=6, max_iter=1, alpha=0.3).fit(X, y).query_map()
    ridge = 0.3 * np.sum(X**2) / 10
    penalty = ridge * (np.sum((X @ M) ** 2) + np.sum((M @ X.T) ** 2)) + ridge**2 * np.sum(M**2)
    second = SLR(rank=6, max_iter=2, alpha=0.3).fit(X, y)
    assert second.history_[1]["loss"] == pytest.approx((hinge(M, X, y) + penalty) / 60**2, rel=1e-9)
