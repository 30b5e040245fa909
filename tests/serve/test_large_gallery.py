"""A gallery that is larger than the graph of a lesson: all that a page asks for is answered after the lesson, too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from likewise.serve import map as web_map
from likewise.teach import learning, taught_index
from likewise.teach.taught_index import LessonVectors
from tests.serve.conftest import ask, talking


@pytest.fixture
def taught(application: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A client of a server whose 400 digits count as many, after a lesson."""
    monkeypatch.setattr(learning, "MOST_ROWS", 200)
    monkeypatch.setattr(taught_index, "DENSE_UP_TO", 200)
    monkeypatch.setattr(learning, "CANDIDATES", 150)
    monkeypatch.setattr(web_map, "POINTS", 100)
    app = application()
    with talking(app) as client:
        items = [hit["row"] for hit in client.get("/api/search?row=3&k=8").json()["hits"]]
        for right, some in ((True, items[:5]), (False, items[5:])):
            client.post("/api/marks", json={"query": [{"row": 3}], "items": some, "right": right})
        assert client.post("/api/learn").status_code == 202
        app.state.teaching.job.wait(60)
        assert isinstance(app.state.session.learned.G, LessonVectors)
        yield client


GETS = (
    "/api/search?row=3", "/api/search?row=7&side=raw", "/api/search?row=7&side=previous", "/api/items/7", "/api/items",
    "/api/map", "/api/map/tile?z=0&x=0&y=0", "/api/suggestions?row=3", "/api/status", "/api/facets", "/api/labels",
    "/api/feedback", "/api/model", "/api/duplicates",
)  # fmt: skip


def test_every_request_of_the_page_is_answered_after_a_lesson(taught: Any) -> None:
    answers = {path: taught.get(path) for path in GETS}
    assert {path: answer.text for path, answer in answers.items() if answer.status_code != 200} == {}


def test_a_search_by_one_item_finds_what_a_search_by_examples_finds(taught: Any) -> None:
    for row in (3, 11, 250):
        alone = [hit["row"] for hit in taught.get(f"/api/search?row={row}&k=10").json()["hits"]]
        assert alone == [hit["row"] for hit in ask(taught, like=[{"row": row}], k=10)["hits"]]
