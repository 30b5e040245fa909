"""Logs of clicks: how often places are seen, what was skipped, and what is long ago."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from likewise.errors import LikewiseError
from likewise.rows import Relevance


def entries(relevance: Relevance) -> dict[tuple[int, int], float]:
    part = relevance.R.tocoo()
    return {(int(q), int(g)): float(v) for q, g, v in zip(part.row, part.col, part.data, strict=True)}


def simulated(sessions: int, shuffled: float, seed: int = 0) -> tuple[np.ndarray, dict[str, np.ndarray], np.ndarray]:
    """Propensities, a log by them, and which pairs are relevant: lists of 10 items whose order varies."""
    rng, n, k = np.random.default_rng(seed), 600, 10
    theta = 1 / np.arange(1, k + 1) ** 0.7
    relevant = rng.random((n, k)) < np.linspace(0.5, 0.2, k)
    parts = []
    for session in range(sessions):
        items = np.argsort(np.arange(k) + shuffled * rng.standard_normal((n, k)), axis=1)
        attracts = np.where(np.take_along_axis(relevant, items, axis=1), 0.8, 0.05)
        clicked = rng.random((n, k)) < theta * attracts
        queries, position = np.indices((n, k)) + 1
        parts.append(np.stack([queries - 1, items, clicked, position, np.full((n, k), session)]).reshape(5, -1))
    names = ("queries", "items", "clicked", "position", "session")
    return theta, dict(zip(names, np.concatenate(parts, axis=1).astype(int), strict=True)), relevant


@pytest.mark.parametrize(("sessions", "shuffled"), [(20, 0.0), (5, 3.0)])
def test_propensities_are_those_that_made_the_log(sessions: int, shuffled: float) -> None:
    theta, log, relevant = simulated(sessions, shuffled)
    relevance = Relevance.from_clicks(**log, shape=(600, 10))
    hits = log["clicked"].sum()
    assert relevance.summary.startswith(f"{hits:,} clicks of ")
    fifth = float(relevance.summary.rsplit(" ", 1)[1])
    assert relevance.summary.endswith(f"; 1st place seen 1.0, 5th {fifth:.2f}".replace("0.", ".").replace("1 .", "1.0"))
    assert abs(fifth - theta[4]) < 0.1
    gains = relevance.R.toarray()
    clicked = gains > 0
    assert gains[clicked & relevant].mean() > gains[clicked & ~relevant].mean() + (0.4 if sessions == 20 else 0.1)


def test_one_click_of_many_views_counts_little_and_many_count_much() -> None:
    queries, items = np.zeros(40, dtype=int), np.repeat([0, 1], 20)
    clicked = np.where(items == 0, np.arange(40) < 16, np.arange(40) == 25)
    more = np.arange(1, 21)
    log = (np.concatenate([queries, more]), np.concatenate([items, np.zeros(20, dtype=int)]))
    gains = entries(Relevance.from_clicks(*log, np.concatenate([clicked, np.arange(20) % 2])))
    assert gains[0, 0] > 0.9
    assert gains[0, 1] < 0.2


def test_clicks_alone_add_up_by_their_weight_and_age() -> None:
    assert entries(Relevance.from_clicks([0, 0, 0], [1, 1, 2])) == {(0, 1): 2.0, (0, 2): 1.0}
    assert entries(Relevance.from_clicks([0, 0], [1, 2], weight=[2, 0.5])) == {(0, 1): 2.0, (0, 2): 0.5}
    dates = np.array(["2026-01-01", "2026-01-11"], dtype="datetime64[D]")
    assert entries(Relevance.from_clicks([0, 0], [1, 2], time=dates, half_life=5)) == {(0, 1): 0.25, (0, 2): 1.0}
    assert entries(Relevance.from_clicks([0, 0], [1, 2], [3, 1])) == {(0, 1): 3.0, (0, 2): 1.0}


def test_given_propensities_weigh_clicks_of_places_that_are_seldom_seen() -> None:
    log = Relevance.from_clicks([0, 0], [1, 2], position=[1, 3], propensities=[1.0, 0.5])
    assert entries(log) == {(0, 1): 1.0, (0, 2): 2.0}
    assert log.summary == "2 clicks of 1 query; 1st place seen 1.0, 3rd .50"


def test_what_was_shown_in_vain_is_irrelevant_and_below_the_last_click_unknown() -> None:
    shown = entries(Relevance.from_clicks([0, 0, 0, 0], [1, 1, 2, 3], [0, 1, 0, 0]))
    assert shown.keys() == {(0, 1), (0, 2), (0, 3)}
    assert shown[0, 1] > 0 == shown[0, 2] == shown[0, 3]
    placed = entries(Relevance.from_clicks([0, 0, 0, 1], [1, 2, 3, 1], [0, 1, 0, 0], position=[1, 2, 3, 1]))
    assert placed.keys() == {(0, 1), (0, 2)}  # query 0 skipped item 1, query 1 clicked nothing
    assert placed[0, 2] > 0 == placed[0, 1]


def test_a_list_ends_at_its_session() -> None:
    log: dict[str, Any] = {"clicked": [0, 1, 0, 0], "position": [1, 2, 1, 2]}
    one = Relevance.from_clicks([0, 0, 0, 0], [1, 2, 3, 4], **log)
    assert entries(one).keys() == {(0, 1), (0, 2), (0, 3)}
    assert entries(Relevance.from_clicks([0, 0, 0, 0], [1, 2, 3, 4], **log, session=["a", "a", "b", "b"])).keys() == {
        (0, 1),
        (0, 2),
    }


BAD = {
    "no click": ({"clicked": [0, 0]}, "clicks has no click: no pair is known to be relevant"),
    "clicks": ({"clicked": [1, np.nan]}, "clicked has a value that is not finite: expected 0, or the number of clicks"),
    "position": ({"position": [1]}, "position has 1 entries: expected 2, one per row of the log"),
    "places": ({"position": [1, np.inf]}, "position has a value that is not finite: expected places from 1"),
    "session": ({"session": [1]}, "session has 1 entries: expected 2, one per row of the log"),
    "weight": ({"weight": [1, -1]}, "weight has a value below 0, or one that is not finite: expected weights from 0"),
    "no time": ({"half_life": 3}, "half_life=3 needs time: give the days or dates of the rows"),
    "half-life": ({"half_life": 0, "time": [0, 1]}, "half_life=0: expected a number of days above 0"),
    "time": ({"half_life": 3, "time": [0, np.nan]}, "time has a value that is not finite: expected days, or dates"),
    "propensities": (
        {"position": [1, 2], "propensities": [1, 0]},
        "propensities=[1, 0]: expected numbers above 0 and up to 1, one per place",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_log_gets_a_sentence(case: str) -> None:
    columns, message = BAD[case]
    with pytest.raises(LikewiseError, match=re.escape(message)):
        Relevance.from_clicks([0, 0], [1, 2], **columns)
