"""From y to what is known of pairs: the same labels in any form, and the targets of their pairs."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from tests.planted import planted, same_label

from likewise import PairSLR
from likewise.errors import LikewiseError
from likewise.learn.maths.labels import LabelTarget
from likewise.learn.supervision.reading import Supervision, pair_targets
from likewise.rows.relevance import Relevance, SharedLabels

X, Y = planted(150, 12, 4)


SAME = same_label(Y).astype(float)


MODELS = [
    PairSLR(3),
    PairSLR(8),
    PairSLR(None, max_iter=4),
    PairSLR(5, alpha=0.3),
    PairSLR(5, margins=(0.8, 0.2)),
    PairSLR(5, adaptive=False),
    PairSLR(6, adaptive=False, margins=(0.9, -0.1)),
]


def _as_taught() -> dict[str, object]:
    i, j = np.indices(SAME.shape).reshape(2, -1)
    return {
        "indicator": np.eye(4, dtype=int)[Y],
        "sparse indicator": sp.csr_matrix(np.eye(4)[Y]),
        "full relevance": Relevance(SAME),
        "relevant pairs alone": Relevance(sp.csr_array(SAME), unstored="irrelevant"),
        "triples": Relevance.from_triples(i, j, SAME.ravel()),
        "overlapping tiles": SharedLabels(np.hstack([np.eye(4)[Y], np.eye(4)[Y]])),  # every label under two names
    }


def close(A: np.ndarray, B: np.ndarray, tolerance: float = 1e-8) -> None:
    np.testing.assert_allclose(A, B, atol=tolerance * np.abs(B).max())


@pytest.mark.parametrize("model", MODELS, ids=repr)
@pytest.mark.parametrize("form", _as_taught())
def test_the_same_labels_in_any_form_give_the_same_model(model, form):
    expected = model.fit(X, Y).query_map()
    close(model.fit(X, _as_taught()[form]).query_map(), expected)


@pytest.mark.parametrize("rank", [4, None])
def test_weights_mean_repetition_however_labels_are_given(rank):
    weights = np.random.default_rng(0).integers(0, 3, 150).astype(float)
    model = PairSLR(rank, max_iter=3)
    expected = model.fit(X, Y, sample_weight=weights).query_map()
    close(model.fit(X, Relevance(SAME), sample_weight=weights).query_map(), expected)
    close(model.fit(X, np.eye(4)[Y], sample_weight=weights).query_map(), expected)


@pytest.mark.parametrize("form", ["integers", "objects", "nan", "indicator"])
@pytest.mark.parametrize(
    "model", [PairSLR(4, max_iter=3), PairSLR(None, max_iter=3), PairSLR(4, adaptive=False, max_iter=3)], ids=repr
)
def test_every_way_of_leaving_a_label_out_is_the_same(form, model):
    hidden = np.arange(150) % 3 == 0
    names = np.array([f"class {c}" for c in Y], dtype=object)
    forms = {
        "integers": np.where(hidden, -1, Y),
        "objects": np.where(hidden, None, names),
        "nan": np.where(hidden, np.nan, names),
        "indicator": np.where(hidden[:, None], 0, np.eye(4)[Y]),
    }
    i, j = np.nonzero(np.outer(~hidden, ~hidden))
    expected = model.fit(X, Relevance.from_triples(i, j, SAME[i, j], shape=SAME.shape)).query_map()
    close(model.fit(X, forms[form]).query_map(), expected, 1e-6)


def test_minus_one_is_never_a_class():
    with pytest.raises(LikewiseError, match=r"y has one class only, 1: .*; -1 means unlabelled"):
        PairSLR(2, max_iter=2).fit(X, np.where(Y < 2, -1, 1))


def test_a_matrix_beside_a_gallery_is_a_relevance():
    expected = PairSLR(3).fit(X, Relevance(SAME[:, :20]), gallery=X[:20]).query_map()
    close(PairSLR(3).fit(X, SAME[:, :20], gallery=X[:20]).query_map(), expected)


@pytest.mark.parametrize("rank", [3, 8, None])
@pytest.mark.parametrize("graded", [Relevance(SAME, kind="graded"), SharedLabels(np.eye(4)[Y], "jaccard")])
@pytest.mark.parametrize("adaptive", [True, False])
def test_graded_labels_are_the_fixed_target(rank, graded, adaptive):
    expected = PairSLR(rank, adaptive=False).fit(X, Y).query_map()
    close(PairSLR(rank, adaptive=adaptive).fit(X, graded).query_map(), expected)
    sparse = Relevance(sp.csr_array(SAME), kind="graded", unstored="irrelevant")
    close(PairSLR(rank, adaptive=adaptive).fit(X, sparse).query_map(), expected)


def test_rows_in_no_pair_are_not_visited_but_count_in_the_gram():
    relevance = Relevance.from_triples([0, 7], [3, 9], [1, 0], shape=(150, 150))
    known = pair_targets(Supervision(X, X, relevance), LabelTarget())
    assert (known.rows.tolist(), known.columns.tolist()) == ([0, 7], [3, 9])
    assert PairSLR(4).fit(X, relevance).condition_ == pytest.approx(np.linalg.cond(X))


def test_items_that_share_a_label_come_first():
    rng = np.random.default_rng(0)
    Z = rng.random((400, 6)) < 0.3
    rows = Z @ rng.standard_normal((6, 20)) + 0.5 * rng.standard_normal((400, 20))
    model = PairSLR(10).fit(rows[:300], Z[:300].astype(int))
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
    close(PairSLR(None).fit(rows, SharedLabels(Z, "jaccard")).query_map(), pinv @ jaccard @ pinv.T)
