"""The anchored map is what the page says: gradient, closed forms, sampling."""

from __future__ import annotations

import numpy as np
import pytest
from tests.planted import planted

from likewise.learn.maths import anchoring
from likewise.learn.maths.anchoring import Clamp, Images, adapt, cosine_clamp, fixed_target
from likewise.learn.maths.engine import MemoryEngine
from likewise.learn.maths.kernel_ridge import RegressionFactory
from likewise.learn.maths.kernels import UnitRows


def prepared(n=80, d=12, c=4, seed=0, n_anchors=None, weights=None):
    X, y = planted(n, d, c, seed)
    return RegressionFactory(40, n_anchors, 0)(UnitRows(MemoryEngine(X, y, c, weights)), 0.0)


def rows_of(regression):
    """F of a regression in memory, sorted by label."""
    return regression.engine.rows(slice(None))


def clamped_loss(regression, L, v, q):
    """½ q² Σ v_i w_ij (clamp(c_ij) - c_ij)², by brute force; v and q are held fixed."""
    Z, codes = rows_of(regression) @ L, regression.engine.codes
    z = Z / np.linalg.norm(Z, axis=1, keepdims=True)
    c = z @ z.T
    same = codes[:, None] == codes[None, :]
    w = np.where(same, 1 / regression.size[codes][:, None], len(regression.size) / len(Z))
    y = np.where(same, np.maximum(c, 0.9), np.minimum(c, 0.3))
    return 0.5 * q**2 * np.sum(v[:, None] * w * (y - c) ** 2)


@pytest.mark.parametrize("trust", [0.0, 0.5])
def test_the_clamp_gradient_is_minus_the_gradient_of_the_clamped_loss(trust, monkeypatch):
    monkeypatch.setattr(anchoring, "LARGEST_STEP", np.inf)
    regression = prepared()
    rng = np.random.default_rng(0)
    F, codes = rows_of(regression), regression.engine.codes
    L = rng.standard_normal((F.shape[1], 3))
    Z = F @ L
    z = Z / np.linalg.norm(Z, axis=1, keepdims=True)
    means = np.stack([z[codes == c].mean(axis=0) for c in range(4)]) if trust else None
    q = np.sqrt(np.mean(np.sum(Z**2, axis=1)))
    v = Clamp(Images(None, L), means, trust, 0.05, q, cosine_clamp(regression.size)).trust(z, codes)
    gradient = regression.clamp_gradient(L, trust)
    for _ in range(5):
        step = 1e-6 * rng.standard_normal(L.shape)
        rise = clamped_loss(regression, L + step, v, q) - clamped_loss(regression, L - step, v, q)
        assert rise / 2 == pytest.approx(-np.sum(gradient * step), rel=1e-5)


def test_without_pull_the_map_is_class_balanced_ridge_regression():
    regression = prepared()
    F = rows_of(regression)
    T = np.eye(4)[regression.engine.codes] / np.sqrt(regression.size)
    ridge = 0.2 * regression.basis.unit * np.eye(F.shape[1])
    Z = F @ np.linalg.solve(F.T @ F + ridge, F.T @ T)
    ours = F @ adapt(regression, fixed_target(regression, 0.2, "one-hot"), 0.2, 0.0, 1.0)
    cosine = lambda M: (M @ M.T) / np.sqrt(np.outer(np.sum(M**2, 1), np.sum(M**2, 1)))  # noqa: E731
    np.testing.assert_allclose(cosine(ours), cosine(Z), atol=1e-10)


def test_the_class_target_has_rows_of_length_one_on_average():
    regression = prepared()
    for geometry in ("one-hot", "lda"):
        FP = fixed_target(regression, 0.1, geometry)
        P = np.linalg.lstsq(rows_of(regression).T, FP, rcond=None)[0]  # the part of P₀ within reach of the rows
        assert FP.shape[1] == 3
        assert np.sqrt(np.mean(np.sum(P**2, axis=1))) <= 1 + 1e-9


def test_adapting_lowers_what_it_adapts_to():
    """The objective of the page: clamped loss plus the ridge that anchors the map."""
    rows = prepared()
    target = fixed_target(rows, 0.1, "one-hot")
    start, end = adapt(rows, target, 0.1, 0.0, 0.0), adapt(rows, target, 0.1, 1.0, 0.0)
    q = np.sqrt(np.mean(np.sum((rows_of(rows) @ start) ** 2, axis=1)))
    metric = rows.divisor(0.1)
    objective = [clamped_loss(rows, L, np.ones(80), q) + 0.5 * np.sum(metric * (L - start) ** 2) for L in (start, end)]
    assert objective[1] < objective[0]


def test_columns_that_are_all_the_rows_change_nothing_and_few_change_little():
    every, all_drawn, few = (prepared(n=400, n_anchors=m) for m in (None, 400, 200))
    L = np.random.default_rng(0).standard_normal((rows_of(every).shape[1], 3))
    exact = every.clamp_gradient(L, 0.0)
    np.testing.assert_allclose(all_drawn.clamp_gradient(L, 0.0), exact, atol=1e-12)
    sampled = few.clamp_gradient(L, 0.0)
    assert np.sum(sampled * exact) > 0.9 * np.linalg.norm(sampled) * np.linalg.norm(exact)


def test_weights_mean_repetition():
    X, y = planted(60, 8, 4)
    weights = np.random.default_rng(0).integers(1, 4, 60)
    engines = (MemoryEngine(X, y, 4, weights.astype(float)), MemoryEngine(X.repeat(weights, 0), y.repeat(weights), 4))
    images = []
    for engine in engines:
        unit = UnitRows(engine)
        regression = RegressionFactory(40, None, 0)(unit, 0.0)
        L = adapt(regression, fixed_target(regression, 0.1, "one-hot"), 0.1, 1.0, 0.5)
        images.append(regression.basis(unit.scaling(X)) @ L)
    np.testing.assert_allclose(images[0] @ images[0].T, images[1] @ images[1].T, atol=1e-9)


def test_the_rms_length_of_the_images_needs_no_row():
    regression = prepared(weights=np.random.default_rng(0).integers(1, 4, 80).astype(float))
    L = np.random.default_rng(0).standard_normal((rows_of(regression).shape[1], 3))
    squares = np.sum((rows_of(regression) @ L) ** 2, axis=1)
    assert regression.rms(L) == pytest.approx(np.sqrt(np.average(squares, weights=regression.engine.weights)))
