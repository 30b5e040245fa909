"""The passes over known pairs, against dense formulae."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from likewise.supervision import pairs as known_pairs
from likewise.supervision.pairs import KnownPairs, intervals

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


def _known(R, kind, weights=None):
    low, high = intervals(R.data, kind, (1.0, 0.2), True)
    goal, _ = intervals(R.data, kind, (1.0, 0.2), False)
    return KnownPairs(R.indptr, R.indices, low, high, goal, weights, None, R.shape[1])


@given(sizes, st.booleans(), st.booleans(), st.integers(1, 40))
def test_known_pairs_equal_a_masked_dense_matrix(size, graded, weighted, gathered):
    n, m, r, seed = size
    R, known, values = _matrix(n, m, seed, graded)
    rng = np.random.default_rng(seed + 1)
    P, V = rng.standard_normal((n, r)), rng.standard_normal((m, r))
    w = rng.random((n, m)) if weighted else np.ones((n, m))
    kind = "graded" if graded else "binary"
    pairs = _known(R, kind, w[known] if weighted else None)
    E = np.where(known, _dense_excess(P @ V.T, values, kind), 0.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(known_pairs, "_GATHERED", gathered)  # so that there are many blocks
        for p, A, B, F, weights in ((pairs, P, V, E, w), (pairs.transposed(), V, P, E.T, w.T)):
            T, loss = p.excess(A, B, B)
            np.testing.assert_allclose(T, (weights * F) @ B, atol=1e-12)
            assert loss == pytest.approx(float(np.sum(weights * F * F)))
            mask = known if p is pairs else known.T
            assert p.curvature(A, B) == pytest.approx(float(np.sum(weights * mask * (A @ B.T) ** 2)))
    goal = np.where(known, intervals(values, kind, (1.0, 0.2), False)[0], 0.0)
    np.testing.assert_allclose(pairs.target_times(V), (w * goal) @ V, atol=1e-12)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_an_offset_is_added_to_the_scores_of_both_directions(make):
    R, known, values = _matrix(9, 7, 3, graded=True)
    rng = np.random.default_rng(0)
    Q, G, P, V = (rng.standard_normal(shape) for shape in ((9, 4), (7, 4), (9, 2), (7, 2)))
    pairs = _known(R, "graded").with_offset(make(Q), make(G), 0.5)
    E = np.where(known, P @ V.T + 0.5 * Q @ G.T - values, 0.0)
    np.testing.assert_allclose(pairs.excess(P, V, V)[0], E @ V)
    np.testing.assert_allclose(pairs.transposed().excess(V, P, P)[0], E.T @ P)
