"""How sure results are, as the API says it: the numbers of the library, and nothing where there are none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from likewise.search import Index
from likewise.serve import ServerSettings, create_app
from likewise.teach import load_index
from tests.serve.conftest import ask, picture, talking


@pytest.fixture
def sure(sure_index: Path) -> Iterator[tuple[Any, Index]]:
    """A client of calibrated digits, and their index."""
    index = load_index(sure_index)
    with talking(create_app(index, ServerSettings(), None)) as client:
        yield client, index


@pytest.mark.parametrize("row", [5, 17, 120])
def test_both_forms_of_a_search_say_what_the_library_says(sure: Any, row: int) -> None:
    client, index = sure
    hits = index.search(index.raw[row : row + 1], k=20)
    ids, expected = hits.ids, hits.probabilities
    expected = {int(i): p for i, p in zip(ids[0], expected[0], strict=True) if i != row}
    for answer in (client.get(f"/api/search?row={row}&k=10").json(), ask(client, like=[{"row": row}], k=10)):
        for hit in answer["hits"]:
            assert hit["probability"] == pytest.approx(expected[hit["row"]], rel=1e-4)


def test_without_a_calibration_there_is_no_probability_and_no_cut_off(client: Any) -> None:
    hits = [*client.get("/api/search?row=1").json()["hits"], *ask(client, like=[{"row": 1}])["hits"]]
    assert {hit["probability"] for hit in hits} == {None}
    assert client.get("/api/status").json()["calibrated"] is False
    for answer in (
        client.get("/api/search?row=1&at_most_wrong=0.1"),
        client.post("/api/search", json={"like": [{"row": 1}], "at_most_wrong": 0.1}),
    ):
        assert answer.status_code == 422
        assert "no calibration" in answer.json()["detail"]


def test_the_raw_features_are_not_calibrated(sure: Any) -> None:
    client, _ = sure
    assert {hit["probability"] for hit in ask(client, like=[{"row": 1}], side="raw")["hits"]} == {None}
    answer = client.get("/api/search?row=1&side=raw&at_most_wrong=0.1")
    assert (answer.status_code, "raw features" in answer.json()["detail"]) == (422, True)


@pytest.mark.parametrize("share", [0.5, 0.2, 0.1, 0.05])
def test_results_end_where_the_library_ends_them(sure: Any, share: float) -> None:
    client, index = sure
    for row in (5, 17, 120):
        (expected,) = index.search(index.raw[row : row + 1], k=None, at_most_wrong=share)
        wanted = [int(i) for i in expected.ids if i != row]
        by_row = client.get(f"/api/search?row={row}&k=200&at_most_wrong={share}").json()
        posted = ask(client, like=[{"row": row}], k=200, at_most_wrong=share)
        for answer in (by_row, posted):
            assert [hit["row"] for hit in answer["hits"]] == wanted
            assert answer["total"] == len(wanted)
            assert answer["about_wrong"] == pytest.approx(float((1 - expected.probabilities).sum()), abs=0.05)


def test_pages_of_results_above_a_cut_off_follow_one_another(sure: Any) -> None:
    client, _ = sure
    query = {"like": [{"row": 5}], "at_most_wrong": 0.1}
    whole = [hit["row"] for hit in ask(client, **query, k=200)["hits"]]
    parts = [ask(client, **query, k=10, offset=offset)["hits"] for offset in range(0, len(whole) + 10, 10)]
    assert [hit["row"] for part in parts for hit in part] == whole


def test_a_query_unlike_anything_known_says_so(sure: Any) -> None:
    client, index = sure
    novelty = index.model.novelty(np.asarray(index.raw))
    for row in (int(novelty.argmax()), int(novelty.argmin())):
        assert ask(client, like=[{"row": row}])["novelty"] == pytest.approx(float(novelty[row]), rel=1e-3)
    together = ask(client, like=[{"row": int(novelty.argmax())}, {"row": int(novelty.argmin())}])
    assert together["novelty"] < 1  # one of them is known


def test_a_picture_from_outside_has_probabilities_too(sure: Any) -> None:
    client, index = sure
    data = Path(index.image_path(5)).read_bytes()
    for body in (data, picture()):
        name = client.post("/api/uploads", content=body, headers={"content-type": "image/png"}).json()["upload"]
        assert ask(client, like=[{"upload": name}])["hits"][0]["probability"] is not None
