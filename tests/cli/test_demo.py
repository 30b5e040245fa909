"""`likewise demo`: the table of taught and new labels, the picture, the page and the model."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits
from typer.testing import CliRunner

from likewise import load
from likewise.cli import app
from likewise.errors import LikewiseError
from likewise.evaluate import evaluate
from likewise.rivals.compare.run import row_part
from likewise.rows import FeatureStore
from likewise.teach import load_index

demo_verb = sys.modules["likewise.cli.demo"]  # the package has the command under this name
METHODS = ["cosine", "learned", "learned, in an index"]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    folder = tmp_path_factory.mktemp("demo") / "out"
    result = CliRunner().invoke(app, ["demo", "--digits", "--output", str(folder), "--json"])
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout), folder


def test_new_digits_lose_by_learning_alone_and_win_in_an_index(demo: tuple[dict[str, Any], Path]) -> None:
    printed, _ = demo
    assert (printed["labels"], len(printed["hidden"]), printed["n_test"]) == (10, 5, 539)
    cosine, learned, in_index = printed["methods"]
    assert [row["label"] for row in printed["methods"]] == METHODS
    assert learned["taught"] > cosine["taught"] + 0.1
    assert learned["new"] < cosine["new"]
    assert in_index["new"] > cosine["new"]
    assert in_index["taught"] > cosine["taught"] + 0.1
    assert printed["change"]["more"] > printed["change"]["fewer"] > 0
    assert printed["change"]["more"] + printed["change"]["fewer"] < 539


def test_the_saved_model_reaches_the_figures_printed(demo: tuple[dict[str, Any], Path]) -> None:
    printed, folder = demo
    X, y = load_digits(return_X_y=True)
    test = row_part(y, 0.3, np.random.default_rng(0)).held
    model = load(folder / "demo.likewise")
    assert set(map(str, model.classes_)) == {str(label) for label in range(10)} - set(printed["hidden"])
    values = evaluate(model.transform_query(X[test]), model.transform(X[test]), y[test]).values
    taught = np.isin(y[test], model.classes_)
    learned = printed["methods"][1]
    assert (values[taught].mean(), values[~taught].mean()) == pytest.approx((learned["taught"], learned["new"]))
    assert model.learned_from(X).sum() == printed["n_learned"]


def test_the_picture_is_a_png(demo: tuple[dict[str, Any], Path]) -> None:
    _, folder = demo
    with Image.open(folder / "strips.png") as picture:
        pixels = np.asarray(picture.convert("RGB"))
    assert pixels.shape[0] > 400
    assert pixels.shape[1] > 800


def test_a_folder_that_cannot_be_created_is_reported_at_once(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo_verb, "_of_digits", lambda seed: pytest.fail("nothing is learned before"))
    (tmp_path / "file").write_text("")
    result = run("demo", "--digits", "--output", tmp_path / "file" / "d")
    assert result.exit_code == 2
    assert result.stderr.startswith(f"likewise: error: cannot create the folder {tmp_path / 'file' / 'd'}: ")


# -- On pictures ------------------------------------------------------------------------------------------------------

CLASSES = ("animals/birds", "animals/fish", "food", "tools")


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve pictures in each of four folders, one mirrored copy, a sound, and a folder with too few."""
    root = tmp_path_factory.mktemp("pictures") / "stamps"
    rng = np.random.default_rng(0)
    for number, name in enumerate((*CLASSES, "few")):
        (root / name).mkdir(parents=True)
        for i in range(12 if name in CLASSES else 3):
            pixels = rng.integers(0, 90, (40, 40, 3)).astype(np.uint8)
            pixels[10:30, 10:30, number % 3] += 150
            Image.fromarray(pixels).save(root / name / f"p{i}.png")
    Image.fromarray(pixels[:, ::-1]).save(root / "animals/birds/p0_mirror.png")
    (root / "animals/birds/p0.ogg").write_bytes(b"OggS")
    return root


@pytest.fixture(scope="module")
def shown(pictures: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    pytest.importorskip("onnxruntime")
    folder = tmp_path_factory.mktemp("shown")
    result = CliRunner().invoke(app, ["demo", "--pictures", str(pictures), "-o", str(folder), "--json"])
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout), folder


def test_half_of_the_labels_are_hidden_and_held_out_pictures_measured(shown: tuple[dict[str, Any], Path]) -> None:
    printed, _ = shown
    assert (printed["data"], printed["labels"], printed["n_learned"], printed["n_test"]) == ("pictures", 4, 16, 16)
    assert len(printed["hidden"]) == 2
    assert [row["label"] for row in printed["methods"]] == METHODS


def test_the_index_holds_every_picture_once_and_labels_of_the_larger_folders(
    shown: tuple[dict[str, Any], Path], pictures: Path
) -> None:
    printed, folder = shown
    index = load_index(folder / "stamps.index")
    assert printed["files"]["index"] == str(folder / "stamps.index")
    assert index.paths is not None
    assert index.labels is not None
    assert sorted(index.paths) == sorted(
        str(path.relative_to(pictures)) for path in pictures.rglob("*.png") if "mirror" not in path.name
    )
    labels = dict(zip(index.paths, index.labels, strict=True))
    assert set(labels.values()) == {*CLASSES, None} - set(printed["hidden"])
    assert labels["few/p1.png"] is None
    assert index.model.learned_from(index.raw).sum() == printed["n_learned"]
    assert index.taught_share == printed["taught_share"]


def test_a_second_run_takes_the_features_as_they_are_and_prints_tables_and_how_to_open_the_page(
    run: Any, shown: tuple[dict[str, Any], Path], pictures: Path
) -> None:
    _, folder = shown
    written = (FeatureStore.open(folder / "stamps.features").version / "features.npy").stat().st_mtime_ns
    result = run("demo", "--pictures", pictures, "-o", folder)
    assert result.exit_code == 0, result.stderr
    assert (FeatureStore.open(folder / "stamps.features").version / "features.npy").stat().st_mtime_ns == written
    assert len(re.findall(r"learned, in an index │ +\d\.\d{3} │ +\d\.\d{3}", result.stdout)) == 1
    assert "4 labels, 2 of them hidden; learned from 16 pictures of the others" in result.stdout
    assert f"  likewise serve {folder / 'stamps.index'} " in result.stdout
    assert len(result.stdout.splitlines()) < 20


def test_without_pictures_the_demo_runs_on_digits_and_says_so(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo_verb, "STAMPS", tmp_path / "no-stamps")
    monkeypatch.setattr(demo_verb, "_of_digits", lambda seed: (_ for _ in ()).throw(LikewiseError("on digits")))
    result = run("demo", "-o", tmp_path / "d", "--json")
    first, last = result.stderr.splitlines()
    assert first.startswith(f"likewise: no pictures: {tmp_path / 'no-stamps'} (Debian's tuxpaint-stamps-default)")
    assert last == "likewise: error: on digits"


def test_a_folder_without_classes_is_one_sentence(run: Any, pictures: Path, tmp_path: Path) -> None:
    result = run("demo", "--pictures", pictures / "food", "-o", tmp_path / "d")
    assert result.exit_code == 2
    assert "food has 0 sub-folders of 10 pictures or more: expected at least four" in result.stderr
    assert not list((tmp_path / "d").glob("*.features"))


def test_labels_are_two_folders_deep_and_only_of_ten_pictures_or_more() -> None:
    paths = [f"a/b/{style}/{i}.png" for style in ("plain", "cartoon") for i in range(5)] + ["a/c/1.png", "top.png"]
    assert demo_verb.folder_labels(paths) == ["a/b"] * 10 + ["", ""]
