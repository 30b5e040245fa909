"""`likewise show`: what a model, an index or features are, and where they came from."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

import likewise
from likewise.search import Index


@pytest.fixture
def model(run: Any, files: Path, tmp_path: Path) -> Path:
    fitted = run("fit", files / "train.csv", "-o", tmp_path / "m.likewise", "--seed", 5)
    assert fitted.exit_code == 0, fitted.stderr
    return tmp_path / "m.likewise"


def test_a_model_shows_its_identity_source_label_column_seed_versions_and_figures(
    run: Any, files: Path, model: Path
) -> None:
    card = json.loads(run("show", model, "--json").stdout)
    checksum = hashlib.sha256((files / "train.csv").read_bytes()).hexdigest()
    assert (card["kind"], card["id"]) == ("model", likewise.load(model).identity)
    assert card["source"] == {
        "path": str(files / "train.csv"), "rows": 500, "columns": 64, "checksum": f"sha256:{checksum}",
    }  # fmt: skip
    assert (card["label_column"], card["seed"], card["classes"]) == ("label", 5, 10)
    assert card["versions"]["likewise"] == likewise.__version__
    assert card["held_out"]["raw_interval"][0] < card["held_out"]["raw"] < card["held_out"]["mAP"]
    text = run("show", model).stdout
    assert card["id"] in text
    low, high = card["held_out"]["mAP_interval"]
    assert f"mAP interval     {low:.4f} to {high:.4f}" in text


def test_an_index_shows_its_rows_and_its_model(run: Any, files: Path, model: Path, tmp_path: Path) -> None:
    assert run("index", model, files / "test.csv", "-o", tmp_path / "t.index", "--neighbors", 0).exit_code == 0
    card = json.loads(run("show", tmp_path / "t.index", "--json").stdout)
    assert (card["kind"], card["items"], card["labelled"], card["neighbors"]) == ("index", 200, 200, 0)
    assert card["model"] == Index.load(tmp_path / "t.index").model.card()
    assert card["model"]["held_out"] == likewise.load(model).card()["held_out"]
    assert card["model"]["id"] in run("show", tmp_path / "t.index").stdout


def test_features_show_their_shape(run: Any, files: Path, tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    folder.mkdir()
    (folder / "features.npy").write_bytes((files / "test.npy").read_bytes())
    card = json.loads(run("show", folder, "--json").stdout)
    assert (card["kind"], card["n_items"], card["n_features"]) == ("features", 200, 64)


@pytest.mark.parametrize("name", ["vectors.parquet", "vectors.arrow", "vectors.npz"])
def test_an_exported_file_shows_the_model_of_its_vectors(
    run: Any, files: Path, model: Path, tmp_path: Path, name: str
) -> None:
    run("index", model, files / "test.csv", "-o", tmp_path / "t.index", "--export", tmp_path / name)
    card = json.loads(run("show", tmp_path / name, "--json").stdout)
    assert (card["kind"], card["model"]) == ("vectors", Index.load(tmp_path / "t.index").model.card())


@pytest.mark.parametrize("name", ["test.csv", "test.npz"])
def test_any_other_table_shows_its_shape(run: Any, files: Path, name: str) -> None:
    card = json.loads(run("show", files / name, "--json").stdout)
    assert (card["kind"], card["n_items"], card["n_features"]) == ("features", 200, 64)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nothing", "nothing does not exist"),
        ("test.txt", "expected a model, an index, features or a table, or the address"),
    ],
)
def test_anything_else_gets_a_sentence(run: Any, files: Path, name: str, words: str) -> None:
    result = run("show", files / name)
    assert result.exit_code == 2
    assert words in result.stderr
