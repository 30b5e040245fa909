"""Supervision as people have it: labels in any form, with some left out, and a sentence for what cannot be."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from tests.planted import planted, same_label

from likewise import SLR
from likewise.data.relevance import Relevance
from likewise.data.shared_labels import SharedLabels

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


@pytest.mark.parametrize("rank", [4, None])
def test_weights_mean_repetition_however_labels_are_given(rank):
    weights = np.random.default_rng(0).integers(0, 3, 150).astype(float)
    model = SLR(rank, n_iter=3)
    expected = model.fit(X, Y, sample_weight=weights).query_map()
    close(model.fit(X, Relevance(SAME), sample_weight=weights).query_map(), expected)
    close(model.fit(X, np.eye(4)[Y], sample_weight=weights).query_map(), expected)


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


def test_minus_one_and_one_are_two_classes():
    y = np.where(Y < 2, -1, 1)
    model = SLR(2, n_iter=2).fit(X, y)
    assert model.classes_.tolist() == [-1, 1]
    close(model.query_map(), SLR(2, n_iter=2).fit(X, Y >= 2).query_map(), 1e-12)


def test_a_matrix_beside_a_gallery_is_a_relevance():
    expected = SLR(3).fit(X, Relevance(SAME[:, :20]), gallery=X[:20]).query_map()
    close(SLR(3).fit(X, SAME[:, :20], gallery=X[:20]).query_map(), expected)
