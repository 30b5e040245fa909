"""Choosing a map for unseen classes: what a split scores, and when the plain cosine is kept."""

import numpy as np
import pytest
from tests.planted import planted

from likewise.evaluate import mean_average_precision
from likewise.learn.choose.search import CVResults, Split
from likewise.learn.choose.unseen import _ClassFold, choose_shrinkage_map
from likewise.learn.maths.engine import MemoryEngine
from likewise.learn.maths.kernels import UnitRows
from likewise.learn.maths.unseen import ShrinkageMap
from likewise.utils.arrays import unit_rows


@pytest.mark.parametrize("shape", [(120, 8, 6), (60, 100, 6), (80, 12, 30)])
@pytest.mark.parametrize("setting", [(1.0, 1.0, 0.0), (0.1, 1.0, 0.0), (0.03, 0.3, 0.75)])
def test_a_split_scores_a_map_as_the_metric_does_its_images(shape, setting):
    X, y = planted(*shape)
    unit = UnitRows(MemoryEngine(X, y, shape[2]))
    split = Split(np.flatnonzero(y % 2 == 0), np.flatnonzero(y % 2 == 1))
    seen = unit.part(split.train)
    Z = unit_rows(seen.centred(unit.engine.X[split.held]) @ ShrinkageMap(*setting).learned_from(seen))
    expected = mean_average_precision(Z, Z, y[split.held])
    assert _ClassFold(unit, split).score(ShrinkageMap(*setting)) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("n_classes", [3, 40])
def test_where_nothing_can_be_ranked_the_plain_cosine_is_kept(n_classes):
    X, _ = planted(40, 8, 4)
    results = CVResults()  # three classes are too few to hold any out; rows of 40 classes have nothing to find
    unit = UnitRows(MemoryEngine(X, np.arange(40) % n_classes, n_classes))
    assert ShrinkageMap(**choose_shrinkage_map(unit, results, np.random.default_rng(0)).setting) == ShrinkageMap()
    assert results.records == []
