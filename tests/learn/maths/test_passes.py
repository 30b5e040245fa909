"""Tiles and threads change nothing: a pass equals its dense formula."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.planted import clamp

from likewise.learn.maths import passes
from likewise.learn.maths.labels import LabelTarget, class_starts
from likewise.learn.maths.passes import PassColumns, symmetric_deviation


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    """Tiles far smaller than the data, so that classes cross their borders."""
    monkeypatch.setattr(passes, "COLUMNS", 4)


def make(n, m, c, seed, dtype=np.float64):
    rng = np.random.default_rng(seed)
    rows, columns = np.sort(rng.integers(0, c, n)), np.sort(rng.integers(0, c, m))
    P, Q, extra = (rng.standard_normal(shape).astype(dtype) for shape in ((n, 3), (m, 3), (m, 2)))
    return P, rows, PassColumns(Q, class_starts(columns, c), extra=extra), columns


@given(st.integers(1, 30), st.integers(1, 30), st.integers(1, 12), st.integers(0, 10**6), st.booleans())
def test_a_pass_equals_its_dense_formula(n, m, c, seed, adaptive):
    P, rows, gallery, columns = make(n, m, c, seed)
    S, same = P @ gallery.G.T, rows[:, None] == columns[None, :]
    for margins in ((1.0, 0.0), (0.7, -0.2)):
        Y = np.where(same, np.maximum(S, margins[0]), np.minimum(S, margins[1]))
        if not adaptive:
            Y = np.where(same, *margins)
        T, loss = gallery.deviation(P, rows, None, LabelTarget(*margins, adaptive=adaptive))
        np.testing.assert_allclose(T, (S - Y) @ gallery.back, atol=1e-10)
        assert loss == pytest.approx(np.sum((S - Y) ** 2), abs=1e-9)


@pytest.mark.parametrize("adaptive", [True, False])
@pytest.mark.parametrize("margins", [(1.0, 0.0), (0.7, -0.2)])
def test_weights_of_rows_and_columns_enter_the_loss(adaptive, margins):
    P, rows, gallery, columns = make(20, 25, 4, 0)
    w, v = np.random.default_rng(1).uniform(size=20), np.random.default_rng(2).uniform(size=25)
    S, same = P @ gallery.G.T, rows[:, None] == columns[None, :]
    Y = np.where(same, np.maximum(S, margins[0]), np.minimum(S, margins[1])) if adaptive else np.where(same, *margins)
    weighted = PassColumns(gallery.G, gallery.starts, v)
    _, loss = weighted.deviation(P, rows, w, LabelTarget(*margins, adaptive=adaptive))
    assert loss == pytest.approx(w @ (S - Y) ** 2 @ v)


def test_pairs_of_one_label_may_weigh_otherwise_than_pairs_of_two():
    P, rows, gallery, columns = make(20, 25, 4, 3)
    weight = np.array([0.5, 2.0, 3.0, 4.0])
    S, same = P @ gallery.G.T, rows[:, None] == columns[None, :]
    E = (S - np.where(same, np.maximum(S, 1), np.minimum(S, 0))) * np.where(same, weight[rows][:, None], 1.0)
    T, _ = gallery.deviation(P, rows, None, LabelTarget(same_weight=weight))
    np.testing.assert_allclose(T, E @ gallery.back, atol=1e-10)


def test_single_precision_stays_single():
    P, rows, gallery, columns = make(20, 25, 4, 0, np.float32)
    T, _ = gallery.deviation(P, rows, None, LabelTarget())
    S = P @ gallery.G.T
    Y = np.where(rows[:, None] == columns[None, :], np.maximum(S, 1), np.minimum(S, 0))
    assert T.dtype == np.float32
    np.testing.assert_allclose(T, (S - Y) @ gallery.back, atol=1e-4)


def test_clamp_is_the_line_of_the_algorithm():
    S, y = np.array([[2.0, -1.0], [0.5, 0.2]]), np.array([0, 1])
    np.testing.assert_array_equal(clamp(S, y), [[2.0, -1.0], [0.0, 1.0]])


@given(st.integers(2, 30), st.integers(1, 6), st.integers(0, 10**6), st.booleans(), st.integers(1, 9))
def test_symmetric_scores_take_their_mirror_image_from_the_same_tile(n, c, seed, weighted, rows):
    rng = np.random.default_rng(seed)
    codes, G = np.sort(rng.integers(0, c, n)), rng.standard_normal((n, 3))
    P, weights = G @ (A := rng.standard_normal((3, 3))) @ A.T, rng.uniform(0.5, 2, n) if weighted else None
    gallery = PassColumns(G, class_starts(codes, c), weights)
    blocks = [slice(start, min(start + rows, n)) for start in range(0, n, rows)]
    for margins in ((1.0, 0.0), (0.7, -0.2)):
        target = LabelTarget(*margins)
        expected, loss = gallery.deviation(P, codes, weights, target)
        swept, swept_loss = symmetric_deviation(P, codes, weights, gallery, target, lambda work: map(work, blocks))
        np.testing.assert_allclose(swept, expected, atol=1e-9)
        assert swept_loss == pytest.approx(loss, rel=1e-9, abs=1e-9)
