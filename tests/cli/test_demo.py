"""`likewise demo`: the table, the picture, the page and the model it promises."""

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
from likewise.learn.model_file import read_tensors
from likewise.rivals.compare.run import row_part
from likewise.rows import FeatureStore
from likewise.teach import load_index

demo_verb = sys.modules["likewise.cli.demo"]  # the package has the command under this name
METHODS = {"cosine", "LDA + cosine", "SLR-Fixed", "SLR", "SimilarityLearner"}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    folder = tmp_path_factory.mktemp("demo") / "out"
    result = CliRunner().invoke(app, ["demo", "--digits", "--output", str(folder), "--json"])
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout), folder


def test_the_methods_are_compared_on_the_same_test_digits(demo: tuple[dict[str, Any], Path]) -> None:
    printed, _ = demo
    assert printed["n_test"] == 539
    scores = {row["label"]: row["mAP"] for row in printed["methods"]}
    assert set(scores) == METHODS
    assert scores["cosine"] < scores["SLR-Fixed"] < scores["SLR"] < scores["LDA + cosine"] < scores["SimilarityLearner"]


def test_the_saved_model_reaches_the_figure_printed(demo: tuple[dict[str, Any], Path]) -> None:
    printed, folder = demo
    X, y = load_digits(return_X_y=True)
    part = row_part(y, 0.3, np.random.default_rng([0, 1]))
    score = load(folder / "demo.likewise").score(X[part.test], y[part.test])
    assert score == pytest.approx(printed["methods"][0]["mAP"])
    assert read_tensors(folder / "demo.likewise")[1]["metrics"]["mAP"] == pytest.approx(score)


def test_the_picture_is_a_png(demo: tuple[dict[str, Any], Path]) -> None:
    _, folder = demo
    with Image.open(folder / "strips.png") as picture:
        pixels = np.asarray(picture.convert("RGB"))
    assert pixels.shape[0] > 400
    assert pixels.shape[1] > 800


def test_the_caption_says_how_queries_were_chosen_and_how_often_learning_loses(
    demo: tuple[dict[str, Any], Path],
) -> None:
    counts = re.search(r"more hits for (\d+), fewer for (\d+) and as many for (\d+)", demo[0]["caption"])
    assert counts
    more, fewer, same = map(int, counts.groups())
    assert more + fewer + same == 539
    assert fewer > 0
    firsts = {row["label"]: row["P@1"] for row in demo[0]["methods"]}
    assert (
        f"cosine is right for {firsts['cosine']:.1%} of the digits and "
        f"SimilarityLearner for {firsts['SimilarityLearner']:.1%}" in demo[0]["caption"]
    )
    assert "seeded random draw, 4 of them among those where the number of hits" in demo[0]["caption"]


def test_a_folder_that_cannot_be_created_is_reported_at_once(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo_verb, "_of_digits", lambda seed: pytest.fail("nothing is learned before"))
    (tmp_path / "file").write_text("")
    result = run("demo", "--digits", "--output", tmp_path / "file" / "d")
    assert result.exit_code == 2
    assert result.stderr.startswith(f"likewise: error: cannot create the folder {tmp_path / 'file' / 'd'}: ")


# -- On pictures ------------------------------------------------------------------------------------------------------

CLASSES = ("animals/birds", "animals/fish", "food")


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve pictures in each of three folders, one mirrored copy, a sound, and a folder with too few."""
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


def test_pictures_are_split_by_class_and_methods_compared_on_held_out_ones(shown: tuple[dict[str, Any], Path]) -> None:
    printed, _ = shown
    assert (printed["data"], printed["n_train"], printed["n_test"], printed["n_classes_learned"]) == (
        "pictures",
        24,
        12,
        3,
    )
    assert {row["label"] for row in printed["methods"]} == METHODS - {"SLR-Fixed"} | {"ridge + cosine"}
    assert printed["caption"].startswith("All pictures shown are held out: no method has learned from them.")
    assert "Results are shown at ranks 1 to 8." in printed["caption"]


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
    assert labels["animals/birds/p3.png"] == "animals/birds"
    assert labels["few/p1.png"] is None
    assert index.model.learned_from(index.raw).sum() == printed["n_train"]


def test_a_second_run_takes_the_features_as_they_are_and_prints_tables_and_how_to_open_the_page(
    run: Any, shown: tuple[dict[str, Any], Path], pictures: Path
) -> None:
    _, folder = shown
    written = (FeatureStore.open(folder / "stamps.features").version / "features.npy").stat().st_mtime_ns
    result = run("demo", "--pictures", pictures, "-o", folder)
    assert result.exit_code == 0, result.stderr
    assert (FeatureStore.open(folder / "stamps.features").version / "features.npy").stat().st_mtime_ns == written
    assert len(re.findall(r"LDA \+ cosine +│ \d\.\d{3} │ \d\.\d{3} │ +\d+\.\d{3}", result.stdout)) == 1
    assert f"wrote {folder / 'strips.png'}" in result.stdout
    assert "pictures: 3 labels; 24 to learn from and 12 held out, which rank each other" in result.stdout
    assert f"  likewise serve {folder / 'stamps.index'}\n" in result.stdout


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
    assert "food has 0 sub-folders of 10 pictures or more: expected at least two" in result.stderr
    assert not list((tmp_path / "d").glob("*.features"))


def test_labels_are_two_folders_deep_and_only_of_ten_pictures_or_more() -> None:
    paths = [f"a/b/{style}/{i}.png" for style in ("plain", "cartoon") for i in range(5)] + ["a/c/1.png", "top.png"]
    assert demo_verb.folder_labels(paths) == ["a/b"] * 10 + ["", ""]
