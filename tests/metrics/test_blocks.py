"""Measures of a gallery in blocks: those of the whole gallery."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from likewise.errors import LikewiseError
from likewise.metrics import evaluate, evaluate_blocks


def in_blocks(G: np.ndarray, size: int) -> list[np.ndarray]:
    return [G[first : first + size] for first in range(0, len(G), size)]


@given(
    seed=st.integers(0, 1000), size=st.integers(1, 60), ties=st.sampled_from(["expected", "optimistic", "pessimistic"])
)
def test_blocks_give_the_measures_of_the_whole_with_ties_and_all(seed: int, size: int, ties: Any) -> None:
    rng = np.random.default_rng(seed)
    G, y = rng.integers(-2, 3, (50, 3)).astype(float), rng.integers(0, 6, 50)
    whole = evaluate(G, G, y, ks=(1, 4), n_queries=20, random_state=seed, ties=ties)
    asked = whole.queries
    parts = evaluate_blocks(G[asked], lambda: in_blocks(G, size), y[asked], y, asked, ks=(1, 4), ties=ties)
    assert whole.per_query.keys() == parts.per_query.keys()
    for name, values in whole.per_query.items():
        np.testing.assert_allclose(parts.per_query[name], values, atol=1e-12)
    assert parts.interval == pytest.approx(whole.interval)
    assert parts.n_queries == whole.n_queries
    np.testing.assert_array_equal(parts.queries, whole.queries)


def test_queries_that_are_no_part_of_the_gallery(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    Q, G = rng.standard_normal((30, 4)), rng.standard_normal((70, 4))
    y_q, y_g = np.arange(30) % 5, np.arange(70) % 5
    monkeypatch.setattr("likewise.metrics.blocks._MOST_RELEVANT", 40)  # two or three queries at a time
    monkeypatch.setattr("likewise.metrics.blocks._QUERIES", 1)
    parts = evaluate_blocks(Q, lambda: in_blocks(G, 16), y_q, y_g)
    np.testing.assert_allclose(parts.average_precision, evaluate(Q, G, y_q, y_g).average_precision)


def test_a_gallery_that_is_not_as_its_labels_say_is_refused() -> None:
    Q, y = np.eye(3), np.array([0, 1, 0])
    for blocks, message in [
        ([np.eye(3)[:2]], "the gallery has 2 rows and y_g 3 labels"),
        ([np.eye(3), np.eye(3)], "the gallery has more than the 3 rows"),
        ([np.full((3, 3), np.nan)], "the scores of Q with the gallery are not finite"),
    ]:
        with pytest.raises(LikewiseError, match=message):
            evaluate_blocks(Q, lambda blocks=blocks: blocks, y, y)  # type: ignore[misc]
    with pytest.raises(LikewiseError, match="query 1 of Q has no relevant item"):
        evaluate_blocks(Q, lambda: [np.eye(3)], y, y, np.arange(3))
