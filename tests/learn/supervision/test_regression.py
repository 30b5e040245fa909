"""The regression on known pairs: what it recovers, and that its objective never rises."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.learn.supervision.problems import planted_sides

from likewise import PairSLR
from likewise.learn.maths.labels import LabelTarget
from likewise.learn.maths.scatter import whiten
from likewise.learn.supervision.learning import problem_of
from likewise.learn.supervision.reading import Supervision, pair_targets
from likewise.learn.supervision.regression import INNER, iterations, moment, started
from likewise.rows.relevance import Relevance


@pytest.mark.parametrize("share", [0.05, 0.002])
@pytest.mark.parametrize("rank", [5, 100, None])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_planted_matrix_is_recovered_from_few_pairs(share, rank, dtype):
    Q, G, S, known, relevance = planted_sides(1000, 800, 20, 30, 5, share, seed=0, dtype=dtype)
    passes_of_an_iteration = 1 if rank is None else 2
    model = PairSLR(rank, max_iter=20 // INNER // passes_of_an_iteration).fit(Q, relevance, gallery=G)
    scores = model.similarity(Q, G)
    assert scores.dtype == dtype
    assert np.corrcoef(scores[~known], S[~known])[0, 1] >= 0.95
    assert np.linalg.norm(scores[~known]) == pytest.approx(np.linalg.norm(S[~known]), rel=0.1)  # and its scale


@given(
    st.integers(5, 30), st.integers(5, 30), st.floats(0.02, 1.0), st.booleans(), st.floats(0, 1), st.integers(0, 10**6)
)
def test_the_objective_never_rises(n_q, n_g, share, binary, alpha, seed):
    rng = np.random.default_rng(seed)
    Q, G = rng.standard_normal((n_q, 4)), rng.standard_normal((n_g, 6))
    known = rng.random((n_q, n_g)) < share
    known[0, 0] = True
    values = rng.integers(0, 2, known.shape).astype(float) if binary else rng.standard_normal(known.shape)
    values[0, 0] = 1.0
    relevance = Relevance.from_triples(*np.nonzero(known), values[known], shape=known.shape)
    taught = Supervision(Q, G, relevance)
    W_q, W_g = whiten(Q, None, alpha), whiten(G, None, alpha)
    problem = problem_of(taught, pair_targets(taught, LabelTarget()), W_q, W_g, 0.0)
    for rank in (2, None):
        K = moment(problem.queries, problem.gallery, problem.pairs, from_target=True)
        start = started(K, problem, rank, np.random.default_rng(0))
        walk = iterations(problem, start, rank is not None)
        steps = [it for it, _ in zip(walk, range(4), strict=False)]
        losses, bounds = [it.objective for it in steps], [it.bound for it in steps]
        slack = 1e-9 * max(losses) + 1e-18
        assert np.all(np.diff(losses) <= slack)
        assert all(after <= bound + slack for after, bound in zip(losses[1:], bounds, strict=False))
