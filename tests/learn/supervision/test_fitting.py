"""Fits from pairs: sides, priors and their strength, holdouts."""

from __future__ import annotations

import re

import numpy as np
import pytest
from tests.learn.supervision.problems import planted_sides
from tests.planted import planted, same_label

from likewise import SLR, PairSLR, load
from likewise.learn.supervision.fitting import holdouts
from likewise.learn.supervision.reading import Supervision
from likewise.rows import Relevance, SharedLabels

X, Y = planted(150, 12, 4)


SAME = same_label(Y).astype(float)


def close(A: np.ndarray, B: np.ndarray, tolerance: float = 1e-8) -> None:
    np.testing.assert_allclose(A, B, atol=tolerance * np.abs(B).max())


@pytest.mark.parametrize("y", [Y, Relevance.from_triples([0, 3, 5], [1, 2, 7], [1, 0, 1])], ids=["labels", "relevance"])
def test_one_side_may_stay_as_it_is(y):
    both, query, gallery = (PairSLR(4, max_iter=2, sides=sides).fit(X, y) for sides in ("both", "query", "gallery"))
    np.testing.assert_array_equal(query.transform(X), X)
    np.testing.assert_array_equal(gallery.transform_query(X), X)
    close(query.transform_query(X), X @ both.query_map(), 1e-10)
    for model in (query, gallery):
        close(model.similarity(X), both.similarity(X), 1e-10)


@pytest.mark.parametrize("sides", ["both", "query", "gallery"])
def test_a_model_of_two_sides_is_saved_and_loaded(tmp_path, sides):
    Q, G, _, _, relevance = planted_sides(60, 50, 8, 5, 3, 0.3, seed=2)
    model = PairSLR(3, sides=sides).fit(Q, relevance, gallery=G)
    back = load(model.save(tmp_path / "m.likewise"))
    np.testing.assert_array_equal(back.similarity(Q, G), model.similarity(Q, G))
    assert (back.n_features_in_, back.n_gallery_features_, back.query_map().shape) == (8, 5, (8, 5))
    prior = PairSLR(3, prior="identity", prior_strength=np.inf).fit(X, Y)
    again = load(prior.save(tmp_path / "p.likewise"))
    np.testing.assert_array_equal(again.transform(X), prior.transform(X))
    assert again.strength_ == np.inf


def test_each_side_has_its_own_width():
    Q, G, _, _, relevance = planted_sides(60, 50, 8, 5, 3, 0.3, seed=2)
    model = PairSLR(3).fit(Q, relevance, gallery=G)
    assert (model.transform_query(Q).shape, model.transform(G).shape) == ((60, 3), (50, 3))
    assert list(model.set_output(transform="pandas").transform(G).columns) == ["pairslr0", "pairslr1", "pairslr2"]
    for use in (model.transform, model.similarity, lambda rows: model.score(rows, np.zeros(60))):
        with pytest.raises(ValueError, match="gallery has 8 columns: PairSLR was fitted with a gallery side of 5"):
            use(Q)


TRIPLES = Relevance.from_triples([0, 1], [1, 2], [1, 0])


