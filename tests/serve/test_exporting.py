"""Exports: CSV of what was found, ZIP of the pictures."""

from __future__ import annotations

import csv
import io
import shutil
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from likewise.serve import create_app, exporting
from likewise.serve.exporting import unique_names
from likewise.teach import load_index
from tests.serve.conftest import N, ask, talking


def _made(client: Any, **body: Any) -> dict[str, Any]:
    answer = client.post("/api/exports", json=body)
    assert answer.status_code == 201, answer.text
    return answer.json()


def test_a_query_is_exported_as_csv_to_any_depth(client: Any, index_folder: Path) -> None:
    prepared = _made(client, like=[{"row": 3}], k=300)
    lines = list(csv.DictReader(io.StringIO(client.get(f"/api/exports/{prepared['export']}.csv").text)))
    hits = ask(client, like=[{"row": 3}], k=200)["hits"]
    paths = load_index(index_folder).paths
    assert len(lines) == prepared["items"] == 300
    for line, hit in zip(lines, hits, strict=False):
        assert (line["id"], line["path"], line["label"]) == (str(hit["id"]), paths[hit["row"]], hit["label"])
        assert float(line["score"]) == pytest.approx(hit["score"], abs=1e-5)


def test_a_zip_has_the_files_as_they_are(client: Any, index_folder: Path) -> None:
    prepared = _made(client, items=[5, 9])
    answer = client.get(f"/api/exports/{prepared['export']}.zip")
    index = load_index(index_folder)
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        assert archive.testzip() is None
        assert [archive.read(name) for name in archive.namelist()] == [
            index.image_path(row).read_bytes() for row in (5, 9)
        ]
    assert (prepared["pictures"], prepared["note"]) == (2, None)


def test_a_zip_is_limited_and_says_so(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporting, "MOST_FILES", 3)
    prepared = _made(client, items=list(range(N)))
    assert (prepared["items"], prepared["pictures"]) == (N, 3)
    assert prepared["note"] == "The ZIP has the first 3 of 400 pictures: it holds at most 3 pictures or 1 GB."


def test_names_in_a_zip_are_unique() -> None:
    paths = [Path("x/a.jpg"), Path("y/A.jpg"), Path("z/a.jpg"), Path("b.jpg")]
    assert unique_names(paths) == ["a.jpg", "A (2).jpg", "a (3).jpg", "b.jpg"]


@pytest.mark.parametrize("body", [{}, {"items": [1], "like": [{"row": 1}]}, {"items": [N]}])
def test_an_export_is_of_items_or_of_a_query(client: Any, body: dict[str, Any]) -> None:
    assert 400 <= client.post("/api/exports", json=body).status_code < 500


def test_an_unknown_export_is_not_found(client: Any) -> None:
    assert client.get("/api/exports/none.csv").status_code == 404


def test_nothing_but_pictures_inside_the_folder_leaves_it_whatever_the_index_says(index_folder: Path) -> None:
    index = load_index(index_folder)
    secret = index_folder.parent / "id_rsa"
    secret.write_text("secret")
    photos = Path(shutil.copytree(index.root, index_folder.parent / "photos"))
    stolen = Path(shutil.copy(photos / index.paths[9], index_folder.parent / "stolen.png"))
    (photos / "link.png").symlink_to(secret)
    (photos / "picture.png").symlink_to(stolen)
    (photos / "notes.png").write_text("no picture")
    index.root = photos
    strange = ["../id_rsa", str(secret), "link.png", "../stolen.png", str(stolen), "picture.png", "notes.png"]
    index.paths[: len(strange)] = strange
    with talking(create_app(index)) as client:
        opened = _made(client, items=[*range(len(strange)), 9])
        archive = zipfile.ZipFile(io.BytesIO(client.get(f"/api/exports/{opened['export']}.zip").content))
        assert archive.namelist() == ["notes.png", Path(index.paths[9]).name]  # it has the name of a picture
        shown = [client.get(f"/api/items/{row}/picture").headers["content-type"] for row in (3, 4, 9)]
        assert shown == ["image/svg+xml", "image/svg+xml", "image/jpeg"]
        duplicates = client.app.state.duplicates
        assert duplicates.best_first(np.array([3, 9])) == [9, 3]  # the size of a file elsewhere is not read either
