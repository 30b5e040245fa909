"""The family of maps for unseen classes: held to its definition by full covariances, with few rows and with many."""

import numpy as np
import pytest
import scipy.linalg
from tests.planted import planted

from likewise.learn.maths.engine import MemoryEngine
from likewise.learn.maths.kernels import UnitRows
from likewise.learn.maths.unseen import ShrinkageMap

SETTINGS = [(1.0, 1.0, 0.0), (0.3, 1.0, 0.0), (0.03, 0.3, 0.75), (0.5, 10.0, 0.5)]
SHAPES = [(90, 8, 5), (40, 100, 6), (60, 12, 30)]  # many rows, few rows, more classes than columns


def unit_of(X: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None) -> UnitRows:
    return UnitRows(MemoryEngine(X, y, int(y.max()) + 1, weights))


def similarities(T: np.ndarray, rows: np.ndarray) -> np.ndarray:
    Z = rows @ T
    Z /= np.linalg.norm(Z, axis=1, keepdims=True)
    return np.asarray(Z @ Z.T)


def by_definition(unit: UnitRows, a: float, h: float, p: float) -> np.ndarray:
    """The map as the module describes it, from S_w and S_b of all d x d."""
    X, y = unit.engine.X, unit.engine.row_codes
    means = np.stack([X[y == k].mean(axis=0) for k in range(y.max() + 1)])[y]
    S_w, S_b = (R.T @ R / len(y) for R in (X - means, means - X.mean(axis=0)))
    w, V = np.linalg.eigh(S_w)
    T = V / np.sqrt((1 - a) * np.maximum(w, 0) + a * w.mean())
    b, Q = scipy.linalg.eigh(T.T @ S_b @ T)
    raised = np.maximum(b, 0) + h * b.mean()
    return np.asarray(T @ Q * (raised / (raised + 1)) ** p)


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_map_is_that_of_the_full_covariances_for_any_row(shape, setting):
    unit, rows = unit_of(*planted(*shape)), np.random.default_rng(1).standard_normal((20, shape[1]))
    ours = ShrinkageMap(*setting).learned_from(unit)
    np.testing.assert_allclose(similarities(ours, rows), similarities(by_definition(unit, *setting), rows), atol=1e-8)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_plain_cosine_is_a_multiple_of_the_identity(shape):
    T = ShrinkageMap().learned_from(unit_of(*planted(*shape)))
    np.testing.assert_allclose(T, T[0, 0] * np.eye(shape[1]), atol=1e-12 * T[0, 0])


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("shape", [(40, 100, 6), (40, 8, 4)])
def test_a_row_of_weight_two_counts_as_two_rows(shape, setting):
    X, y = planted(*shape)
    weights = np.where(np.arange(len(y)) < 20, 2.0, 1.0)
    weighted = ShrinkageMap(*setting).learned_from(unit_of(X, y, weights))
    repeated = ShrinkageMap(*setting).learned_from(unit_of(np.vstack([X[:20], X]), np.concatenate([y[:20], y])))
    np.testing.assert_allclose(weighted, repeated, rtol=1e-6, atol=1e-9 * abs(weighted).max())


@pytest.mark.parametrize(("n", "classes"), [(12, 12), (12, 1)])
def test_without_variance_within_or_between_classes_the_map_is_finite(n, classes):
    X = np.random.default_rng(0).standard_normal((n, 5))
    T = ShrinkageMap(0.5, 1.0, 0.5).learned_from(unit_of(X, np.arange(n) % classes))
    assert np.isfinite(T).all()
    assert np.linalg.matrix_rank(T) == 5
