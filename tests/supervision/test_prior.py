"""A prior: what it keeps, and how its strength is chosen."""

from __future__ import annotations

import numpy as np
import pytest
from tests.planted import planted, same_label

from likewise import SLR
from likewise.data.relevance import Relevance
from likewise.data.shared_labels import SharedLabels

X, Y = planted(150, 12, 4)


SAME = same_label(Y).astype(float)


def close(A: np.ndarray, B: np.ndarray, tolerance: float = 1e-8) -> None:
    np.testing.assert_allclose(A, B, atol=tolerance * np.abs(B).max())


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
