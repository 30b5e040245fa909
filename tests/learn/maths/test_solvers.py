"""The iterations, the loop around them, where they start, their result, and the sketches of their regressions."""

from collections.abc import Iterator

import numpy as np
import pytest
import scipy.sparse as sp
from tests.planted import clamp, planted, same_label

from likewise import SLR
from likewise.learn.maths.engine import MemoryEngine
from likewise.learn.maths.labels import LabelTarget, draw_landmarks
from likewise.learn.maths.solvers import (
    AllPairs,
    Factors,
    GaussianSketch,
    Iterate,
    LandmarkPairs,
    Result,
    SampledPairs,
    Solution,
    balanced,
    completed,
    fixed_start,
    label_factors,
    landmark_weights,
    paper_start,
    run,
    squares_of_target,
    turn,
)


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


# -- Part of the pairs -------------------------------------------------------------------------------------------------


def parts(X, y, rank, alpha=0.0):
    engine = MemoryEngine(X, y, int(y.max()) + 1)
    whitening, target, rng = engine.whiten(alpha), LabelTarget(), np.random.default_rng(0)
    factors = label_factors(engine, whitening, target)
    return engine, whitening, target, fixed_start(*factors, whitening, rank, rng)


@pytest.mark.parametrize("alpha", [0.0, 0.4])
@pytest.mark.parametrize("rank", [None, 4])
def test_landmarks_that_are_all_the_rows_give_the_exact_step(rank, alpha):
    X, y = planted(70, 9, 4)
    engine, whitening, target, (A, B) = parts(X, y, rank, alpha)
    exact = AllPairs(engine, whitening, target).step(A, B)
    sketched = LandmarkPairs(engine, whitening, target, 70, np.random.default_rng(0)).step(A, B)
    np.testing.assert_allclose(sketched.A, exact.A, atol=1e-10)
    assert sketched.objective == pytest.approx(exact.objective)


def test_a_landmark_step_is_the_weighted_least_squares_of_the_page():
    X, y = planted(70, 9, 4)
    engine, whitening, target, (A, B) = parts(X, y, 3)
    sketch = LandmarkPairs(engine, whitening, target, 30, np.random.default_rng(0))
    U = engine.project(whitening.W)
    chosen = np.sort(draw_landmarks(engine.codes, 4, 30, np.random.default_rng(0)))
    V, D = (U @ B)[chosen], np.diag(landmark_weights(engine, chosen))
    S = U @ A @ V.T
    same = engine.codes[:, None] == engine.codes[chosen][None, :]
    Y = np.where(same, np.maximum(S, 1), np.minimum(S, 0))
    np.testing.assert_allclose(sketch.step(A, B).A, U.T @ Y @ D @ V @ np.linalg.inv(V.T @ D @ V), atol=1e-10)


@pytest.mark.parametrize("size", [40, 6])
def test_a_sampled_step_is_the_papers_least_squares_on_the_sample(size):
    """Line 6 of Algorithm 3 in whitened coordinates; below the rank of X the sample is interpolated."""
    X, y = planted(70, 9, 4)
    engine, whitening, target, (A, B) = parts(X, y, 3)
    sketch = SampledPairs(engine, whitening, target, size, np.random.default_rng(5), both_sides=False)
    chosen = np.sort(np.random.default_rng(5).choice(70, size))
    U = engine.project(whitening.W)
    S = U[chosen] @ A @ (U @ B).T
    same = engine.codes[chosen][:, None] == engine.codes[None, :]
    Y = np.where(same, np.maximum(S, 1), np.minimum(S, 0))
    np.testing.assert_allclose(sketch.step(A, B).A, np.linalg.pinv(U[chosen]) @ Y @ (U @ B), atol=1e-8)


def test_a_sampled_step_of_the_whole_matrix_is_line_7_of_algorithm_2():
    X, y = planted(70, 9, 4)
    engine, whitening, target, (A, B) = parts(X, y, None)
    sketch = SampledPairs(engine, whitening, target, 40, np.random.default_rng(5), both_sides=True)
    rng = np.random.default_rng(5)
    rows, columns = np.sort(rng.choice(70, 40)), np.sort(rng.choice(70, 40))
    U = engine.project(whitening.W)
    S = U[rows] @ A @ U[columns].T
    same = engine.codes[rows][:, None] == engine.codes[columns][None, :]
    Y = np.where(same, np.maximum(S, 1), np.minimum(S, 0))
    expected = np.linalg.pinv(U[rows]) @ Y @ np.linalg.pinv(U[columns]).T
    np.testing.assert_allclose(sketch.step(A, B).A, expected, atol=1e-8)


