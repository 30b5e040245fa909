"""Teaching on the page: marks are saved, lessons run in the background, every step can be undone."""

from __future__ import annotations

import csv
import io
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

import likewise
from likewise.serve import Limits, create_app
from likewise.teach import Feedback, Teacher, load_index
from tests.serve.conftest import N, ask, doubtful, running, talking


def test_a_mark_is_on_disk_when_it_is_confirmed_and_survives_a_restart(client: Any, index_folder: Path) -> None:
    answer = client.post("/api/marks", json={"query": [{"row": 3}], "items": [8], "right": False})
    assert answer.status_code == 201
    assert answer.json()["feedback"] == {"total": 1, "pending": 1}
    path = load_index(index_folder).ids[8]
    assert f'"{path}"'.encode() in (index_folder / "marks.sqlite").read_bytes()
    label = client.get("/api/items/9").json()["label"]
    client.post("/api/labels", json={"items": [9], "label": "digit nine"})
    with talking(create_app(load_index(index_folder), folder=index_folder)) as later:
        entries = later.get("/api/feedback").json()
        assert [(e["kind"], e["queries"], e["items"]) for e in entries] == [("mark", [3], [8]), ("label", [], [9])]
        assert later.get("/api/items/9").json()["label"] == "digit nine"
        assert later.post("/api/undo").json()["undone"] == "label digit nine"
        assert later.get("/api/items/9").json()["label"] == label
        assert later.post("/api/undo").status_code == 200
        assert later.post("/api/undo").status_code == 409
        assert later.get("/api/feedback").json() == []


def test_feedback_is_exported_as_csv(client: Any, index_folder: Path) -> None:
    client.post("/api/marks", json={"query": [{"row": 3}, {"row": 4}], "items": [8], "right": True})
    client.post("/api/labels", json={"items": [9], "label": '=1+1, "quoted"'})
    answer = client.get("/api/feedback.csv")
    assert answer.headers["content-type"].startswith("text/csv")
    assert "attachment" in answer.headers["content-disposition"]
    lines, ids = list(csv.DictReader(io.StringIO(answer.text))), load_index(index_folder).ids
    assert [(line["kind"], line["query"], line["item"], line["right"]) for line in lines] == [
        ("mark", ids[3], ids[8], "true"), ("mark", ids[4], ids[8], "true"), ("label", "", ids[9], ""),
    ]  # fmt: skip
    assert not lines[2]["label"].startswith("=")  # a spreadsheet must not calculate it


def test_a_lesson_is_learned_in_the_background_and_undone(application: Callable[..., Any]) -> None:
    app = application()
    with talking(app) as client:
        assert client.post("/api/learn").status_code == 422  # nothing to learn from yet
        row = doubtful(app)
        old = client.get(f"/api/search?row={row}").json()
        for hit in old["hits"][:12]:
            client.post("/api/marks", json={"query": [{"row": row}], "items": [hit["row"]], "right": hit["relevant"]})
        assert client.post("/api/learn").status_code == 202
        app.state.teaching.job.wait()
        status = client.get("/api/status").json()
        assert (status["learning"]["state"], status["version"], status["previous"]) == ("done", 1, True)
        assert status["feedback"] == {"total": 12, "pending": 0}
        assert status["lesson"]["marks"] == 12
        assert status["lesson"]["concepts"][0]["next"]
        new = client.get(f"/api/search?row={row}").json()
        assert (new["version"], new["hits"] != old["hits"]) == (1, True)
        assert client.get(f"/api/search?row={row}&side=previous").json()["hits"] == old["hits"]
        assert client.post("/api/undo").json()["undone"] == "lesson 1"
        assert client.get(f"/api/search?row={row}").json()["hits"] == new["hits"]  # the marks are still there
        assert client.get("/api/status").json()["feedback"] == {"total": 12, "pending": 12}
        for _ in range(12):
            client.post("/api/undo")
        assert client.get(f"/api/search?row={row}").json()["hits"] == old["hits"]


def test_marks_change_the_order_before_anything_is_kept(application: Callable[..., Any]) -> None:
    app = application()
    with talking(app) as client:
        row = doubtful(app)
        before = [hit["row"] for hit in client.get(f"/api/search?row={row}").json()["hits"]]
        right, wrong = before[5:8], before[:2]
        client.post("/api/marks", json={"query": [{"row": row}], "items": right, "right": True})
        client.post("/api/marks", json={"query": [{"row": row}], "items": wrong, "right": False})
        after = [hit["row"] for hit in client.get(f"/api/search?row={row}").json()["hits"]]
        assert set(after[:3]) == set(right)
        assert not set(after) & set(wrong)
        several = client.post("/api/search", json={"like": [{"row": row}, {"row": right[0]}], "k": 24}).json()["hits"]
        assert [hit["row"] for hit in several[:2]] == [other for other in after[:3] if other != right[0]]
        card = client.get(f"/api/card?row={row}").json()
        assert (card["right"], card["wrong"], card["expected"]) == (3, 2, None)
        assert client.get(f"/api/card?row={right[0]}").json() is None  # another picture