BAD = {
    "shape": (PairSLR(), X, Relevance(SAME[:, :99]), {}, "relevance has shape (150, 99): expected (150, 150)"),
    "gallery shape": (
        PairSLR(),
        X,
        Relevance(SAME),
        {"gallery": X[:9]},
        "relevance has shape (150, 150): expected (150, 9)",
    ),
    "labels and gallery": (
        PairSLR(),
        X,
        Y,
        {"gallery": X},
        "gallery is given with a y of type ndarray: expected a Relevance",
    ),
    "rows": (PairSLR(), X, np.eye(4)[Y][:99], {}, "y is an indicator of 99 rows: expected 150, as many as X has"),
    "nothing relevant": (PairSLR(), X, Relevance.from_pairs([], [(0, 1)]), {}, "relevance holds no relevant pair"),
    "widths": (
        PairSLR(prior="identity"),
        X,
        Relevance(SAME),
        {"gallery": X[:, :5]},
        "prior='identity' needs two sides of one width: X has 12 columns and gallery 5",
    ),
    "alpha": (PairSLR(alpha=1.0, prior="identity"), X, Y, {}, "alpha=1.0 has no meaning with a prior"),
    "sides": (PairSLR(sides="left"), X, Y, {}, "The 'sides' parameter of PairSLR must be a str among"),
    "weights": (
        PairSLR(),
        X,
        TRIPLES,
        {"sample_weight": np.zeros(150)},
        "Sample weights must contain at least one non-zero number",
    ),
    "nan": (PairSLR(), X, TRIPLES, {"gallery": np.where(np.eye(150, 12) == 1, np.nan, X)}, "gallery contains NaN"),
    "one class left": (PairSLR(), X, np.where(Y == 0, None, 7), {}, "y has one class only, 7"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_teaching_gets_a_sentence(case):
    model, rows, y, more, message = BAD[case]
    with pytest.raises(ValueError, match=re.escape(message)):
        model.fit(rows, y, **more)


@pytest.mark.parametrize("sides", ["both", "query"])
def test_an_endless_prior_is_the_raw_ranking_and_a_weak_one_is_none(sides):
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    model = PairSLR(4, prior="identity", prior_strength=np.inf, sides=sides).fit(unit, Y)
    close(model.similarity(unit), unit @ unit.T, 1e-12)
    firm, weak = (PairSLR(None, prior="identity", prior_strength=s, sides=sides).fit(unit, Y) for s in (1e6, 1e-9))
    close(firm.similarity(unit), unit @ unit.T, 1e-3)
    expected = SLR(None, init="paper").fit(unit, Y).similarity(unit)  # which starts from the identity as well
    close(weak.similarity(unit), expected, 0.05)


def test_with_a_prior_lengths_do_not_matter():
    lengths = np.random.default_rng(0).uniform(0.1, 10, (150, 1))
    model = PairSLR(4, prior="identity", prior_strength=3.0)
    close(model.fit(X * lengths, Y).similarity(X), model.fit(X, Y).similarity(X))


def test_the_strength_is_chosen_and_what_is_unseen_does_not_suffer(digits):
    X, y, *_ = digits
    seen = y < 5
    model = PairSLR(prior="identity", max_iter=2).fit(X[seen], y[seen])
    raw = PairSLR(prior="identity", prior_strength=np.inf).fit(X[seen], y[seen])
    assert model.strengths_[0]["strength"] == np.inf
    assert model.score(X[~seen], y[~seen]) >= raw.score(X[~seen], y[~seen]) - 0.003


@pytest.mark.parametrize("y", [SharedLabels(np.random.default_rng(0).random((150, 5)) < 0.4), Relevance(SAME)])
def test_a_prior_is_for_every_kind_of_teaching(y):
    model = PairSLR(4, prior="identity", max_iter=2).fit(X, y)
    assert model.strength_ > 0
    assert len(model.strengths_) > 1


def test_what_one_query_taught_leaves_the_others_as_they_were():
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    relevance = Relevance.from_triples([0, 0], [5, 6], [1, 0], shape=(150, 150))
    model = PairSLR(4, prior="identity", prior_strength=1e-3, sides="query").fit(unit, relevance)
    S, raw = model.similarity(unit), unit @ unit.T
    assert S[0, 5] > raw[0, 5] + 0.2
    assert S[0, 6] < max(raw[0, 6], 0.1)
    far = np.abs(raw[0]) < 0.1
    assert np.abs((S - raw)[far]).mean() < 0.1


FEW, FEW_LABELS = planted(80, 6, 4)


def test_classes_that_are_held_out_are_not_learned_from():
    folds = holdouts(Supervision(FEW, FEW, FEW_LABELS), np.random.default_rng(0))
    assert len(folds) == 4
    for one, other in (folds[:2], folds[2:]):
        seen, held = (set(part.known.tolist()) for part, _ in (one, other))
        assert not seen & held
        assert seen | held == {0, 1, 2, 3}


def test_items_and_queries_are_halved_both_ways():
    shared = Supervision(FEW, FEW, SharedLabels(np.eye(4)[FEW_LABELS]))
    assert [part.X.shape[0] for part, _ in holdouts(shared, np.random.default_rng(0))] == [40] * 4
    queries = Supervision(FEW[:10], FEW, Relevance((FEW_LABELS[:10, None] == FEW_LABELS).astype(float)))
    parts = [part for part, _ in holdouts(queries, np.random.default_rng(0))]
    assert [part.X.shape[0] for part in parts] == [5, 5]
    assert all(part.gallery is FEW for part in parts)


def test_too_few_queries_are_not_held_out():
    few = Supervision(FEW[:3], FEW, Relevance((FEW_LABELS[:3, None] == FEW_LABELS).astype(float)))
    assert holdouts(few, np.random.default_rng(0)) == []
