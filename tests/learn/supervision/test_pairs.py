"""The passes over known pairs, against dense formulae."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from tests.learn.supervision.problems import SIZES, dense_excess, matrix

from likewise.learn.supervision import pairs as known_pairs
from likewise.learn.supervision.pairs import KnownPairs, intervals


def _known(R, kind, weights=None):
    low, high = intervals(R.data, kind, (1.0, 0.2), True)
    goal, _ = intervals(R.data, kind, (1.0, 0.2), False)
    return KnownPairs(R.indptr, R.indices, low, high, goal, weights, None, R.shape[1])


@given(SIZES, st.booleans(), st.booleans(), st.integers(1, 40))
def test_known_pairs_equal_a_masked_densematrix(size, graded, weighted, gathered):
    n, m, r, seed = size
    R, known, values = matrix(n, m, seed, graded)
    rng = np.random.default_rng(seed + 1)
    P, V = rng.standard_normal((n, r)), rng.standard_normal((m, r))
    w = rng.random((n, m)) if weighted else np.ones((n, m))
    kind = "graded" if graded else "binary"
    pairs = _known(R, kind, w[known] if weighted else None)
    E = np.where(known, dense_excess(P @ V.T, values, kind), 0.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(known_pairs, "_GATHERED", gathered)  # so that there are many blocks
        for p, A, B, F, weights in ((pairs, P, V, E, w), (pairs.transposed(), V, P, E.T, w.T)):
            T, loss = p.residual(A, B, B)
            np.testing.assert_allclose(T, (weights * F) @ B, atol=1e-12)
            assert loss == pytest.approx(float(np.sum(weights * F * F)))
            mask = known if p is pairs else known.T
            assert p.curvature(A, B) == pytest.approx(float(np.sum(weights * mask * (A @ B.T) ** 2)))
    goal = np.where(known, intervals(values, kind, (1.0, 0.2), False)[0], 0.0)
    np.testing.assert_allclose(pairs.target_times(V), (w * goal) @ V, atol=1e-12)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_an_offset_is_added_to_the_scores_of_both_directions(make):
    R, known, values = matrix(9, 7, 3, graded=True)
    rng = np.random.default_rng(0)
    Q, G, P, V = (rng.standard_normal(shape) for shape in ((9, 4), (7, 4), (9, 2), (7, 2)))
    pairs = _known(R, "graded").with_offset(make(Q), make(G), 0.5)
    E = np.where(known, P @ V.T + 0.5 * Q @ G.T - values, 0.0)
    np.testing.assert_allclose(pairs.residual(P, V, V)[0], E @ V)
    np.testing.assert_allclose(pairs.transposed().residual(V, P, P)[0], E.T @ P)
