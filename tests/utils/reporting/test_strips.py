"""Retrieval strips: the right neighbours in the right frames, and queries chosen without favour."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from likewise.errors import LikewiseError
from likewise.utils.reporting.strips import HIT, MISS, QUERY, UNKNOWN, Panel, choose_queries, nearest, retrieval_strips


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 20), st.integers(1, 5), st.integers(0, 99))
def test_nearest_is_the_order_of_all_scores_without_oneself(n: int, r: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    Q, G = rng.normal(size=(n, r)), rng.normal(size=(n, r))
    found = nearest(Q, G, n - 1, own=np.arange(n))
    for i in range(n):
        assert found[i].tolist() == sorted(set(range(n)) - {i}, key=lambda j: -(Q[i] @ G[j]))


def test_asking_for_more_than_there_is_gets_a_sentence() -> None:
    with pytest.raises(LikewiseError, match="k=3: expected 1 to 2, the number of items that can be found"):
        nearest(np.eye(3), np.eye(3), 3, own=np.arange(3))


def _count(picture: Image.Image, colour: tuple[int, int, int]) -> int:
    return int((np.asarray(picture) == np.array(colour, dtype=np.uint8)).all(axis=2).sum())


@pytest.mark.parametrize("shape", [(8, 8), (30, 20, 3)])
@pytest.mark.parametrize("n_panels", [1, 3])
def test_frames_have_the_colours_of_hits_and_misses(shape: tuple[int, ...], n_panels: int) -> None:
    images = [np.full(shape, 9, np.uint8) for _ in range(6)]
    y = np.array([0, 0, 0, 1, 1, 1])
    found = np.array([[1, 2, 3], [4, 0, 1]])
    panels = [Panel(f"method {i}", found, "mAP 0.5", ["#1", "#2", "#3"] if i else ()) for i in range(n_panels)]
    picture = retrieval_strips([images[0], images[3]], images, panels, y[[0, 3]], y, cell=32)
    assert np.asarray(picture).dtype == np.uint8
    frame, swatch = (32 + 8) ** 2 - 32**2, 14**2
    assert _count(picture, QUERY) == 2 * frame + swatch
    assert _count(picture, HIT) == n_panels * 3 * frame + swatch
    assert _count(picture, MISS) == n_panels * 3 * frame + swatch


def test_a_label_that_is_not_known_is_framed_grey() -> None:
    images = [np.full((8, 8), 9, np.uint8) for _ in range(3)]
    labels = np.array(["a", "b", None], dtype=object)
    panel = Panel("method", np.array([[0, 1, 2], [0, 1, 2]]))
    picture = retrieval_strips(images[:2], images, [panel], np.array(["a", None], dtype=object), labels)
    frame, swatch = 4 * 4 * (56 + 4), 14 * 14
    assert _count(picture, HIT) == _count(picture, MISS) == frame + swatch
    assert _count(picture, UNKNOWN) == 4 * frame + swatch


def test_strips_of_nothing_get_a_sentence() -> None:
    with pytest.raises(LikewiseError, match="at least one query and one panel"):
        retrieval_strips([], [], [], [], [])


def test_the_choice_of_queries_favours_no_method() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(200) % 10
    before, after = rng.integers(0, 6, 200), rng.integers(0, 6, 200)
    chosen, differing = choose_queries([before, after], y, 6, seed=1)
    swapped, _ = choose_queries([after, before], y, 6, seed=1)
    assert chosen.tolist() == swapped.tolist()
    assert differing == 4
    assert (before[chosen[:4]] != after[chosen[:4]]).all()
    assert len(set(y[chosen])) == len(set(chosen.tolist())) == 6


def test_the_choice_depends_on_the_seed_alone() -> None:
    hits = [np.zeros(50), np.arange(50) % 2]
    y = np.arange(50) % 5
    again = [choose_queries(hits, y, 5, seed)[0].tolist() for seed in (0, 0, 1)]
    assert again[0] == again[1] != again[2]


def test_queries_are_found_where_nothing_differs_and_where_there_are_few() -> None:
    chosen, differing = choose_queries([np.ones(4), np.ones(4)], np.zeros(4), 6)
    assert differing == 0
    assert sorted(chosen.tolist()) == [0, 1, 2, 3]
