"""SLR fitted from pairs, as people meet it: two sides, files, and a sentence for bad input."""

from __future__ import annotations

import re

import numpy as np
import pytest
from tests.planted import planted, same_label

from likewise import SLR, load
from likewise.data.relevance import Relevance

X, Y = planted(150, 12, 4)


SAME = same_label(Y).astype(float)


def close(A: np.ndarray, B: np.ndarray, tolerance: float = 1e-8) -> None:
    np.testing.assert_allclose(A, B, atol=tolerance * np.abs(B).max())


def _planted_sides(n_q, n_g, d_q, d_g, rank, share, seed, dtype=np.float64):
    rng = np.random.default_rng(seed)
    Q, G = rng.standard_normal((n_q, d_q)), rng.standard_normal((n_g, d_g))
    S = Q @ rng.standard_normal((d_q, rank)) @ rng.standard_normal((rank, d_g)) @ G.T
    known = rng.random(S.shape) < share
    relevance = Relevance.from_triples(*np.nonzero(known), S[known], shape=S.shape)
    return Q.astype(dtype), G.astype(dtype), S, known, relevance


@pytest.mark.parametrize("y", [Y, Relevance.from_triples([0, 3, 5], [1, 2, 7], [1, 0, 1])], ids=["labels", "relevance"])
def test_one_side_may_stay_as_it_is(y):
    both, query, gallery = (SLR(4, n_iter=2, sides=sides).fit(X, y) for sides in ("both", "query", "gallery"))
    np.testing.assert_array_equal(query.transform(X), X)
    np.testing.assert_array_equal(gallery.transform_query(X), X)
    close(query.transform_query(X), X @ both.query_map(), 1e-10)
    for model in (query, gallery):
        close(model.similarity(X), both.similarity(X), 1e-10)


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
