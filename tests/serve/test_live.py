"""A server whose index is replaced while it serves."""

from __future__ import annotations

import shutil
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from likewise.search import Index
from likewise.serve.session import Session
from tests.serve.conftest import SEARCH, N, running, talking


def _replace(folder: Path, n: int) -> None:
    index = Index.load(folder)
    index.minus(index.ids[n:]).save(folder)


def _items(client: Any) -> int:
    return client.get("/api/status").json()["items"]


def test_a_new_version_is_taken_over_within_seconds_and_no_request_fails(
    application: Callable[..., Any], index_folder: Path
) -> None:
    answers: list[tuple[int, int]] = []
    stop = threading.Event()
    with running(application()) as port:

        def search() -> None:
            while not stop.is_set():
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/search?row=1&k=3") as answer:
                    answers.append((answer.status, len(answer.read())))

        clients = [threading.Thread(target=search) for _ in range(3)]
        for one in clients:
            one.start()
        stream = urllib.request.urlopen(f"http://127.0.0.1:{port}/api/events", timeout=20)
        assert stream.readline() == b"event: status\n"
        _replace(index_folder, 300)
        assert b"event: reloaded" in stream.read()  # it ends, and the page comes again
        before, until = len(answers), time.monotonic() + 20
        while len(answers) < before + 10 and time.monotonic() < until:
            time.sleep(0.02)
        stop.set()
        for one in clients:
            one.join()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            text = answer.read().decode()
    assert "likewise_items 300.0" in text
    assert "likewise_reloads_total 1.0" in text
    assert {status for status, _ in answers} == {200}


def test_a_request_ends_on_the_version_it_began_with(
    client: Any, index_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on, search = threading.Event(), threading.Event(), Session.search
    answers: list[Any] = []

    def slow(self: Session, *arguments: Any, **options: Any) -> Any:
        begun.set()
        assert go_on.wait(20)
        return search(self, *arguments, **options)

    monkeypatch.setattr(Session, "search", slow)
    query = {**SEARCH, "unlike": [{"row": 350}]}
    asking = threading.Thread(target=lambda: answers.append(client.post("/api/search", json=query).json()))
    asking.start()
    assert begun.wait(20)
    old = client.app.state
    _replace(index_folder, 300)
    assert client.post("/api/reload").json()["items"] == 300
    assert (old.retired, old.in_flight, old.teaching.job._closed) == (True, 1, False)
    go_on.set()
    asking.join()
    assert answers[0]["total"] == N - 2
    assert client.post("/api/search", json={**SEARCH, "unlike": [{"row": 200}]}).json()["total"] == 298
    assert (old.in_flight, old.teaching.job._closed) == (0, True)


def test_a_damaged_version_is_not_served_and_the_one_before_is(client: Any, index_folder: Path) -> None:
    assert client.post("/api/reload").json() == {"reloaded": False, "version": _version(client), "items": N}
    version = _version(client)
    _replace(index_folder, 300)
    newest = index_folder / (index_folder / "CURRENT").read_text().splitlines()[0]
    good = (newest / "vectors.npy").read_bytes()
    (newest / "vectors.npy").write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    answer = client.post("/api/reload")
    assert answer.status_code == 422
    assert "the new version is not served, the one before is: " in answer.json()["detail"]
    assert "vectors.npy has been altered or damaged" in client.get("/api/status").json()["not_served"]
    assert (_items(client), _version(client)) == (N, version)
    assert client.post("/api/search", json=SEARCH).status_code == 200
    (newest / "vectors.npy").write_bytes(good)  # repaired
    assert client.post("/api/reload").json()["reloaded"] is True
    assert (_items(client), client.get("/api/status").json()["not_served"]) == (300, None)


def _version(client: Any) -> str:
    return client.get("/api/status").json()["index_version"]


def test_row_numbers_of_another_version_are_refused(client: Any, index_folder: Path) -> None:
    shown = {"x-likewise-version": _version(client)}
    mark = {"query": [{"row": 1}], "items": [2], "right": True}
    assert client.post("/api/marks", json=mark, headers=shown).status_code == 201
    _replace(index_folder, 300)
    client.post("/api/reload")
    refused = client.post("/api/marks", json=mark, headers=shown)
    assert (refused.status_code, refused.json()["detail"]) == (409, "the index was replaced: reload the page")
    assert client.get("/api/status").json()["feedback"]["total"] == 1  # the mark is in the journal


def test_uploads_survive_and_an_index_in_memory_has_no_versions(client: Any, index_folder: Path) -> None:
    from likewise.serve import create_app

    name = client.post("/api/vectors", json={"vector": [1.0] * 64}).json()["upload"]
    _replace(index_folder, 300)
    client.post("/api/reload")
    assert client.post("/api/search", json={"like": [{"upload": name}], "k": 3}).status_code == 200
    with talking(create_app(Index.load(index_folder))) as other:
        assert other.post("/api/reload").json()["reloaded"] is False


def test_another_index_in_the_place_of_the_folder_is_not_served_and_gets_no_label(
    client: Any, index_folder: Path, made_index: Path
) -> None:
    version, label = _version(client), {"items": [1], "label": "cat"}
    index_folder.rename(index_folder.with_name("unplugged"))
    assert client.post("/api/labels", json=label).status_code == 422
    assert not index_folder.exists()
    shutil.copytree(made_index, index_folder)
    _replace(index_folder, 300)
    another = "is not the folder that was opened: another is in its place"
    for path in ("/api/labels", "/api/reload"):
        answer = client.post(path, json=label)
        assert (answer.status_code, another in answer.json()["detail"]) == (422, True)
    assert another in client.get("/api/status").json()["problem"]
    assert (_items(client), _version(client)) == (N, version)
    assert not (index_folder / "marks.sqlite").exists()


def test_a_server_of_several_processes_is_read_only_and_any_of_them_knows_a_session(index_folder: Path) -> None:
    from likewise.serve import ServerSettings, create_app

    settings = ServerSettings(token="a long enough secret", workers=2)
    with (
        talking(create_app(Index.load(index_folder), settings, index_folder)) as one,
        talking(create_app(Index.load(index_folder), settings, index_folder)) as two,
    ):
        assert one.post("/login", data={"token": "a long enough secret"}, follow_redirects=False).status_code == 303
        assert two.get("/api/status").status_code == 401
        two.cookies.update(one.cookies)
        assert two.get("/api/status").json()["uploads"] is False
        assert two.post("/api/search", json=SEARCH).status_code == 200
        for path, body in (("marks", {"query": [{"row": 1}], "items": [2], "right": True}), ("vectors", {})):
            refused = two.post(f"/api/{path}", json=body)
            assert (refused.status_code, refused.json()["detail"]) == (
                403, "this server has several workers and is read-only",
            )  # fmt: skip
