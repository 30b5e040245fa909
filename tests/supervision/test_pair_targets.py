"""Which pairs are known, and what they should score."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from tests.planted import planted, same_label

from likewise import SLR
from likewise.core.labels import LabelTarget
from likewise.data.relevance import Relevance
from likewise.data.shared_labels import SharedLabels
from likewise.supervision.pair_targets import pair_targets
from likewise.supervision.reading import Supervision

X, Y = planted(150, 12, 4)


SAME = same_label(Y).astype(float)


def close(A: np.ndarray, B: np.ndarray, tolerance: float = 1e-8) -> None:
    np.testing.assert_allclose(A, B, atol=tolerance * np.abs(B).max())


@pytest.mark.parametrize("rank", [3, 8, None])
@pytest.mark.parametrize("graded", [Relevance(SAME, kind="graded"), SharedLabels(np.eye(4)[Y], "jaccard")])
@pytest.mark.parametrize("adaptive", [True, False])
def test_graded_labels_are_the_fixed_target(rank, graded, adaptive):
    expected = SLR(rank, adaptive=False).fit(X, Y).query_map()
    close(SLR(rank, adaptive=adaptive).fit(X, graded).query_map(), expected)
    sparse = Relevance(sp.csr_array(SAME), kind="graded", unstored="irrelevant")
    close(SLR(rank, adaptive=adaptive).fit(X, sparse).query_map(), expected)


def test_rows_in_no_pair_are_not_visited_but_count_in_the_gram():
    relevance = Relevance.from_triples([0, 7], [3, 9], [1, 0], shape=(150, 150))
    known = pair_targets(Supervision(X, X, relevance), LabelTarget())
    assert (known.rows.tolist(), known.columns.tolist()) == ([0, 7], [3, 9])
    assert SLR(4).fit(X, relevance).condition_ == pytest.approx(np.linalg.cond(X))


def test_items_that_share_a_label_come_first():
    rng = np.random.default_rng(0)
    Z = rng.random((400, 6)) < 0.3
    rows = Z @ rng.standard_normal((6, 20)) + 0.5 * rng.standard_normal((400, 20))
    model = SLR(10).fit(rows[:300], Z[:300].astype(int))
    shares = (Z[300:].astype(int) @ Z[300:].T) > 0
    scores = model.similarity(rows[300:])
    assert scores[shares].mean() > scores[~shares].mean() + 0.4


def test_jaccard_is_regressed_on_itself():
    rng = np.random.default_rng(1)
    Z = (rng.random((80, 5)) < 0.5).astype(float)
    Z[:, 0] = 1.0
    jaccard = SharedLabels(Z, "jaccard").tile(slice(0, 80), slice(0, 80)).toarray()
    rows = rng.standard_normal((80, 12))
    pinv = np.linalg.pinv(rows)
    close(SLR(None).fit(rows, SharedLabels(Z, "jaccard")).query_map(), pinv @ jaccard @ pinv.T)
