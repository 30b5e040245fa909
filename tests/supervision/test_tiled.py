"""Tiles of all pairs, with exceptions, against dense formulae."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from likewise.core.labels import LabelTarget
from likewise.data.shared_labels import SharedLabels
from likewise.supervision import tiled as tiled_pairs
from likewise.supervision.pairs import intervals
from likewise.supervision.tiled import LabelClamp, StoredClamp, TiledPairs

sizes = st.tuples(st.integers(1, 30), st.integers(1, 25), st.integers(1, 6), st.integers(0, 10**6))


def _matrix(n, m, seed, graded):
    """A sparse matrix with stored zeros, rows without anything among them."""
    rng = np.random.default_rng(seed)
    known = rng.random((n, m)) < 0.4
    known[rng.integers(n), rng.integers(m)] = True
    values = rng.standard_normal((n, m)) if graded else rng.integers(0, 2, (n, m)).astype(float)
    i, j = np.nonzero(known)
    return sp.csr_array((values[known], (i, j)), shape=(n, m)), known, values


def _dense_excess(S, values, kind, adaptive=True, margins=(1.0, 0.2)):
    low, high = intervals(values, kind, margins, adaptive)
    return S - np.clip(S, low, high)


@given(sizes, st.sampled_from(["binary", "graded"]), st.booleans(), st.booleans(), st.booleans())
def test_tiles_equal_a_dense_matrix(size, kind, adaptive, weighted, offset):
    n, m, r, seed = size
    R, _, _ = _matrix(n, m, seed, kind == "graded")
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
        E = _dense_excess(S, R.toarray(), kind, adaptive)
        W = np.outer(w, v)
        for p, A, B, F, weights in ((pairs, P, V, E, W), (pairs.transposed(), V, P, E.T, W.T)):
            T, loss = p.excess(A, B, B)
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
        (T, loss), (F, other) = labels.excess(P, V, V), tiles.excess(P, V, V)
    np.testing.assert_allclose(T, F, atol=1e-12)
    assert loss == pytest.approx(other)
    np.testing.assert_allclose(labels.target_times(V), tiles.target_times(V), atol=1e-12)
