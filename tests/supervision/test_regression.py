"""One idea, many ways to teach it: what they have in common, and what two sides recover."""

from __future__ import annotations

import re

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from tests.planted import planted, same_label

from likewise import SLR, load
from likewise.core.targets import LabelTarget
from likewise.core.whitening import whiten
from likewise.data.relevance import Relevance
from likewise.data.shared_labels import SharedLabels
from likewise.supervision.learning import problem_of
from likewise.supervision.pair_targets import pair_targets
from likewise.supervision.reading import Supervision
from likewise.supervision.regression import INNER, iterations, moment, started

X, Y = planted(150, 12, 4)
SAME = same_label(Y).astype(float)
MODELS = [
    SLR(3),
    SLR(8),
    SLR(None, n_iter=4),
    SLR(5, alpha=0.3),
    SLR(5, margins=(0.8, 0.2)),
    SLR(5, adaptive=False),
    SLR(6, adaptive=False, margins=(0.9, -0.1)),
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


@pytest.mark.parametrize("rank", [3, 8, None])
@pytest.mark.parametrize("graded", [Relevance(SAME, kind="graded"), SharedLabels(np.eye(4)[Y], "jaccard")])
@pytest.mark.parametrize("adaptive", [True, False])
def test_graded_labels_are_the_fixed_target(rank, graded, adaptive):
    expected = SLR(rank, adaptive=False).fit(X, Y).query_map()
    close(SLR(rank, adaptive=adaptive).fit(X, graded).query_map(), expected)
    sparse = Relevance(sp.csr_array(SAME), kind="graded", unstored="irrelevant")
    close(SLR(rank, adaptive=adaptive).fit(X, sparse).query_map(), expected)


@pytest.mark.parametrize("rank", [4, None])
def test_weights_mean_repetition_however_labels_are_given(rank):
    weights = np.random.default_rng(0).integers(0, 3, 150).astype(float)
    model = SLR(rank, n_iter=3)
    expected = model.fit(X, Y, sample_weight=weights).query_map()
    close(model.fit(X, Relevance(SAME), sample_weight=weights).query_map(), expected)
    close(model.fit(X, np.eye(4)[Y], sample_weight=weights).query_map(), expected)


@pytest.mark.parametrize("y", [np.where(np.arange(150) < 40, -1, Y), Relevance.from_triples([0, 3], [1, 2], [1, 0])])
def test_sparse_and_dense_rows_agree(y):
    for prior in (None, "identity"):
        model = SLR(4, n_iter=2, prior=prior, prior_strength=1.0)
        close(model.fit(sp.csr_array(X), y).query_map(), model.fit(X, y).query_map())


def test_two_sides_that_are_one_set_are_that_set():
    relevance = Relevance(SAME)
    close(SLR(5).fit(X, relevance, gallery=X).query_map(), SLR(5).fit(X, relevance).query_map())


# Recovery ------------------------------------------------------------------------------------------------------------


def _planted_sides(n_q, n_g, d_q, d_g, rank, share, seed, dtype=np.float64):
    rng = np.random.default_rng(seed)
    Q, G = rng.standard_normal((n_q, d_q)), rng.standard_normal((n_g, d_g))
    S = Q @ rng.standard_normal((d_q, rank)) @ rng.standard_normal((rank, d_g)) @ G.T
    known = rng.random(S.shape) < share
    relevance = Relevance.from_triples(*np.nonzero(known), S[known], shape=S.shape)
    return Q.astype(dtype), G.astype(dtype), S, known, relevance


@pytest.mark.parametrize("share", [0.05, 0.002])
@pytest.mark.parametrize("rank", [5, 100, None])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_planted_matrix_is_recovered_from_few_pairs(share, rank, dtype):
    Q, G, S, known, relevance = _planted_sides(1000, 800, 20, 30, 5, share, seed=0, dtype=dtype)
    passes_of_an_iteration = 1 if rank is None else 2
    model = SLR(rank, n_iter=20 // INNER // passes_of_an_iteration).fit(Q, relevance, gallery=G)
    scores = model.similarity(Q, G)
    assert scores.dtype == dtype
    assert np.corrcoef(scores[~known], S[~known])[0, 1] >= 0.95
    assert np.linalg.norm(scores[~known]) == pytest.approx(np.linalg.norm(S[~known]), rel=0.1)  # and its scale


def test_the_ridge_means_the_same_whatever_share_of_pairs_is_known():
    Q, G, S, _, relevance = _planted_sides(600, 500, 10, 12, 4, 0.3, seed=1)
    some = SLR(None, alpha=0.5, n_iter=30).fit(Q, relevance, gallery=G).query_map()
    everything = SLR(None, alpha=0.5).fit(Q, Relevance(S), gallery=G).query_map()
    close(some, everything, 0.1)


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


def test_rows_in_no_pair_are_not_visited_but_count_in_the_gram():
    relevance = Relevance.from_triples([0, 7], [3, 9], [1, 0], shape=(150, 150))
    known = pair_targets(Supervision(X, X, relevance), LabelTarget())
    assert (known.rows.tolist(), known.columns.tolist()) == ([0, 7], [3, 9])
    assert SLR(4).fit(X, relevance).condition_ == pytest.approx(np.linalg.cond(X))


# Unlabelled rows -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["integers", "objects", "nan", "indicator"])
@pytest.mark.parametrize("model", [SLR(4, n_iter=3), SLR(None, n_iter=3), SLR(4, adaptive=False, n_iter=3)], ids=repr)
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


def test_the_labels_of_unlabelled_rows_do_not_matter_and_their_features_do():
    hidden = np.arange(150) % 3 == 0
    y = np.where(hidden, -1, Y)
    moved = np.where(hidden[:, None], 3 * X, X)
    one, other = (SLR(4, alpha=0.2).fit(rows, y) for rows in (X, moved))
    assert one.classes_.tolist() == [0, 1, 2, 3]
    assert not np.allclose(one.query_map(), other.query_map())


def test_minus_one_and_one_are_two_classes():
    y = np.where(Y < 2, -1, 1)
    model = SLR(2, n_iter=2).fit(X, y)
    assert model.classes_.tolist() == [-1, 1]
    close(model.query_map(), SLR(2, n_iter=2).fit(X, Y >= 2).query_map(), 1e-12)


def test_what_few_labels_teach_serves_all(digits):
    X, y, X_test, y_test = digits
    few = np.where(np.arange(len(y)) % 4 == 0, y, -1)
    model = SLR(9, alpha=0.1).fit(X, few)
    assert model.score(X_test, y_test) > 0.7


# Many labels ---------------------------------------------------------------------------------------------------------


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


# One side, a prior, files --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("y", [Y, Relevance.from_triples([0, 3, 5], [1, 2, 7], [1, 0, 1])], ids=["labels", "relevance"])
def test_one_side_may_stay_as_it_is(y):
    both, query, gallery = (SLR(4, n_iter=2, sides=sides).fit(X, y) for sides in ("both", "query", "gallery"))
    np.testing.assert_array_equal(query.transform(X), X)
    np.testing.assert_array_equal(gallery.transform_query(X), X)
    close(query.transform_query(X), X @ both.query_map(), 1e-10)
    for model in (query, gallery):
        close(model.similarity(X), both.similarity(X), 1e-10)


@pytest.mark.parametrize("sides", ["both", "query"])
def test_an_endless_prior_is_the_raw_ranking_and_a_weak_one_is_none(sides):
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    model = SLR(4, prior="identity", prior_strength=np.inf, sides=sides).fit(unit, Y)
    close(model.similarity(unit), unit @ unit.T, 1e-12)
    firm, weak = (SLR(None, prior="identity", prior_strength=s, sides=sides).fit(unit, Y) for s in (1e6, 1e-9))
    close(firm.similarity(unit), unit @ unit.T, 1e-3)
    expected = SLR(None, init="paper").fit(unit, Y).similarity(unit)  # which starts from the identity as well
    close(weak.similarity(unit), expected, 0.05)


def test_with_a_prior_lengths_do_not_matter():
    lengths = np.random.default_rng(0).uniform(0.1, 10, (150, 1))
    model = SLR(4, prior="identity", prior_strength=3.0)
    close(model.fit(X * lengths, Y).similarity(X), model.fit(X, Y).similarity(X))


def test_the_strength_is_chosen_and_what_is_unseen_does_not_suffer(digits):
    X, y, *_ = digits
    seen = y < 5
    model = SLR(prior="identity", n_iter=2).fit(X[seen], y[seen])
    raw = SLR(prior="identity", prior_strength=np.inf).fit(X[seen], y[seen])
    assert model.strengths_[0]["strength"] == np.inf
    assert model.score(X[~seen], y[~seen]) >= raw.score(X[~seen], y[~seen]) - 0.003


@pytest.mark.parametrize("y", [SharedLabels(np.random.default_rng(0).random((150, 5)) < 0.4), Relevance(SAME)])
def test_a_prior_is_for_every_kind_of_teaching(y):
    model = SLR(4, prior="identity", n_iter=2).fit(X, y)
    assert model.strength_ > 0
    assert len(model.strengths_) > 1


def test_what_one_query_taught_leaves_the_others_as_they_were():
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    relevance = Relevance.from_triples([0, 0], [5, 6], [1, 0], shape=(150, 150))
    model = SLR(4, prior="identity", prior_strength=1e-3, sides="query").fit(unit, relevance)
    S, raw = model.similarity(unit), unit @ unit.T
    assert S[0, 5] > raw[0, 5] + 0.2
    assert S[0, 6] < max(raw[0, 6], 0.1)
    far = np.abs(raw[0]) < 0.1
    assert np.abs((S - raw)[far]).mean() < 0.1


@pytest.mark.parametrize("sides", ["both", "query", "gallery"])
def test_a_model_of_two_sides_is_saved_and_loaded(tmp_path, sides):
    Q, G, _, _, relevance = _planted_sides(60, 50, 8, 5, 3, 0.3, seed=2)
    model = SLR(3, sides=sides).fit(Q, relevance, gallery=G)
    back = load(model.save(tmp_path / "m.likewise"))
    np.testing.assert_array_equal(back.similarity(Q, G), model.similarity(Q, G))
    assert (back.n_features_in_, back.n_gallery_features_, back.query_map().shape) == (8, 5, (8, 5))
    prior = SLR(3, prior="identity", prior_strength=np.inf).fit(X, Y)
    again = load(prior.save(tmp_path / "p.likewise"))
    np.testing.assert_array_equal(again.transform(X), prior.transform(X))
    assert again.strength_ == np.inf


def test_each_side_has_its_own_width():
    Q, G, _, _, relevance = _planted_sides(60, 50, 8, 5, 3, 0.3, seed=2)
    model = SLR(3).fit(Q, relevance, gallery=G)
    assert (model.transform_query(Q).shape, model.transform(G).shape) == ((60, 3), (50, 3))
    assert list(model.set_output(transform="pandas").transform(G).columns) == ["slr0", "slr1", "slr2"]
    for use in (model.transform, model.similarity, lambda rows: model.score(rows, np.zeros(60))):
        with pytest.raises(ValueError, match="gallery has 8 columns: SLR was fitted with a gallery side of 5"):
            use(Q)


TRIPLES = Relevance.from_triples([0, 1], [1, 2], [1, 0])
BAD = {
    "shape": (SLR(), X, Relevance(SAME[:, :99]), {}, "relevance has shape (150, 99): expected (150, 150)"),
    "gallery shape": (
        SLR(),
        X,
        Relevance(SAME),
        {"gallery": X[:9]},
        "relevance has shape (150, 150): expected (150, 9)",
    ),
    "labels and gallery": (
        SLR(),
        X,
        Y,
        {"gallery": X},
        "gallery is given with a y of type ndarray: expected a Relevance",
    ),
    "rows": (SLR(), X, np.eye(4)[Y][:99], {}, "y is an indicator of 99 rows: expected 150, as many as X has"),
    "nothing relevant": (SLR(), X, Relevance.from_pairs([], [(0, 1)]), {}, "relevance holds no relevant pair"),
    "widths": (
        SLR(prior="identity"),
        X,
        Relevance(SAME),
        {"gallery": X[:, :5]},
        "prior='identity' needs two sides of one width: X has 12 columns and gallery 5",
    ),
    "compress": (SLR(compress="sample", compress_size=9), X, TRIPLES, {}, "compress='sample' is for one label per row"),
    "start": (SLR(init="paper"), X, TRIPLES, {}, "init='paper' is for one label per row"),
    "alpha": (SLR(alpha=1.0, prior="identity"), X, Y, {}, "alpha=1.0 has no meaning with a prior"),
    "sides": (SLR(sides="left"), X, Y, {}, "The 'sides' parameter of SLR must be a str among"),
    "weights": (
        SLR(),
        X,
        TRIPLES,
        {"sample_weight": np.zeros(150)},
        "Sample weights must contain at least one non-zero number",
    ),
    "nan": (SLR(), X, TRIPLES, {"gallery": np.where(np.eye(150, 12) == 1, np.nan, X)}, "gallery contains NaN"),
    "one class left": (SLR(), X, np.where(Y == 0, None, 7), {}, "y has one class only, 7"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_teaching_gets_a_sentence(case):
    model, rows, y, more, message = BAD[case]
    with pytest.raises(ValueError, match=re.escape(message)):
        model.fit(rows, y, **more)


def test_a_matrix_beside_a_gallery_is_a_relevance():
    expected = SLR(3).fit(X, Relevance(SAME[:, :20]), gallery=X[:20]).query_map()
    close(SLR(3).fit(X, SAME[:, :20], gallery=X[:20]).query_map(), expected)


def test_history_tol_and_the_bar_work_as_for_labels(capsys):
    Q, G, _, _, relevance = _planted_sides(300, 200, 8, 5, 3, 0.3, seed=2)
    model = SLR(3, n_iter=50, tol=1e-3, verbose=1).fit(Q, relevance, gallery=G)
    assert 1 < model.n_iter_ < 50
    assert len(model.history_) == model.n_iter_
    assert "learning, loss" in capsys.readouterr().err
