"""Heads: the raw part beside the learned one, and where its directions come from."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.preprocessing import normalize
from tests.planted import planted

from likewise.learn.engines.memory import MemoryEngine
from likewise.learn.maths.kernel_ridge import RegressionFactory
from likewise.learn.maths.kernels import UnitRows
from likewise.learn.maths.setting import OutputHead

rng = np.random.default_rng(0)
Z, X = rng.standard_normal((20, 3)), rng.standard_normal((20, 8))


@pytest.mark.parametrize("directions", [None, rng.standard_normal((8, 4))])
def test_the_score_is_the_learned_cosine_plus_w_times_the_raw_one(directions):
    z, x = normalize(Z), normalize(X if directions is None else X @ directions)
    rows = OutputHead(raw_weight=0.25, directions=directions)(Z, lambda: X)
    assert np.allclose(rows @ rows.T, (z @ z.T + 0.25 * x @ x.T) / 1.25)


def test_a_posterior_has_the_raw_part_beside_it_too():
    means = normalize(rng.standard_normal((5, 3)))
    rows = OutputHead(raw_weight=0.1, means=means, temperature=0.1)(Z, lambda: X)
    assert rows.shape == (20, 5 + 8)
    assert np.allclose(np.linalg.norm(rows, axis=1), 1)


def test_raw_directions_are_leading_and_half_whitened():
    x, y = planted(300, 10, 3, 0)
    unit = UnitRows(MemoryEngine(x, y, 3))
    directions = RegressionFactory(raw_width=4).raw_directions(unit)
    projected = (unit.engine.X - unit.mean) @ directions
    assert directions.shape == (10, 4)
    spread = np.linalg.svd(unit.engine.X - unit.mean, compute_uv=False)[:4]
    assert np.allclose(np.linalg.norm(projected, axis=0), np.sqrt(spread * spread[0]))  # not spread, and not equal


def test_rows_that_are_all_equal_have_a_raw_part_of_zeros():
    unit = UnitRows(MemoryEngine(np.ones((6, 1)), np.arange(6) % 2, 2))
    assert np.isfinite(RegressionFactory().raw_directions(unit)).all()
