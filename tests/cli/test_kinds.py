"""What a path is, and the sentence for a path of the wrong kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from likewise.cli.kinds import kind_of
from likewise.rivals import Cosine
from likewise.rows import FeatureStore
from likewise.search import Index


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One of each kind."""
    folder = tmp_path_factory.mktemp("kinds")
    X = np.random.default_rng(0).normal(size=(20, 4))
    (folder / "photos" / "2023").mkdir(parents=True)
    Image.new("RGB", (8, 8)).save(folder / "photos" / "2023" / "a.JPG", "JPEG")
    (folder / "empty").mkdir()
    FeatureStore.write(folder / "f.features", X, ["a", "b"] * 10)
    np.savez(folder / "t.npz", X=X, y=["a", "b"] * 10)
    Cosine().fit(X).save(folder / "m.likewise")
    Index.build(Cosine().fit(X), X).save(folder / "i.index")
    return folder


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("photos", "pictures"),
        ("f.features", "features"),
        ("t.npz", "table"),
        ("m.likewise", "model"),
        ("i.index", "index"),
        ("empty", None),
        ("photos/2023/a.JPG", None),
        ("missing.csv", None),
    ],
)
def test_a_path_is_told_by_what_it_holds(places: Path, name: str, kind: str | None) -> None:
    assert kind_of(places / name) == kind


@pytest.mark.parametrize(
    "words",
    [
        ["fit", "photos", "-o", "x"],
        ["doctor", "photos"],
        ["compare", "photos"],
        ["evaluate", "m.likewise", "photos"],
        ["index", "photos", "-o", "x.index"],
        ["index", "m.likewise", "photos", "-o", "x.index"],
    ],
)
def test_pictures_in_place_of_rows_say_which_command_comes_first(
    run: Any, places: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.chdir(places)
    result = run(*words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        "likewise: error: photos is a folder of pictures, and a folder of features is expected: likewise features "
        "photos -o photos.features comes first; likewise photos/ does all of it\n"
    )


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ["search", "m.likewise", "--row", "1"],
            "m.likewise is a model, and an index is expected: likewise index m.likewise FEATURES -o m.index makes one "
            "from it and features",
        ),
        (
            ["search", "f.features", "--row", "1"],
            "f.features is a folder of features, and an index is expected: likewise index f.features -o f.index makes "
            "one from it",
        ),
        (
            ["serve", "t.npz", "--no-browser"],
            "t.npz is a table, and an index is expected: likewise index t.npz -o t.index makes one from it",
        ),
        (
            ["fit", "i.index", "-o", "x"],
            "i.index is an index, and a folder of features is expected: likewise search i.index and likewise serve "
            "i.index open it",
        ),
        (
            ["evaluate", "f.features", "t.npz"],
            "f.features is a folder of features, and a model is expected: likewise fit f.features -o f.likewise makes "
            "one from it",
        ),
        (
            ["doctor", "m.likewise"],
            "m.likewise is a model, and a folder of features is expected: it was learned from features; give those, or "
            "a table",
        ),
    ],
)
def test_another_kind_than_expected_is_named_with_what_to_do(
    run: Any, places: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], sentence: str
) -> None:
    monkeypatch.chdir(places)
    result = run(*words)
    assert (result.exit_code, result.stderr) == (2, f"likewise: error: {sentence}\n")
