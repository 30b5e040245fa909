"""Targets by label, and where labels begin and end."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from likewise.core.targets import LabelTarget, class_starts, indicator, label_runs, same_label_blocks
from likewise.errors import LikewiseError


@given(st.lists(st.integers(0, 5), min_size=1, max_size=30).map(sorted), st.integers(1, 7), st.integers(0, 10**6))
def test_a_folded_tile_is_what_the_formula_says(codes, width, seed):
    codes, rng = np.array(codes), np.random.default_rng(seed)
    columns = np.sort(rng.integers(0, 6, 12))
    S = rng.standard_normal((len(codes), 12))
    target, starts, runs = LabelTarget(0.8, 0.1), class_starts(columns, 6), label_runs(codes)
    same = codes[:, None] == columns[None, :]
    E = np.where(same, np.minimum(S - 0.8, 0), np.maximum(S - 0.1, 0))
    for first in range(0, 12, width):
        tile = S[:, first : first + width].copy()
        blocks = target.fold(tile, runs, starts, first)
        np.testing.assert_allclose(tile, (2 * E - (S - 0.1))[:, first : first + width], atol=1e-12)
        covered = np.zeros(tile.shape, dtype=bool)
        for a, b, excess in blocks:
            covered[a, b] = True
            np.testing.assert_allclose(excess, E[:, first : first + width][a, b], atol=1e-12)
        np.testing.assert_array_equal(covered, same[:, first : first + width])


def test_runs_starts_and_blocks():
    codes = np.array([0, 0, 2, 2, 2, 5])
    assert label_runs(codes) == [(0, 2, 0), (2, 5, 2), (5, 6, 5)]
    assert class_starts(codes, 6).tolist() == [0, 2, 2, 5, 5, 5, 6]
    assert same_label_blocks(3, label_runs(codes), class_starts(codes, 6), 1) == [
        ((slice(0, 2), slice(0, 1)), 0),
        ((slice(2, 5), slice(1, 3)), 2),
    ]


def test_the_indicator_has_the_weight_of_each_row_in_its_class():
    Z = indicator(np.array([1, 0, 1]), np.array([2.0, 3.0, 4.0]), 3)
    assert Z.toarray().tolist() == [[0, 2, 0], [3, 0, 0], [0, 4, 0]]
    assert indicator(np.array([1]), None, 2).toarray().tolist() == [[0, 1]]


@pytest.mark.parametrize("margins", [(0.0, 1.0), (1.0, 1.0), (1.0,), (1.0, 0.0, 0.0)])
def test_margins_are_two_and_in_order(margins):
    with pytest.raises(LikewiseError, match=r"expected \(δ1, δ2\) with δ1 > δ2"):
        LabelTarget.of_margins(margins, adaptive=True)
    assert LabelTarget.of_margins((1, 0), adaptive=False) == LabelTarget(1.0, 0.0, adaptive=False)
