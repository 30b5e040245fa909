"""Heads: the raw part next to the learned one, and where its directions come from."""

import numpy as np
import pytest
from sklearn.preprocessing import normalize
from tests.planted import planted

from likewise.learn.maths.engine import MemoryEngine
from likewise.learn.maths.kernels import UnitRows
from likewise.learn.maths.regressions import RegressionFactory
from likewise.learn.maths.setting import OutputHead, joined

rng = np.random.default_rng(0)
Z, X = rng.standard_normal((20, 3)), rng.standard_normal((20, 8))


@pytest.mark.parametrize("share", [0.8, 0.0, 1.0])
def test_the_score_is_a_mixture_of_the_learned_cosine_and_that_of_the_base(share):
    z, x = normalize(Z), normalize(X)
    rows = joined(share, z, x)
    assert np.allclose(rows @ rows.T, share * z @ z.T + (1 - share) * x @ x.T)


def test_a_posterior_has_length_one():
    means = normalize(rng.standard_normal((5, 3)))
    rows = OutputHead(means=means, temperature=0.1)(Z)
    assert rows.shape == (20, 5)
    assert np.allclose(np.linalg.norm(rows, axis=1), 1)


def test_the_base_is_of_leading_directions_half_whitened():
    x, y = planted(300, 10, 3, 0)
    unit = UnitRows(MemoryEngine(x, y, 3))
    B = RegressionFactory(raw_width=4).base_map(unit, 0.9).B
    projected = (unit.engine.X - unit.mean) @ B
    assert B.shape == (10, 4)
    spread = np.linalg.svd(unit.engine.X - unit.mean, compute_uv=False)[:4]
    assert np.allclose(np.linalg.norm(projected, axis=0), np.sqrt(spread * spread[0]))  # not spread, and not equal


def test_rows_that_are_all_equal_have_a_base_of_the_same_width():
    unit = UnitRows(MemoryEngine(np.ones((6, 1)), np.arange(6) % 2, 2))
    B = RegressionFactory().base_map(unit, 0.9).B
    assert B.shape == (1, 2)
    assert np.isfinite(B).all()
