"""Suggestions and named sets on the server: previews, labels in one step, lists, and keywords for its own machine."""

from __future__ import annotations

import csv
import io
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from likewise.pictures.keywords import keywords_of
from likewise.serve import ServerSettings, create_app
from likewise.teach import Teacher, load_index
from likewise.teach.concepts import grown
from tests.serve.conftest import ask, talking


@pytest.fixture
def folder(sure_index: Path, tmp_path: Path) -> Path:
    """A copy of the calibrated digits with their pictures."""
    index = load_index(sure_index)
    assert index.root is not None
    shutil.copytree(index.root, tmp_path / "digits")
    index.root = tmp_path / "digits"
    return index.save(tmp_path / "sure.index")


@pytest.fixture
def local(folder: Path) -> Iterator[Any]:
    with talking(create_app(load_index(folder), ServerSettings(), folder)) as client:
        yield client


def preview(client: Any, **request: Any) -> dict[str, Any]:
    answer = client.post("/api/concepts", json=request)
    assert answer.status_code == 200, answer.text
    return answer.json()


def finished(client: Any) -> dict[str, Any]:
    client.app.state.concepts.job.wait()
    return client.get("/api/concepts/keywords").json()


def test_a_preview_is_what_the_library_and_apply_choose(local: Any, folder: Path) -> None:
    expected = grown(Teacher(load_index(folder)), "digit 3", 0.1)
    concept = preview(local, label="digit 3", at_most_wrong=0.1)
    assert (concept["items"], concept["known"]) == (len(expected), 14)
    assert concept["about_wrong"] == pytest.approx(expected.about_wrong)
    assert [item["row"] for item in concept["least_sure"]] == expected.least_sure().tolist()
    assert (concept["writes"], concept["written"]) == (True, False)


def test_labels_that_were_given_are_saved_searches(local: Any) -> None:
    assert local.get("/api/searches").json() == []
    assert local.post("/api/labels", json={"items": [0, 1], "label": "mine"}).status_code == 201
    (search,) = local.get("/api/searches").json()
    assert (search["label"], search["items"], search["new"]) == ("mine", 2, 0)
    assert local.get("/api/suggestions?label=mine&new=true").json() == {"suggestions": []}


def test_a_label_alone_needs_no_cut_off(client: Any) -> None:
    concept = preview(client, label="digit 3")
    assert (concept["items"], concept["about_wrong"], concept["least_sure"]) == (concept["known"], None, [])
    answer = client.post("/api/concepts", json={"label": "digit 3", "at_most_wrong": 0.1})
    assert (answer.status_code, "no calibration" in answer.json()["detail"]) == (422, True)
    answer = client.post("/api/concepts", json={"label": "digit"})
    assert "there is 'digit" in answer.json()["detail"]


def test_a_set_becomes_labels_in_one_step_without_what_was_taken_out(local: Any) -> None:
    concept = preview(local, label="digit 3", at_most_wrong=0.1)
    out = concept["least_sure"][0]["row"]
    body = {"concept": concept["concept"], "label": "digit 3", "without": [out]}
    done = local.post("/api/concepts/labels", json=body).json()
    assert (done["labelled"], done["kept"]) == (concept["items"] - 1, 0)
    labels = local.app.state.session.labels
    assert labels.count("digit 3") == concept["items"] - 1
    assert labels[out] is None
    local.post("/api/undo")
    assert local.app.state.session.labels.count("digit 3") == concept["known"]


def test_results_above_a_cut_off_become_a_named_set_and_labelled_ones_stay(local: Any) -> None:
    query = {"like": [{"row": 5}], "at_most_wrong": 0.1}
    hits = ask(local, **query, k=200)["hits"]
    labelled = [hit["row"] for hit in hits if hit["label"] is not None]
    concept = preview(local, **query)
    assert concept["items"] == len(hits) + 1
    done = local.post("/api/concepts/labels", json={"concept": concept["concept"], "label": "round"}).json()
    assert (done["labelled"], done["kept"]) == (concept["items"] - len(labelled), len(labelled))
    again = local.post("/api/concepts/labels", json={"concept": concept["concept"], "label": "round"})
    assert (again.status_code, "no item is new" in again.json()["detail"]) == (422, True)


