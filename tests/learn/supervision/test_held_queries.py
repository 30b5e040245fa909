"""What is judged on held-out queries, and how it is decided."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.preprocessing import normalize
from tests.clicked import clicked

from likewise.learn.supervision.held_queries import FEWEST, _related, decide, query_folds
from likewise.rows import Relevance


def test_items_of_related_queries_count_where_they_are_farther_than_the_own_clicks() -> None:
    n = 2 * FEWEST
    P = np.zeros((n, 4), dtype=bool)
    P[::2, :2] = True  # items 0 and 1
    P[1::2, 1:3] = True  # items 1 and 2
    S = np.tile([0.9, 0.8, 0.7, 0.1], (n, 1))
    S[1::2] = [0.6, 0.8, 0.7, 0.1]
    counted, relevant = _related(P, S)
    np.testing.assert_array_equal(counted[0], [False, False, True, True])
    np.testing.assert_array_equal(counted[1], [True, False, False, True])
    np.testing.assert_array_equal(relevant[0], [True, True, True, False])


def test_queries_without_a_shared_click_rank_their_own() -> None:
    P, S = np.eye(30, dtype=bool), np.random.default_rng(0).random((30, 30))
    counted, relevant = _related(P, S)
    assert counted.all()
    np.testing.assert_array_equal(relevant, P)


def test_nothing_of_a_held_out_query_is_learned_from() -> None:
    log = clicked()
    Q, G = normalize(log.Q), normalize(log.G)
    for fold in query_folds(log.clicks, Q, G, np.random.default_rng(0)):
        assert fold.seen[fold.queries].nnz == 0
        assert fold.seen.nnz > 0


def test_within_one_set_held_out_queries_are_not_learned_from_as_items_either() -> None:
    rng = np.random.default_rng(0)
    X = normalize(rng.standard_normal((200, 5)))
    chain = Relevance(sp.csr_array(sp.eye_array(200, k=1) + sp.eye_array(200, k=-1)))
    folds = query_folds(chain, X, X, rng, np.arange(200))
    assert len(folds) == 2
    for fold in folds:
        assert fold.seen[fold.queries].nnz == 0
        assert fold.seen[:, fold.queries].nnz == 0


def test_a_clear_gain_is_accepted_and_noise_is_not() -> None:
    rng = np.random.default_rng(0)
    raw = [rng.random(200), rng.random(200)]
    better = [part + 0.1 + 0.1 * rng.standard_normal(200) for part in raw]
    noise = [[part + 0.1 * rng.standard_normal(200) for part in raw] for _ in range(20)]
    best, verdict = decide(raw, [*noise, better])
    assert (best, verdict.accepted, verdict.rows) == (20, True, 400)
    assert verdict.mAP > verdict.raw
    assert not decide(raw, noise)[1].accepted


def test_a_fold_is_judged_by_the_setting_chosen_on_the_other() -> None:
    raw = [np.zeros(4), np.zeros(4)]
    first, second = [np.full(4, 0.9), np.full(4, 0.1)], [np.full(4, 0.2), np.full(4, 0.8)]
    _, verdict = decide(raw, [first, second])
    assert verdict.mAP == pytest.approx(0.15)  # the lucky halves are not counted


def test_halves_without_a_pair_to_learn_from_are_no_folds() -> None:
    rng = np.random.default_rng(0)
    X, n = normalize(rng.standard_normal((80, 5))), 40
    pairs = Relevance.from_pairs(np.stack([np.arange(n), np.arange(n) + n], axis=1), n=2 * n)
    folds = query_folds(pairs, X, X, rng, np.arange(2 * n))
    assert all(fold.seen.data.any() for fold in folds)
    one = Relevance.from_pairs([(0, 1)], n=80)
    assert query_folds(one, X, X, rng, np.arange(80)) == []