def test_one_can_search_while_a_lesson_is_learned_but_not_begin_another(application: Callable[..., Any]) -> None:
    app = application()
    gate = threading.Event()
    with talking(app) as client:
        client.post("/api/labels", json={"items": [1], "label": "digit 5"})
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
    answer = client.post("/api/marks", json={"query": [{"row": 3}], "items": [item], "right": True})
    assert answer.status_code in (404, 422)
    assert client.get("/api/feedback").json() == []


def test_an_upload_can_be_taught_with(application: Callable[..., Any], index_folder: Path) -> None:
    app = application()
    with talking(app) as client:
        picture = load_index(index_folder).image_path(7).read_bytes()
        name = client.post("/api/uploads", content=picture, headers={"content-type": "image/png"}).json()["upload"]
        assert client.get(f"/api/uploads/{name}").content[:2] == b"\xff\xd8"
        client.post("/api/marks", json={"query": [{"upload": name}], "items": [20], "right": True})
        assert client.get("/api/feedback").json()[0]["uploads"] == [name]
        client.post("/api/learn")
        app.state.teaching.job.wait()
        assert client.get("/api/status").json()["learning"]["state"] == "done"
        assert ask(client, like=[{"upload": name}])["version"] == 1


def test_a_mark_for_several_examples_is_saved_for_all_or_for_none(client: Any) -> None:
    query = [{"row": 3}, {"row": 8}]
    assert client.post("/api/marks", json={"query": query, "items": [8], "right": True}).status_code == 422
    query[1] = {"upload": "unknown"}
    assert client.post("/api/marks", json={"query": query, "items": [8], "right": True}).status_code == 404
    assert client.get("/api/feedback").json() == []
    query[1] = {"row": 4}
    status = client.post("/api/marks", json={"query": query, "items": [8], "right": True}).json()
    assert status["feedback"] == {"total": 1, "pending": 1}  # one step
    assert client.post("/api/undo").json()["feedback"] == {"total": 0, "pending": 0}


def test_marks_are_toggled_off_and_labels_given_to_many_in_one_step(client: Any) -> None:
    before = client.get("/api/items/20").json()["label"]
    client.post("/api/marks", json={"query": [{"row": 3}], "items": [8, 9], "right": True})
    client.post("/api/marks", json={"query": [{"row": 3}], "items": [9], "right": None})
    status = client.post("/api/labels", json={"items": [20, 21, 22], "label": "snowman"}).json()
    assert status["undo"] == "label snowman on 3 items"
    assert [client.get(f"/api/items/{row}").json()["label"] for row in (20, 21, 22)] == ["snowman"] * 3
    client.post("/api/labels", json={"items": [21], "label": None})
    assert client.get("/api/items/21").json()["label"] is None
    client.post("/api/undo")
    client.post("/api/undo")
    assert client.get("/api/items/20").json()["label"] == before


def test_a_lesson_and_its_card_are_there_after_a_restart(application: Callable[..., Any], index_folder: Path) -> None:
    app = application()
    with talking(app) as client:
        client.post("/api/marks", json={"query": [{"row": 3}], "items": [8, 9], "right": True}, headers=ANNA)
        client.post("/api/learn", headers=ANNA)
        app.state.teaching.job.wait()
        learned = client.get("/api/search?row=3").json()["hits"]
        before = client.get("/api/search?row=3&side=previous").json()["hits"]
        card = client.get("/api/status").json()["lesson"]
    with talking(create_app(load_index(index_folder), folder=index_folder)) as later:
        assert same(later.get("/api/search?row=3").json()["hits"], learned)
        assert same(later.get("/api/search?row=3&side=previous").json()["hits"], before)
        assert not same(learned, before)
        status = later.get("/api/status").json()
        assert (status["lesson"], status["taught"], status["version"]) == (card, True, 1)
        assert status["feedback"]["pending"] == 0
        assert later.post("/api/undo", headers=BEN).status_code == 409
        answer = later.post("/api/undo", headers=ANNA).json()
        assert (answer["undone"], answer["by"], answer["taught"]) == ("lesson 1", "Anna", False)
        later.post("/api/undo", headers=ANNA)  # marks count until they are taken back
        assert same(later.get("/api/search?row=3").json()["hits"], before)


def same(one: list[dict[str, Any]], two: list[dict[str, Any]]) -> bool:
    """Whether two rankings are the same, with scores that differ by rounding at most."""
    gaps = [abs(a["score"] - b["score"]) for a, b in zip(one, two, strict=True)]
    return [hit["row"] for hit in one] == [hit["row"] for hit in two] and max(gaps) < 1e-5


ANNA, BEN = {"x-likewise-who": "Anna"}, {"x-likewise-who": "B%C3%A9n"}


