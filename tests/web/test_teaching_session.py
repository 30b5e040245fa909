"""Teaching on the page: marks are saved, lessons run in the background, every step can be undone."""

from __future__ import annotations

import csv
import io
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from likewise.retrieval import Index
from likewise.web import create_app
from tests.web.conftest import N, doubtful, found, talking


def test_a_mark_is_on_disk_when_it_is_confirmed_and_survives_a_restart(client: Any, index_folder: Path) -> None:
    answer = client.post("/api/marks", json={"query": [{"row": 3}], "item": 8, "right": False})
    assert answer.status_code == 201
    assert answer.json()["feedback"] == {"total": 1, "pending": 1}
    assert '"item": 8' in (index_folder / "feedback.jsonl").read_text()
    label = client.get("/api/items/9").json()["label"]
    client.post("/api/labels", json={"item": 9, "label": "digit nine"})
    with talking(create_app(Index.load(index_folder), folder=index_folder)) as later:
        entries = later.get("/api/feedback").json()
        assert [(e["kind"], e["query"], e["item"]) for e in entries] == [("mark", 3, 8), ("label", None, 9)]
        assert later.get("/api/items/9").json()["label"] == "digit nine"
        assert later.post("/api/undo").json()["undone"] == "label digit nine"
        assert later.get("/api/items/9").json()["label"] == label
        assert later.post("/api/undo").status_code == 200
        assert later.post("/api/undo").status_code == 409
        assert later.get("/api/feedback").json() == []


def test_feedback_is_exported_as_csv(client: Any) -> None:
    client.post("/api/marks", json={"query": [{"row": 3}, {"row": 4}], "item": 8, "right": True})
    client.post("/api/labels", json={"item": 9, "label": '=1+1, "quoted"'})
    answer = client.get("/api/feedback.csv")
    assert answer.headers["content-type"].startswith("text/csv")
    assert "attachment" in answer.headers["content-disposition"]
    lines = list(csv.DictReader(io.StringIO(answer.text)))
    assert [(line["kind"], line["query"], line["item"], line["right"]) for line in lines] == [
        ("mark", "3", "8", "true"), ("mark", "4", "8", "true"), ("label", "", "9", ""),
    ]  # fmt: skip
    assert not lines[2]["label"].startswith("=")  # a spreadsheet must not calculate it


def test_a_lesson_is_learned_in_the_background_and_undone(application: Callable[..., Any]) -> None:
    app = application()
    with talking(app) as client:
        assert client.post("/api/learn").status_code == 422  # nothing to learn from yet
        row = doubtful(app)
        old = client.get(f"/api/search?row={row}").json()
        for hit in old["hits"][:12]:
            client.post("/api/marks", json={"query": [{"row": row}], "item": hit["row"], "right": hit["relevant"]})
        assert client.post("/api/learn").status_code == 202
        app.state.teaching.job.wait()
        status = client.get("/api/status").json()
        assert (status["learning"]["state"], status["version"], status["previous"]) == ("done", 1, True)
        assert status["feedback"] == {"total": 12, "pending": 0}
        assert status["lesson"]["marks"] == 12
        assert status["lesson"]["after"] > status["lesson"]["before"]
        new = client.get(f"/api/search?row={row}").json()
        assert (new["version"], new["hits"] != old["hits"]) == (1, True)
        assert client.get(f"/api/search?row={row}&side=previous").json()["hits"] == old["hits"]
        assert client.post("/api/undo").json()["undone"] == "lesson 1"
        assert client.get(f"/api/search?row={row}").json()["hits"] == old["hits"]
        assert client.get("/api/status").json()["feedback"] == {"total": 12, "pending": 12}


def test_one_can_search_while_a_lesson_is_learned_but_not_begin_another(application: Callable[..., Any]) -> None:
    app = application()
    gate = threading.Event()
    with talking(app) as client:
        client.post("/api/labels", json={"item": 1, "label": "digit 5"})
        app.state.teaching.job.submit(lambda: gate.wait(20))  # the lesson has to wait
        assert client.post("/api/learn").status_code == 202
        assert client.get("/api/status").json()["learning"]["state"] == "running"
        assert client.get("/api/search?row=1").status_code == 200
        assert client.post("/api/learn").status_code == 409
        assert client.post("/api/undo").status_code == 422
        gate.set()
        app.state.teaching.job.wait()
        assert client.get("/api/status").json()["learning"]["state"] == "done"


@pytest.mark.parametrize("item", [3, N])
def test_a_mark_on_the_query_itself_or_on_nothing_is_refused(client: Any, item: int) -> None:
    answer = client.post("/api/marks", json={"query": [{"row": 3}], "item": item, "right": True})
    assert answer.status_code in (404, 422)
    assert client.get("/api/feedback").json() == []


def test_an_upload_can_be_taught_with(application: Callable[..., Any], index_folder: Path) -> None:
    app = application()
    with talking(app) as client:
        picture = Index.load(index_folder).image_path(7).read_bytes()
        name = client.post("/api/uploads", content=picture, headers={"content-type": "image/png"}).json()["upload"]
        assert client.get(f"/api/uploads/{name}").content[:2] == b"\xff\xd8"
        client.post("/api/marks", json={"query": [{"upload": name}], "item": 20, "right": True})
        assert client.get("/api/feedback").json()[0]["upload"] == name
        client.post("/api/learn")
        app.state.teaching.job.wait()
        assert client.get("/api/status").json()["learning"]["state"] == "done"
        assert found(client, like=[{"upload": name}])["version"] == 1


def test_a_mark_for_several_examples_is_saved_for_all_or_for_none(client: Any) -> None:
    query = [{"row": 3}, {"row": 8}]
    assert client.post("/api/marks", json={"query": query, "item": 8, "right": True}).status_code == 422
    query[1] = {"upload": "unknown"}
    assert client.post("/api/marks", json={"query": query, "item": 8, "right": True}).status_code == 404
    assert client.get("/api/feedback").json() == []
    query[1] = {"row": 4}
    status = client.post("/api/marks", json={"query": query, "item": 8, "right": True}).json()
    assert status["feedback"] == {"total": 2, "pending": 2}
    assert client.post("/api/undo").json()["feedback"] == {"total": 0, "pending": 0}
