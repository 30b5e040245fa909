"""The anchored map is what the page says: gradient, closed forms, sampling; kernel ridge that of scikit-learn."""

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import KernelCenterer, normalize
from tests.planted import planted

from likewise.learn.maths import regressions
from likewise.learn.maths.engine import MemoryEngine
from likewise.learn.maths.kernels import UnitRows
from likewise.learn.maths.regressions import (
    Clamp,
    ExactKernel,
    Images,
    LandmarkKernel,
    RegressionFactory,
    adapt,
    class_target,
    cosine_clamp,
    fixed_target,
)
from likewise.learn.maths.setting import OutputHead, Setting


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
    monkeypatch.setattr(regressions, "LARGEST_STEP", np.inf)
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


# -- Kernel ridge at full resolution: against scikit-learn, by weights, left-out images, and some landmarks ------------


RIDGE = Setting(ridge=0.05)


def rows(n=120, d=12, c=4, weights=None, dtype=np.float64):
    X, y = planted(n, d, c, 0)
    return UnitRows(MemoryEngine(X.astype(dtype), y, c, weights))


def cosines(kernel, X):
    Z = normalize(kernel.encode(X) @ kernel.learn(RIDGE).L)
    return Z @ Z.T


def test_the_class_target_is_one_hot_over_the_root_of_the_size_without_its_constant_direction():
    size = np.array([3.0, 5.0, 2.0])
    codes = np.repeat(np.arange(3), size.astype(int))
    P = np.eye(3)[codes] / np.sqrt(size[codes])[:, None]
    P -= P.mean(axis=0)
    ours = class_target(size)[codes]
    assert np.allclose(ours.sum(axis=0), 0)
    assert np.isclose(np.mean(np.sum(ours**2, axis=1)), 1)
    scale = np.sum(P**2) / len(codes)
    assert np.allclose(ours @ ours.T, P @ P.T / scale)


def test_a_class_without_rows_has_no_target():
    assert np.isfinite(class_target(np.array([3.0, 0.0, 2.0]))).all()


def test_it_is_scikit_learns_kernel_ridge_on_a_centred_kernel():
    unit = rows()
    kernel = ExactKernel(unit, 2.0)
    X, new = kernel.features.landmarks, normalize(np.random.default_rng(1).standard_normal((30, 12)))
    centre = KernelCenterer()
    K = centre.fit_transform(rbf_kernel(X, X, gamma=2.0 / unit.mean_square_distance))
    theirs = KernelRidge(alpha=RIDGE.ridge * np.trace(K) / len(K), kernel="precomputed").fit(K, kernel.P)
    ours = kernel.encode(new) @ kernel.learn(RIDGE).L
    assert np.allclose(ours, theirs.predict(centre.transform(rbf_kernel(new, X, gamma=kernel.features.gamma))))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_images_of_the_training_rows_need_no_product(dtype):
    kernel = ExactKernel(rows(dtype=dtype), 2.0)
    learned = kernel.learn(RIDGE)
    by_product = kernel.encode(kernel.features.landmarks) @ learned.L
    assert np.allclose(learned.images(), by_product, atol=1e-9 if dtype == np.float64 else 1e-4)
    assert np.isclose(learned.rms, np.sqrt(np.mean(np.sum(by_product**2, axis=1))), rtol=1e-4)
    assert learned.L.dtype == dtype


def test_a_weight_counts_as_repetition():
    weights = np.random.default_rng(0).integers(0, 4, 120).astype(float)
    X, y = planted(120, 12, 4, 0)
    again = np.repeat(np.arange(120), weights.astype(int))
    weighted = ExactKernel(UnitRows(MemoryEngine(X, y, 4, weights)), 2.0)
    repeated = ExactKernel(UnitRows(MemoryEngine(X[again], y[again], 4)), 2.0)
    new = normalize(np.random.default_rng(1).standard_normal((30, 12)))
    assert np.allclose(cosines(weighted, new), cosines(repeated, new), atol=1e-9)
    assert np.isclose(weighted.learn(RIDGE).rms, repeated.learn(RIDGE).rms)


def test_images_left_out_are_those_of_a_fit_without_the_row():
    """With K, its centre, the target and λ held fixed: the row's own equation is struck out."""
    kernel = ExactKernel(rows(n=40), 2.0)
    left_out = kernel.left_out(*kernel.learn(RIDGE).class_means.args)
    K = kernel.encode(kernel.features.landmarks)
    K -= K.mean(axis=1, keepdims=True)
    ridge = RIDGE.ridge * np.trace(K) / 40
    for i in (0, 7, 39):
        others = np.delete(np.arange(40), i)
        alpha = np.linalg.solve(K[np.ix_(others, others)] + ridge * np.eye(39), kernel.P[others])
        assert np.allclose(left_out[i], K[i, others] @ alpha, atol=1e-8)


def test_single_precision_survives_rows_that_are_all_but_equal():
    """The direction that centring takes out of K comes back as rounding, divided by λ, unless it is taken out again."""
    X, y = planted(600, 30, 5, 0)
    X = np.vstack([X, X[:300] + 1e-6])
    y = np.concatenate([y, y[:300]])
    new, _ = planted(200, 30, 5, 1)
    both = [cosines(ExactKernel(UnitRows(MemoryEngine(X.astype(t), y, 5)), 2.0), normalize(new)) for t in (float, "f4")]
    assert np.allclose(*both, atol=0.01)


def test_all_rows_as_landmarks_are_the_exact_kernel():
    unit = rows()
    exact = ExactKernel(unit, 2.0)
    some = LandmarkKernel(unit, unit.kernel(2.0, 120, np.random.default_rng(0)))
    new = normalize(np.random.default_rng(1).standard_normal((30, 12)))
    assert np.allclose(cosines(exact, new), cosines(some, new), atol=1e-4)  # the landmarks' kernel has 1e-6 added
    learned = some.learn(RIDGE)
    assert np.isclose(learned.rms, exact.learn(RIDGE).rms, rtol=0.01)
    images = learned.images()
    means = np.array([normalize(images[unit.engine.codes == c]).mean(axis=0) for c in range(4)])
    assert np.allclose(learned.class_means(OutputHead()), means)


def test_the_last_map_may_overwrite_the_kernel():
    unit = rows()
    for kernel in (ExactKernel(unit, 2.0), LandmarkKernel(unit, unit.kernel(2.0, 60, np.random.default_rng(0)))):
        first, second = kernel.learn(RIDGE), kernel.learn(RIDGE)
        assert np.array_equal(first.L, second.L)
        assert np.allclose(kernel.learn(RIDGE, last=True).L, first.L)


def test_memory_decides_between_all_rows_and_some():
    unit = rows()
    assert isinstance(RegressionFactory(memory=4 * 120 * 120)(unit, 2.0), ExactKernel)
    few = RegressionFactory(memory=4 * 119 * 119)(unit, 2.0)
    assert isinstance(few, LandmarkKernel)
    assert len(few.features.landmarks) == int(np.sqrt(4 * 119 * 119 / 40))


def test_a_kernel_that_fits_in_single_precision_alone_is_computed_in_it():
    kernel = RegressionFactory(memory=4 * 120 * 120)(rows(), 2.0)
    assert kernel._K.dtype == np.float32
    assert kernel.features.landmarks.dtype == np.float64