@pytest.mark.parametrize("rank", [None, 3])
def test_a_gaussian_step_is_the_papers_least_squares_on_mixtures(rank):

    X, y = planted(70, 9, 4)
    engine, whitening, target, (A, B) = parts(X, y, rank)
    new = GaussianSketch(engine, whitening, target, 40, np.random.default_rng(5), rank is None).step(A, B).A
    rng = np.random.default_rng(5)
    U = engine.project(whitening.W)
    Y = clamp(U @ A @ (U @ B).T, engine.codes)
    if rank is None:
        S2 = rng.standard_normal((70, 40)) / np.sqrt(40)
        right = S2 @ np.linalg.pinv(S2.T @ U).T
    else:
        right = U @ B
    S1 = rng.standard_normal((70, 40)) / np.sqrt(40)
    np.testing.assert_allclose(new, np.linalg.pinv(S1.T @ U) @ S1.T @ Y @ right, atol=1e-9)


@pytest.mark.parametrize("rank", [None, 3])
def test_a_gaussian_step_has_the_ridge_and_the_weights_of_the_rows(rank):
    X, y = planted(70, 9, 4)
    weights = np.random.default_rng(1).integers(1, 4, 70).astype(float)
    engine = MemoryEngine(X, y, 4, weights)
    whitening, target, rng = engine.whiten(0.4), LabelTarget(), np.random.default_rng(5)
    A, B = fixed_start(*label_factors(engine, whitening, target), whitening, rank, np.random.default_rng(0))
    step = GaussianSketch(engine, whitening, target, 40, np.random.default_rng(5), rank is None).step(A, B)
    U, w, ridge = engine.project(whitening.W), engine.weights, np.diag(1 - whitening.shrinkage)
    Y = clamp(U @ A @ (U @ B).T, engine.codes)

    def drawn():
        S = rng.standard_normal((70, 40)) / np.sqrt(40) * np.sqrt(w)[:, None]
        return S, np.linalg.solve(U.T @ S @ S.T @ U + ridge, U.T @ S)

    if rank is None:
        S2, inverse = drawn()
        right = S2 @ inverse.T
    else:
        right = w[:, None] * (U @ B)
    S1, inverse = drawn()
    np.testing.assert_allclose(step.A, inverse @ S1.T @ Y @ right, atol=1e-9)
    assert step.objective == pytest.approx(AllPairs(engine, whitening, target).step(A, B).objective)


@pytest.mark.parametrize("compress", ["gaussian", "sample", "landmarks"])
@pytest.mark.parametrize("rank", [None, 20])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_compressed_models_rank_nearly_as_well(compress, rank, dtype, digits):
    X, y, X_test, y_test = digits
    X, X_test = X.astype(dtype), X_test.astype(dtype)
    model = SLR(rank, compress=compress, compress_size=600, max_iter=3, random_state=0).fit(X, y)
    exact = SLR(rank, max_iter=3).fit(X, y)
    assert model.score(X_test, y_test) > exact.score(X_test, y_test) - 0.04


@pytest.mark.parametrize("compress", ["gaussian", "sample", "landmarks"])
def test_compression_takes_weights_and_sparse_rows(compress):
    X, y = planted(90, 9, 4)
    weights = np.random.default_rng(0).integers(1, 4, 90)
    model = SLR(4, compress=compress, compress_size=60, random_state=0).fit(sp.csr_array(X), y, sample_weight=weights)
    assert model.score(X, y) > SLR(4, adaptive=False).fit(X, y).score(X, y) - 0.1


def test_landmarks_are_drawn_by_class_and_represent_the_whole_class():
    codes = np.repeat([0, 1, 2], [100, 10, 1])
    engine = MemoryEngine(np.eye(111), codes, 3)
    chosen = draw_landmarks(codes, 3, 22, np.random.default_rng(0))
    np.testing.assert_array_equal(np.bincount(codes[chosen]), [20, 2, 1])
    weights = landmark_weights(engine, chosen)
    np.testing.assert_allclose(np.bincount(codes[np.sort(chosen)], weights), [100, 10, 1])
    w = np.random.default_rng(1).integers(1, 4, 111).astype(float)
    weights = landmark_weights(MemoryEngine(np.eye(111), codes, 3, w), chosen[::-1])
    np.testing.assert_allclose(np.bincount(codes[np.sort(chosen)], weights), np.bincount(codes, w))
    assert all(np.ptp((weights / w[np.sort(chosen)])[codes[np.sort(chosen)] == c]) < 1e-12 for c in range(3))


def test_a_sample_below_the_rank_of_the_data_is_warned_about():
    X, y = planted(90, 20, 4)
    with pytest.warns(UserWarning, match="compress_size=10 is below the rank of X, 20"):
        SLR(4, compress="sample", compress_size=10, max_iter=1).fit(X, y)


def test_one_seed_gives_one_model():
    X, y = planted(90, 20, 4)
    one, two, other = (
        SLR(4, compress="sample", compress_size=50, random_state=seed).fit(X, y).query_map() for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(one, two)
    assert np.abs(one - other).max() > 1e-6
