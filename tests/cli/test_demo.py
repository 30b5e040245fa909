"""`likewise demo`: the table, the picture, the page and the model it promises."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from typer.testing import CliRunner

from likewise import SLR, load
from likewise.baselines import LDA, Cosine
from likewise.cli import app, demonstration
from likewise.persistence import read_card

METHODS = ["Euclid", "cosine", "LDA + cosine", "SLR-Fixed", "SLR", "AnchoredSLR"]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    folder = tmp_path_factory.mktemp("demo") / "out"
    result = CliRunner().invoke(app, ["demo", "--output", str(folder), "--json"])
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout), folder


def test_the_methods_are_compared_on_the_same_test_digits(demo: tuple[dict[str, Any], Path]) -> None:
    printed, _ = demo
    assert [row["method"] for row in printed["methods"]] == METHODS
    assert {row["n_queries"] for row in printed["methods"]} == {printed["n_test"]} == {540}
    scores = {row["method"]: row["mAP"] for row in printed["methods"]}
    assert scores["cosine"] < scores["SLR-Fixed"] < scores["SLR"] < scores["LDA + cosine"] < scores["AnchoredSLR"]


def test_the_saved_model_reaches_the_figure_printed(demo: tuple[dict[str, Any], Path]) -> None:
    printed, folder = demo
    X, y = load_digits(return_X_y=True)
    _, Q, _, y_q = train_test_split(X, y, test_size=0.3, stratify=y, random_state=0)
    score = load(folder / "demo.likewise").score(Q, y_q)
    assert score == pytest.approx(printed["methods"][-1]["mAP"])
    assert read_card(folder / "demo.likewise")["metrics"]["mAP"] == pytest.approx(score)


def test_the_picture_is_a_png_and_the_page_embeds_it(demo: tuple[dict[str, Any], Path]) -> None:
    printed, folder = demo
    with Image.open(folder / "strips.png") as picture:
        pixels = np.asarray(picture.convert("RGB"))
    assert pixels.shape[0] > 400
    assert pixels.shape[1] > 800
    page = (folder / "report.html").read_text()
    embedded = re.search(r"base64,([^\"]+)", page)
    assert embedded
    assert base64.b64decode(embedded[1]) == (folder / "strips.png").read_bytes()
    for row in printed["methods"]:
        assert f"{row['mAP']:.3f}" in page
    assert "likewise demo --output" in page
    assert not re.search(r"https?://", page)


def test_the_caption_says_how_queries_were_chosen_and_how_often_learning_loses(
    demo: tuple[dict[str, Any], Path],
) -> None:
    found = re.search(r"more hits for (\d+), fewer for (\d+) and as many for (\d+)", demo[0]["caption"])
    assert found
    more, fewer, same = map(int, found.groups())
    assert more + fewer + same == 540
    assert fewer > 0
    firsts = {row["method"]: row["P@1"] for row in demo[0]["methods"]}
    assert (
        f"cosine is right for {firsts['cosine']:.1%} of the digits and AnchoredSLR for {firsts['AnchoredSLR']:.1%}"
        in demo[0]["caption"]
    )
    assert "seeded random draw, 4 of them among those where the number of hits" in demo[0]["caption"]


def test_people_get_a_table(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = {"cosine": Cosine(), "LDA + cosine": LDA(), "AnchoredSLR": SLR(rank=9)}  # its own search takes seconds
    monkeypatch.setattr(demonstration, "_models", lambda seed: quick)
    result = run("demo", "--output", tmp_path / "d", "--seed", 3)
    assert result.exit_code == 0
    assert re.search(r"LDA \+ cosine +│ 0\.\d{3} │ 0\.\d{3} │ +\d+\.\d{3}", result.stdout)
    assert f"wrote {tmp_path / 'd' / 'strips.png'}" in result.stdout
    assert sorted(path.name for path in (tmp_path / "d").iterdir()) == ["demo.likewise", "report.html", "strips.png"]


def test_a_folder_that_cannot_be_created_is_reported_at_once(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demonstration, "demonstrate", lambda seed: pytest.fail("nothing is learned before"))
    (tmp_path / "file").write_text("")
    result = run("demo", "--output", tmp_path / "file" / "d")
    assert result.exit_code == 2
    assert result.stderr.startswith(f"likewise: error: cannot create the folder {tmp_path / 'file' / 'd'}: ")