def test_one_undoes_ones_own_step_and_hears_whose_the_last_one_was(client: Any) -> None:
    client.post("/api/labels", json={"items": [4], "label": "mine"}, headers=ANNA)
    client.post("/api/labels", json={"items": [5], "label": "his"}, headers=BEN)
    assert client.post("/api/undo", headers=ANNA).json()["undone"] == "label mine"
    refused = client.post("/api/undo", headers=ANNA)
    assert refused.status_code == 409
    assert refused.json()["detail"] == "you have nothing to undo; the last step was made by Bén"


def test_the_taught_model_is_downloaded(application: Callable[..., Any], tmp_path: Path) -> None:
    app = application()
    with talking(app) as client:
        client.post("/api/labels", json={"items": [1, 2, 3], "label": "mine"})
        client.post("/api/learn")
        app.state.teaching.job.wait()
        answer = client.get("/api/model")
        assert "digits-taught.likewise" in answer.headers["content-disposition"]
        (tmp_path / "taught.likewise").write_bytes(answer.content)
    assert type(likewise.load(tmp_path / "taught.likewise")).__name__ == "Taught"


def test_two_servers_of_one_index_hear_each_other(application: Callable[..., Any]) -> None:
    one, two = application(), application()
    with talking(one) as here, talking(two) as there:
        there.post("/api/labels", json={"items": [4, 5], "label": "theirs"}, headers=BEN)
        there.post("/api/learn", headers=BEN)
        two.state.teaching.job.wait()
        assert here.get("/api/status").json()["version"] == 1
        assert here.get("/api/items/4").json()["label"] == "theirs"
        assert same(*(client.get("/api/search?row=4").json()["hits"] for client in (here, there)))
        here.post("/api/labels", json={"items": [6], "label": "ours"}, headers=ANNA)
        assert here.post("/api/undo", headers=ANNA).json()["undone"] == "label ours"
        assert [entry["label"] for entry in there.get("/api/feedback").json()] == ["theirs"]


def test_every_step_is_streamed_to_open_pages(application: Callable[..., Any]) -> None:
    app = application()
    with running(app) as port, httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=20) as client:
        heard: list[tuple[str, Any]] = []
        with client.stream("GET", "/api/events?who=Anna") as stream:
            lines = (line for line in stream.iter_lines() if line and not line.startswith(":"))
            heard.append((next(lines), next(lines)))
            client.post("/api/labels", json={"items": [4], "label": "mine"}, headers=ANNA)
            while not any("status" in kind and '"pending": 1' in data for kind, data in heard):
                heard.append((next(lines), next(lines)))
            client.post("/api/learn", headers=ANNA)
            while not any("learned" in kind for kind, _ in heard):
                heard.append((next(lines), next(lines)))
        kinds = [kind.removeprefix("event: ") for kind, _ in heard]
        assert kinds[:3] == ["status", "feedback", "status"]
        entry = json.loads(heard[1][1].removeprefix("data: "))
        assert (entry["items"], entry["label"], entry["who"]) == ([4], "mine", "Anna")


def test_no_more_labels_can_be_given_than_the_limit_says(application: Callable[..., Any]) -> None:
    with talking(application(limits=Limits(labels=2))) as client:
        codes = [_labelled(client, label).status_code for label in ("a", "b", "c", "a")]
        assert codes == [201, 201, 409, 201]
        assert _labelled(client, "c").json()["detail"] == "2 labels have been given, the limit; use one of them"


def test_the_journal_is_bounded_and_says_so(application: Callable[..., Any], index_folder: Path) -> None:
    with talking(application(limits=Limits(journal_bytes=8000))) as client:
        answers = [_labelled(client, "a") for _ in range(40)]
        assert [answer.status_code for answer in answers].count(409) > 20
        assert "has reached its limit of" in answers[-1].json()["detail"]
        assert (index_folder / "marks.sqlite").stat().st_size <= 16_384
        assert client.post("/api/undo").status_code == 200


def test_an_item_named_many_times_is_kept_once(application: Callable[..., Any], index_folder: Path) -> None:
    with talking(application()) as client:
        mark = {"query": [{"row": 1}] * 16, "items": [2] * 10_000, "right": True}
        assert client.post("/api/marks", json=mark).status_code == 201
        assert client.post("/api/labels", json={"items": [2] * 10_000, "label": "a"}).status_code == 201
        assert (index_folder / "marks.sqlite").stat().st_size <= 8192


def _labelled(client: Any, label: str) -> Any:
    return client.post("/api/labels", json={"items": [1], "label": label})


def test_what_another_process_teaches_is_searched_without_an_open_page(
    application: Callable[..., Any], index_folder: Path
) -> None:
    with talking(application()) as client:
        Teacher(load_index(index_folder), Feedback(index_folder)).label(3, "of another process")
        until = time.monotonic() + 20
        while client.get("/api/items?limit=4").json()["items"][3]["label"] != "of another process":
            assert time.monotonic() < until
            time.sleep(0.05)
