"""The JSON interface: it finds what brute force finds, keeps what it is told, and says what is going on."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from likewise.metrics import average_precision
from likewise.retrieval import Index
from likewise.web import create_app
from tests.web.conftest import N, doubtful, talking


def _found(client: Any, **asked: Any) -> dict[str, Any]:
    answer = client.post("/api/search", json=asked)
    assert answer.status_code == 200, answer.text
    return answer.json()


def _brute(Q: np.ndarray, G: np.ndarray, row: int, k: int) -> list[int]:
    scores = (Q[row] @ G.T).astype(np.float64)
    scores[row] = -np.inf
    return np.argsort(-scores, kind="stable")[:k].tolist()


@pytest.mark.parametrize("side", ["learned", "raw"])
def test_a_search_by_row_equals_brute_force(client: Any, index_folder: Path, side: str) -> None:
    index = Index.load(index_folder)
    raw = np.asarray(index.raw, dtype=np.float32)
    unit = raw / np.linalg.norm(raw, axis=1, keepdims=True)
    Q, G = (unit, unit) if side == "raw" else (index.model.transform_query(raw), index.vectors)
    for row in (0, 7, N - 1):
        hits = client.get(f"/api/search?row={row}&k=20&side={side}").json()["hits"]
        assert [hit["row"] for hit in hits] == _brute(Q, G, row, 20)
        np.testing.assert_allclose([hit["score"] for hit in hits], [Q[row] @ G[hit["row"]] for hit in hits], rtol=1e-4)


def test_the_short_way_gives_the_same_answer_as_the_route(client: Any) -> None:
    for short, long in (("row=3&k=12", "k=12&row=3"), ("row=3", "side=learned&row=3"), ("row=9&k=200", "k=200&row=9")):
        answers = [client.get(f"/api/search?{query}") for query in (short, long)]
        bodies = [{**answer.json(), "milliseconds": 0} for answer in answers]
        assert bodies[0] == bodies[1]
        assert answers[0].headers.items() ^ answers[1].headers.items() <= _length(answers)
    for wrong, code in ((f"row={N}", 404), ("row=1&k=0", 422), ("row=1&k=201", 422), ("row=-1", 422), ("", 422)):
        assert client.get(f"/api/search?{wrong}").status_code == code


def _length(answers: list[Any]) -> set[tuple[str, str]]:
    """The one header that differs with the digits of the time."""
    return {("content-length", answer.headers["content-length"]) for answer in answers}


def test_searches_that_meet_each_get_their_own_answer(client: Any) -> None:
    alone = {row: client.get(f"/api/search?row={row}&k=5").json()["hits"] for row in range(40)}
    with ThreadPoolExecutor(16) as pool:
        together = list(pool.map(lambda row: client.get(f"/api/search?row={row}&k=5").json()["hits"], range(40)))
    for hits, expected in zip(together, alone.values(), strict=True):
        assert [hit["row"] for hit in hits] == [hit["row"] for hit in expected]
        # One row times the gallery and many rows times it may round differently.
        np.testing.assert_allclose([hit["score"] for hit in hits], [hit["score"] for hit in expected], atol=1e-5)


def test_average_precision_and_frames_follow_the_labels(client: Any, index_folder: Path) -> None:
    index = Index.load(index_folder)
    answer = _found(client, like=[{"row": 11}], k=30)
    scores = np.delete(index.model.transform_query(index.raw[11:12])[0] @ index.vectors.T, 11)
    expected = average_precision(scores, np.delete(index.labels, 11) == index.labels[11])
    assert answer["average_precision"] == pytest.approx(expected, abs=1e-4)
    assert all(hit["relevant"] == (hit["label"] == index.labels[11]) for hit in answer["hits"])
    mixed = _found(client, like=[{"row": int(np.flatnonzero(index.labels == label)[0])} for label in set(index.labels)])
    assert mixed["average_precision"] is None
    assert {hit["relevant"] for hit in mixed["hits"]} == {None}


def test_several_examples_are_their_mean_and_unwanted_ones_push_away(client: Any) -> None:
    one, two = ({h["row"]: h["score"] for h in _found(client, like=[{"row": r}], k=200)["hits"]} for r in (1, 2))
    both = {h["row"]: h["score"] for h in _found(client, like=[{"row": 1}, {"row": 2}], k=200)["hits"]}
    less = {h["row"]: h["score"] for h in _found(client, like=[{"row": 1}], unlike=[{"row": 2}], k=200)["hits"]}
    shared = one.keys() & two.keys() & both.keys()
    assert len(shared) > 10
    for row in shared:
        assert both[row] == pytest.approx((one[row] + two[row]) / 2, abs=1e-4)
    for row in one.keys() & two.keys() & less.keys():
        assert less[row] == pytest.approx(one[row] - two[row] / 2, abs=1e-4)
    assert not {1, 2} & (both.keys() | less.keys())


def test_a_filter_keeps_only_its_labels(client: Any) -> None:
    hits = _found(client, like=[{"row": 0}], labels=["digit 4", "digit 7"], k=200)["hits"]
    counts = client.get("/api/labels").json()
    assert len(hits) == counts["digit 4"] + counts["digit 7"]
    assert {hit["label"] for hit in hits} == {"digit 4", "digit 7"}


def test_items_are_listed_in_order_or_shuffled_by_a_seed(client: Any) -> None:
    assert [item["row"] for item in client.get("/api/items?limit=3&offset=5").json()["items"]] == [5, 6, 7]
    first, again, other = (client.get(f"/api/items?limit=9&shuffle={seed}").json() for seed in (1, 1, 2))
    assert first == again != other
    some = client.get("/api/items?label=digit 2&limit=200").json()
    assert some["total"] == len(some["items"]) > 0
    assert client.get("/api/items?label=none").json() == {"total": 0, "items": []}


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
        app.state.classroom.job.settle()
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
    import threading

    app = application()
    gate = threading.Event()
    with talking(app) as client:
        client.post("/api/labels", json={"item": 1, "label": "digit 5"})
        app.state.classroom.job.ahead(lambda: gate.wait(20))  # the lesson has to wait
        assert client.post("/api/learn").status_code == 202
        assert client.get("/api/status").json()["learning"]["state"] == "running"
        assert client.get("/api/search?row=1").status_code == 200
        assert client.post("/api/learn").status_code == 409
        assert client.post("/api/undo").status_code == 422
        gate.set()
        app.state.classroom.job.settle()
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
        app.state.classroom.job.settle()
        assert client.get("/api/status").json()["learning"]["state"] == "done"
        assert _found(client, like=[{"upload": name}])["version"] == 1


def test_metrics_are_what_prometheus_reads(client: Any) -> None:
    for _ in range(3):
        client.get("/api/search?row=1")
    client.get("/nothing/here")
    text = client.get("/metrics").text
    line = re.compile(r'(# (HELP|TYPE) .+|[a-z_]+(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? -?[0-9.e+]+)')
    assert all(line.fullmatch(each) for each in text.splitlines())
    assert 'likewise_requests_total{route="/api/search",method="GET",status="200"} 3' in text
    assert 'likewise_requests_total{route="other",method="ANY",status="404"} 1' in text
    assert f"likewise_items {N}" in text
    assert 'likewise_request_seconds_bucket{route="/api/search",le="+Inf"} 3' in text


def test_the_map_places_every_item(application: Callable[..., Any]) -> None:
    app = application()
    with talking(app) as client:
        first = client.get("/api/map").json()
        assert (first["method"], len(first["x"]), len(first["codes"])) == ("quick", N, N)
        app.state.atlas.job.settle(60)
        second = client.get("/api/map").json()
        assert second["method"] == "neighbours"
        P, labels = np.array([second["x"], second["y"]]).T, np.array(second["codes"])
        apart = np.linalg.norm(P[:, None] - P[None], axis=2) + 1e9 * np.eye(N)
        assert np.mean(labels[apart.argmin(axis=1)] == labels) > 0.6  # neighbours on the map belong together


def test_an_index_of_numbers_is_served_without_pictures(tmp_path: Path, digits: Any) -> None:
    from likewise.baselines import LDA

    X, y, G, _ = digits
    index = Index.build(LDA().fit(X, y), G[:50], [f"item <{i}>" for i in range(50)])
    with talking(create_app(index)) as client:
        status = client.get("/api/status").json()
        assert (status["pictures"], status["uploads"], status["labels"]) == (False, False, 0)
        tile = client.get("/api/items/3/picture")
        assert tile.headers["content-type"] == "image/svg+xml"
        assert "item &lt;3&gt;" in tile.text
        hits = client.get("/api/search?row=0&k=3").json()["hits"]
        assert [hit["relevant"] for hit in hits] == [None] * 3
        assert hits[0]["id"].startswith("item <")
        refused = client.post("/api/uploads", content=b"x", headers={"content-type": "image/png"})
        assert refused.status_code == 422


def test_an_approximate_index_is_searched_by_its_own_engine(digits: Any) -> None:
    pytest.importorskip("faiss")
    from likewise.baselines import LDA

    X, y, G, labels = digits
    index = Index.build(LDA().fit(X, y), G, {"label": labels}, approximate="hnsw")
    with talking(create_app(index)) as client:
        for row in (0, 5):
            hits = client.get(f"/api/search?row={row}&k=10").json()["hits"]
            exact = _found(client, like=[{"row": row}], k=10)["hits"]
            assert len(hits) == 10
            assert row not in [hit["row"] for hit in hits]
            assert len({hit["row"] for hit in hits} & {hit["row"] for hit in exact}) >= 9


def test_the_interface_is_described_without_outside_hosts(client: Any) -> None:
    whole = client.get("/api/openapi.json").json()
    assert {"/api/search", "/api/uploads", "/api/marks", "/api/learn", "/healthz", "/metrics"} <= whole["paths"].keys()
    assert "://" not in json.dumps(whole["paths"])
    page = Path(__file__).parents[2] / "src" / "likewise" / "web" / "page"
    for file in page.iterdir():
        outside = re.findall(r"https?://[^\s\"']+", file.read_text())
        assert [link for link in outside if link != "http://www.w3.org/2000/svg"] == []
