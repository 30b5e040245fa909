"""What is held out to choose a prior's strength."""

from __future__ import annotations

import numpy as np
from tests.planted import planted

from likewise.data import Relevance, SharedLabels
from likewise.supervision.holdouts import holdouts
from likewise.supervision.reading import Supervision

X, Y = planted(80, 6, 4)


def test_classes_that_are_held_out_are_not_learned_from():
    folds = holdouts(Supervision(X, X, Y), np.random.default_rng(0))
    assert len(folds) == 4
    for one, other in (folds[:2], folds[2:]):
        seen, held = (set(part.known.tolist()) for part, _ in (one, other))
        assert not seen & held
        assert seen | held == {0, 1, 2, 3}


def test_items_and_queries_are_halved_both_ways():
    shared = Supervision(X, X, SharedLabels(np.eye(4)[Y]))
    assert [part.X.shape[0] for part, _ in holdouts(shared, np.random.default_rng(0))] == [40] * 4
    queries = Supervision(X[:10], X, Relevance((Y[:10, None] == Y).astype(float)))
    parts = [part for part, _ in holdouts(queries, np.random.default_rng(0))]
    assert [part.X.shape[0] for part in parts] == [5, 5]
    assert all(part.gallery is X for part in parts)


def test_too_few_queries_are_not_held_out():
    few = Supervision(X[:3], X, Relevance((Y[:3, None] == Y).astype(float)))
    assert holdouts(few, np.random.default_rng(0)) == []
