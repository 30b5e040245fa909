"""From known pairs to M."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from tests.learn.supervision.problems import planted_sides
from tests.planted import planted, same_label

from likewise import PairSLR
from likewise.rows.relevance import Relevance

X, Y = planted(150, 12, 4)


SAME = same_label(Y).astype(float)


def close(A: np.ndarray, B: np.ndarray, tolerance: float = 1e-8) -> None:
    np.testing.assert_allclose(A, B, atol=tolerance * np.abs(B).max())


@pytest.mark.parametrize("y", [np.where(np.arange(150) < 40, -1, Y), Relevance.from_triples([0, 3], [1, 2], [1, 0])])
def test_sparse_and_dense_rows_agree(y):
    for prior in (None, "identity"):
        model = PairSLR(4, max_iter=2, prior=prior, prior_strength=1.0)
        close(model.fit(sp.csr_array(X), y).query_map(), model.fit(X, y).query_map())


def test_two_sides_that_are_one_set_are_that_set():
    relevance = Relevance(SAME)
    close(PairSLR(5).fit(X, relevance, gallery=X).query_map(), PairSLR(5).fit(X, relevance).query_map())


def test_the_ridge_means_the_same_whatever_share_of_pairs_is_known():
    Q, G, S, _, relevance = planted_sides(600, 500, 10, 12, 4, 0.3, seed=1)
    some = PairSLR(None, alpha=0.5, max_iter=30).fit(Q, relevance, gallery=G).query_map()
    everything = PairSLR(None, alpha=0.5).fit(Q, Relevance(S), gallery=G).query_map()
    close(some, everything, 0.1)


def test_the_labels_of_unlabelled_rows_do_not_matter_and_their_features_do():
    hidden = np.arange(150) % 3 == 0
    y = np.where(hidden, -1, Y)
    moved = np.where(hidden[:, None], 3 * X, X)
    one, other = (PairSLR(4, alpha=0.2).fit(rows, y) for rows in (X, moved))
    assert one.classes_.tolist() == [0, 1, 2, 3]
    assert not np.allclose(one.query_map(), other.query_map())


def test_what_few_labels_teach_serves_all(digits):
    X, y, X_test, y_test = digits
    few = np.where(np.arange(len(y)) % 4 == 0, y, -1)
    model = PairSLR(9, alpha=0.1).fit(X, few)
    assert model.score(X_test, y_test) > 0.7


def test_history_tol_and_the_bar_work_as_for_labels(capsys):
    Q, G, _, _, relevance = planted_sides(300, 200, 8, 5, 3, 0.3, seed=2)
    model = PairSLR(3, max_iter=50, tol=1e-3, verbose=1).fit(Q, relevance, gallery=G)
    assert 1 < model.n_iter_ < 50
    assert len(model.history_) == model.n_iter_
    assert "learning, loss" in capsys.readouterr().err
