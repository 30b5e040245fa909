from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from tests.planted import clamp, planted

from likewise import SLR
from likewise.learn.maths.engine import MemoryEngine
from likewise.learn.maths.labels import LabelTarget, draw_landmarks
from likewise.learn.maths.solvers import (
    AllPairs,
    GaussianSketch,
    LandmarkPairs,
    SampledPairs,
    fixed_start,
    label_factors,
    landmark_weights,
)


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


def test_landmarks_are_drawn_by_class_and_stand_for_the_whole_class():
    codes = np.repeat([0, 1, 2], [100, 10, 1])
    engine = MemoryEngine(np.eye(111), codes, 3)
    chosen = draw_landmarks(codes, 3, 22, np.random.default_rng(0))
    np.testing.assert_array_equal(np.bincount(codes[chosen]), [20, 2, 1])
    weights = landmark_weights(engine, chosen)
    np.testing.assert_allclose(np.bincount(codes[np.sort(chosen)], weights), [100, 10, 1])


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
