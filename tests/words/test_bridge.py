"""The bridge: taught phrases find their pictures, others follow where left-out phrases gain, and stay where not."""

from __future__ import annotations

import numpy as np
import pytest

from likewise.evaluate import average_precision
from likewise.words.bridge import MOST, STRENGTHS, best_is_one, fit_bridge, pairs_of


def planted(seed: int, related: bool) -> tuple[np.ndarray, ...]:
    """Sentences and pictures of 40 phrases, four pictures each; related: both lie along the same hidden directions."""
    rng = np.random.default_rng(seed)
    hidden = rng.normal(size=(40, 6))
    sentences = hidden @ rng.normal(size=(6, 32)) if related else rng.normal(size=(40, 32))
    pictures = np.repeat(hidden @ rng.normal(size=(6, 20)), 4, axis=0) + rng.normal(0, 0.3, (160, 20))
    Y = np.repeat(np.eye(40), 4, axis=1)
    started = best_is_one(Y + rng.normal(0, 0.8, Y.shape))
    return sentences / np.linalg.norm(sentences, axis=1)[:, None], pictures.astype(np.float32), Y, started


def precision(S: np.ndarray, Y: np.ndarray) -> float:
    return float(np.mean([average_precision(s, y > 0) for s, y in zip(S, Y, strict=True)]))


@pytest.mark.parametrize("related", [True, False])
def test_taught_phrases_find_their_pictures_and_others_gain_or_keep_the_start(related: bool) -> None:
    E, X, Y, started = planted(0, related)
    taught, new = np.arange(30), np.arange(30, 40)
    seen = np.arange(120)
    bridge = fit_bridge(E[taught], X[seen], Y[np.ix_(taught, seen)], started[np.ix_(taught, seen)])
    S = started + bridge.queries(E) @ bridge.pictures(X).T
    assert (
        precision(S[taught][:, seen], Y[taught][:, seen])
        > precision(started[taught][:, seen], Y[taught][:, seen]) + 0.2
    )
    gained = precision(S[new], Y[new]) - precision(started[new], Y[new])
    assert bridge.gain is not None
    if related:
        assert bridge.strength != STRENGTHS[0]
        assert gained > 0.05
    else:
        assert gained > -0.02


def test_one_taught_phrase_leaves_phrases_far_from_it_alone() -> None:
    rng = np.random.default_rng(0)
    E = np.eye(3, dtype=np.float32)
    X = rng.normal(size=(6, 5)).astype(np.float32)
    Y = np.array([[1, 1, 0, 0, 0, 0]], float)
    bridge = fit_bridge(E[:1], X, Y, Y)
    added = bridge.queries(E) @ bridge.pictures(X).T
    assert bridge.gain is None
    assert added[0, :2].min() > 10 * np.abs(added[1:]).max()


def test_pairs_are_of_distinct_texts_the_most_frequent_first() -> None:
    texts, of_text, of_item = pairs_of([["b", "a"], [], ["a", "a"], ["c"]])
    assert texts == ["a", "b", "c"]
    assert sorted(zip(of_text.tolist(), of_item.tolist(), strict=True)) == [(0, 0), (0, 2), (1, 0), (2, 3)]
    assert len(pairs_of([[str(number)] for number in range(MOST + 5)])[0]) == MOST
    assert pairs_of([[], []])[0] == []