def test_a_set_is_listed_with_its_probabilities(local: Any) -> None:
    concept = preview(local, label="digit 3", at_most_wrong=0.1)
    out = concept["least_sure"][0]["row"]
    text = local.get(f"/api/concepts/{concept['concept']}.csv?label=digit+3&without={out}").text
    lines = list(csv.reader(io.StringIO(text)))
    assert lines[0] == ["path", "label", "probability"]
    assert len(lines) == concept["items"]
    assert local.get("/api/concepts/gone.csv?label=x").status_code == 404


def test_keywords_are_written_beside_the_pictures_and_taken_back(local: Any, folder: Path) -> None:
    pictures = folder.parent / "digits"
    before = {path: path.read_bytes() for path in pictures.rglob("*") if path.is_file()}
    concept = preview(local, label="digit 3", at_most_wrong=0.1)
    answer = local.post("/api/concepts/keywords", json={"concept": concept["concept"], "label": "digit 3"})
    assert answer.status_code == 202
    done = finished(local)
    assert (done["state"], done["outcome"]["created"], done["done"]) == ("done", concept["items"], concept["items"])
    assert {path: path.read_bytes() for path in before} == before
    row = concept["least_sure"][0]["row"]
    assert keywords_of(local.app.state.session.index.image_path(row))[0].words == ["digit 3"]
    assert preview(local, label="digit 3", at_most_wrong=0.1)["written"] is True
    local.post("/api/concepts/keywords/undo", json={"label": "digit 3"})
    assert finished(local)["outcome"]["deleted"] == concept["items"]
    assert {path for path in pictures.rglob("*") if path.is_file()} == set(before)
    assert local.post("/api/concepts/keywords/undo", json={"label": "digit 3"}).status_code == 404


def test_no_keyword_is_written_when_the_undo_list_would_be_lost(local: Any, folder: Path) -> None:
    concept = preview(local, label="digit 3", at_most_wrong=0.1)
    folder.rename(folder.with_name("unplugged"))
    answer = local.post("/api/concepts/keywords", json={"concept": concept["concept"], "label": "digit 3"})
    assert (answer.status_code, "is gone; nothing was saved" in answer.json()["detail"]) == (422, True)
    assert not list(folder.parent.rglob("*.xmp"))


def test_others_write_no_keywords(folder: Path) -> None:
    for others in ({"proxies": ("127.0.0.1",)}, {"host": "0.0.0.0"}):
        app = create_app(load_index(folder), ServerSettings(**others, token="a long enough secret"), folder)
        with talking(app) as client:
            client.headers["Authorization"] = "Bearer a long enough secret"
            concept = preview(client, label="digit 3", at_most_wrong=0.1)
            assert (concept["writes"], concept["written"]) == (False, False)
            for path, body in (
                ("keywords", {"concept": concept["concept"], "label": "digit 3"}),
                ("keywords/undo", {"label": "digit 3"}),
            ):
                answer = client.post(f"/api/concepts/{path}", json=body)
                assert (answer.status_code, "person at the machine" in answer.json()["detail"]) == (403, True)
    assert not list(folder.parent.rglob("*.xmp"))


def test_suggestions_begin_with_what_stands_for_most_others(local: Any) -> None:
    answer = local.get("/api/suggestions").json()
    assert len(answer["suggestions"]) == 10
    assert {(one["why"], one["of_row"], one["of_label"]) for one in answer["suggestions"]} == {("typical", None, None)}


def test_suggestions_for_a_query_are_those_of_the_teacher(local: Any) -> None:
    answer = local.get("/api/suggestions?row=5&n=7").json()
    expected = local.app.state.teaching._teacher.suggest(7, query=5)
    assert [one["row"] for one in answer["suggestions"]] == [one.row for one in expected]
    assert {one["of_row"] for one in answer["suggestions"]} == {5}
    assert all("5" not in one["reason"] for one in answer["suggestions"])  # no numbers instead of names


def test_suggestions_for_a_label_name_an_example_of_it(local: Any) -> None:
    local.post("/api/labels", json={"items": [7, 8], "label": "mine"})
    answer = local.get("/api/suggestions?label=mine").json()["suggestions"]
    assert {(one["of_label"], one["of_row"]) for one in answer} == {("mine", 7)}
    suggestions = local.get("/api/suggestions?label=digit+3").json()["suggestions"]
    labels = np.array(local.app.state.session.labels)
    assert {labels[one["of_row"]] for one in suggestions} == {"digit 3"}  # from the index: an item represents it
    assert local.get("/api/suggestions?label=nothing").status_code == 404
    assert local.get("/api/suggestions?label=mine&row=3").status_code == 422
