"""Sparse graded gains: the same nDCG as scikit-learn's, with items left out of the ranking."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import ndcg_score

from likewise.metrics.gains import graded_ndcg


def _problem(n=300, m=40, d=5, density=0.2, seed=0):
    rng = np.random.default_rng(seed)
    R = sp.csr_array(np.where(rng.random((n, m)) < density, rng.integers(-1, 4, (n, m)), 0.0))
    return rng.standard_normal((n, d)), rng.standard_normal((m, d)), R


@pytest.mark.parametrize("k", [1, 10, 40, 60])
def test_equals_scikit_learn(k):
    Q, G, R = _problem()
    gains = np.maximum(R.toarray(), 0)
    some = gains.any(axis=1)
    assert graded_ndcg(Q, G, R, k) == pytest.approx(ndcg_score(gains[some], (Q @ G.T)[some], k=k))


def test_only_known_ranks_the_stored_items_alone():
    Q, G, R = _problem()
    rows = [i for i in range(len(Q)) if (R[[i]].data > 0).any() and R[[i]].nnz > 1]
    each = [ndcg_score(np.maximum(R[[i]].data, 0)[None], (G[R[[i]].indices] @ Q[i])[None], k=10) for i in rows]
    assert graded_ndcg(Q[rows], G, R[rows], only_known=True) == pytest.approx(np.mean(each))


def test_itself_leaves_the_query_out():
    Q, _, _ = _problem(n=30)
    R = sp.csr_array((np.arange(30)[:, None] // 3 == np.arange(30) // 3).astype(float) - np.eye(30))
    others = [np.delete(np.arange(30), i) for i in range(30)]
    gains = np.stack([R.toarray()[i, o] for i, o in enumerate(others)])
    scores = np.stack([(Q @ Q.T)[i, o] for i, o in enumerate(others)])
    assert graded_ndcg(Q, Q, R, itself=True) == pytest.approx(ndcg_score(gains, scores, k=10))
