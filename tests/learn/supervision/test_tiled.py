"""Tiles of all pairs, with exceptions, against dense formulae."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.learn.supervision.problems import SIZES, dense_excess, matrix

from likewise.learn.maths.labels import LabelTarget
from likewise.learn.supervision import tiled as tiled_pairs
from likewise.learn.supervision.pairs import intervals
from likewise.learn.supervision.tiled import LabelClamp, StoredClamp, TiledPairs
from likewise.rows.relevance import SharedLabels


@given(SIZES, st.sampled_from(["binary", "graded"]), st.booleans(), st.booleans(), st.booleans())
def test_tiles_equal_a_densematrix(size, kind, adaptive, weighted, offset):
    n, m, r, seed = size
    R, _, _ = matrix(n, m, seed, kind == "graded")
    R.eliminate_zeros()
    rng = np.random.default_rng(seed + 1)
    P, V, Q, G = (rng.standard_normal((k, r)) for k in (n, m, n, m))
    w, v = (rng.integers(1, 4, k).astype(float) if weighted else np.ones(k) for k in (n, m))
    clamp = StoredClamp(lambda a, b: R[a, b], (n, m), kind, (1.0, 0.2), adaptive)
    pairs = TiledPairs(clamp, (n, m), w if weighted else None, v if weighted else None)
    S = P @ V.T
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiled_pairs, "COLUMNS", 5)
        patch.setattr(tiled_pairs, "_KEPT", 0 if seed % 2 else 1 << 20)
        if offset:
            pairs, S = pairs.with_offset(Q, G, 0.3), S + 0.3 * Q @ G.T
        E = dense_excess(S, R.toarray(), kind, adaptive)
        W = np.outer(w, v)
        for p, A, B, F, weights in ((pairs, P, V, E, W), (pairs.transposed(), V, P, E.T, W.T)):
            T, loss = p.residual(A, B, B)
            np.testing.assert_allclose(T, (weights * F) @ B, atol=1e-11)
            assert loss == pytest.approx(float(np.sum(weights * F * F)))
            assert p.curvature(A, B) == pytest.approx(float(np.sum(weights * (A @ B.T) ** 2)))
        goal = intervals(R.toarray(), kind, (1.0, 0.2), False)[0]
        np.testing.assert_allclose(pairs.target_times(V), (W * goal) @ V, atol=1e-11)
    assert pairs.n_pairs == pytest.approx(W.sum())


@given(st.integers(2, 40), st.integers(1, 5), st.integers(0, 10**6))
def test_sorted_labels_and_an_indicator_clamp_alike(n, c, seed):
    rng = np.random.default_rng(seed)
    codes = np.sort(rng.integers(0, c, n))
    codes = np.unique(codes, return_inverse=True)[1]
    target = LabelTarget(1.0, 0.2)
    labels = TiledPairs(LabelClamp(target, codes), (n, n))
    onehot = SharedLabels(np.eye(codes[-1] + 1)[codes])
    tiles = TiledPairs(StoredClamp(onehot.tile, (n, n), "binary", (1.0, 0.2), True), (n, n))
    P, V = rng.standard_normal((2, n, 3))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiled_pairs, "COLUMNS", 7)
        (T, loss), (F, other) = labels.residual(P, V, V), tiles.residual(P, V, V)
    np.testing.assert_allclose(T, F, atol=1e-12)
    assert loss == pytest.approx(other)
    np.testing.assert_allclose(labels.target_times(V), tiles.target_times(V), atol=1e-12)
