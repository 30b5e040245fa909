"""The anchored map is what the page says: gradient, closed forms, sampling."""

from __future__ import annotations

import numpy as np
import pytest
from tests.planted import planted

from likewise.core import anchoring
from likewise.core.anchored_preparing import Data, Preparation, Setting
from likewise.core.anchoring import adapt, fixed_target, labelled_rows
from likewise.core.kernels import Features, basis, mean_square_distance, unit_rows


def prepared(n=80, d=12, c=4, seed=0, n_landmarks=None, weights=None):
    X, y = planted(n, d, c, seed)
    data = Data(unit_rows(X), y, c, weights)
    return Preparation(40, n_landmarks, 0)(data, 0.0)


def clamped_loss(rows, L, v, q):
    """½ q² Σ v_i w_ij (clamp(c_ij) - c_ij)², by brute force; v and q are held fixed."""
    Z = rows.F @ L
    z = Z / np.linalg.norm(Z, axis=1, keepdims=True)
    c = z @ z.T
    same = rows.codes[:, None] == rows.codes[None, :]
    w = np.where(same, 1 / rows.size[rows.codes][:, None], rows.n_classes / len(Z))
    y = np.where(same, np.maximum(c, 0.9), np.minimum(c, 0.3))
    return 0.5 * q**2 * np.sum(v[:, None] * w * (y - c) ** 2)


@pytest.mark.parametrize("confidence", [0.0, 0.5])
def test_the_push_is_minus_the_gradient_of_the_clamped_loss(confidence, monkeypatch):
    monkeypatch.setattr(anchoring, "LARGEST_PUSH", np.inf)
    rows = prepared().rows
    rng = np.random.default_rng(0)
    L = rng.standard_normal((rows.F.shape[1], 3))
    Z = rows.F @ L
    z = Z / np.linalg.norm(Z, axis=1, keepdims=True)
    v, q = anchoring._confidence(z, rows, confidence), np.sqrt(np.mean(np.sum(Z**2, axis=1)))
    push = anchoring._push(rows, L, confidence)
    for _ in range(5):
        step = 1e-6 * rng.standard_normal(L.shape)
        rise = clamped_loss(rows, L + step, v, q) - clamped_loss(rows, L - step, v, q)
        assert rise / 2 == pytest.approx(-np.sum(push * step), rel=1e-5)


def test_without_pull_the_map_is_class_balanced_ridge_regression():
    fitted = prepared()
    rows = fitted.rows
    T = np.eye(4)[rows.codes] / np.sqrt(rows.size)
    ridge = 0.2 * rows.unit * np.eye(len(rows.g))
    Z = rows.F @ np.linalg.solve(rows.F.T @ rows.F + ridge, rows.F.T @ T)
    ours = rows.F @ fitted.map(Setting(ridge=0.2))
    cosine = lambda M: (M @ M.T) / np.sqrt(np.outer(np.sum(M**2, 1), np.sum(M**2, 1)))  # noqa: E731
    np.testing.assert_allclose(cosine(ours), cosine(Z), atol=1e-10)


def test_the_class_target_has_rows_of_length_one_on_average():
    rows = prepared().rows
    for lda in (False, True):
        FP = fixed_target(rows, 0.1, lda)
        P = np.linalg.lstsq(rows.F.T, FP, rcond=None)[0]  # the part of P₀ within reach of the rows
        assert FP.shape[1] == 3
        assert np.sqrt(np.mean(np.sum(P**2, axis=1))) <= 1 + 1e-9


def test_adapting_lowers_what_it_adapts_to():
    """The objective of the page: clamped loss plus the ridge that anchors the map."""
    rows = prepared().rows
    target = fixed_target(rows, 0.1, False)
    start, end = adapt(rows, target, 0.1, 0.0, 0.0), adapt(rows, target, 0.1, 1.0, 0.0)
    q = np.sqrt(np.mean(np.sum((rows.F @ start) ** 2, axis=1)))
    metric = (rows.g + 0.1 * rows.unit)[:, None]
    objective = [clamped_loss(rows, L, np.ones(80), q) + 0.5 * np.sum(metric * (L - start) ** 2) for L in (start, end)]
    assert objective[1] < objective[0]


def test_columns_that_are_all_the_rows_change_nothing_and_few_change_little():
    every, all_drawn, few = (prepared(n=400, n_landmarks=m).rows for m in (None, 400, 200))
    L = np.random.default_rng(0).standard_normal((every.F.shape[1], 3))
    exact = anchoring._push(every, L, 0.0)
    np.testing.assert_allclose(anchoring._push(all_drawn, L, 0.0), exact, atol=1e-12)
    sampled = anchoring._push(few, L, 0.0)
    assert np.sum(sampled * exact) > 0.9 * np.linalg.norm(sampled) * np.linalg.norm(exact)


def test_weights_mean_repetition():
    X, y = planted(60, 8, 4)
    weights = np.random.default_rng(0).integers(1, 4, 60)
    X = unit_rows(X)
    weighted = Preparation(40, None, 0)(Data(X, y, 4, weights.astype(float)), 0.0)
    repeated = Preparation(40, None, 0)(Data(X.repeat(weights, axis=0), y.repeat(weights), 4, None), 0.0)
    setting = Setting(pull=1.0, confidence=0.5)
    one, two = (f.basis.rows(X) @ f.map(setting) for f in (weighted, repeated))
    np.testing.assert_allclose(one @ one.T, two @ two.T, atol=1e-9)


@pytest.mark.parametrize("shape", [(60, 12), (12, 60)])
def test_the_basis_diagonalises_the_centred_gram_matrix(shape):
    X = unit_rows(np.random.default_rng(0).standard_normal(shape))
    found = basis(X, None, None)
    F = found.rows(X)
    np.testing.assert_allclose(F.T @ F, np.diag(found.g), atol=1e-10)
    np.testing.assert_allclose(F @ F.T, (X - X.mean(0)) @ (X - X.mean(0)).T, atol=1e-8)


def test_with_every_row_a_landmark_the_kernel_features_have_the_kernel_as_inner_product():
    X = unit_rows(np.random.default_rng(0).standard_normal((40, 6)))
    features = Features(X, 0.7)
    K = features(X)
    distances = np.sum((X[:, None] - X[None]) ** 2, axis=2)
    np.testing.assert_allclose(K, np.exp(-0.7 * distances), atol=1e-12)
    F = basis(K, None, features.metric()).rows(K)
    H = np.eye(40) - 1 / 40
    np.testing.assert_allclose(F @ F.T, H @ K @ H, atol=1e-4)


def test_the_mean_square_distance_needs_no_pairs():
    X = np.random.default_rng(0).standard_normal((40, 6))
    assert mean_square_distance(X, None) == pytest.approx(np.mean(np.sum((X[:, None] - X[None]) ** 2, axis=2)))


def test_labelled_rows_are_sorted_and_keep_their_weights():
    codes, weights = np.array([2, 0, 1, 0]), np.array([1.0, 2.0, 3.0, 4.0])
    rows = labelled_rows(np.eye(4), np.ones(4), 1.0, codes, 3, weights, None, np.random.default_rng(0))
    np.testing.assert_array_equal(rows.codes, [0, 0, 1, 2])
    np.testing.assert_array_equal(rows.weights, [2, 4, 3, 1])
    np.testing.assert_array_equal(rows.size, [6, 3, 1])
