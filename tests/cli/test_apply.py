"""`likewise apply`: a label goes into the library and comes out of it again."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from likewise.pictures.keywords import keywords_of
from likewise.pictures.sidecars import default_undo_list
from likewise.rivals import Cosine
from likewise.search import Index
from likewise.serve.library import update_library
from likewise.teach import Feedback, Teacher, load_index
from likewise.teach.concepts import Concept

RNG = np.random.default_rng(0)


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """Pictures in two folders and their index next to them."""
    for name in ("cats", "dogs"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(5):
            pixels = RNG.integers(0, 256, (8, 8, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{number}.jpg")
    return update_library(tmp_path / "photos", extractor="pixels", labels="folders").folder


def contents(library: Path) -> dict[str, bytes]:
    photos = library.parent / "photos"
    return {str(path): path.read_bytes() for path in sorted(photos.rglob("*")) if path.is_file()}


def test_a_label_becomes_a_keyword_and_is_taken_back(run: Any, library: Path) -> None:
    before = contents(library)
    done = run("apply", library, "cats", "--xmp", "--dry-run")
    assert done.exit_code == 0, done.output
    assert "cats: 5 pictures\nsidecars: 5 would be new and 0 would be changed\n" in done.stdout
    assert contents(library) == before
    done = run("apply", library, "cats", "--xmp")
    undo = library.parent / "photos.cats.undo.sqlite"
    assert f"sidecars: 5 new and 0 changed; likewise apply --undo {undo}" in done.stdout.replace("\n", " ")
    after = contents(library)
    assert {path: after[path] for path in before} == before
    assert len(after) == len(before) + 5
    assert keywords_of(library.parent / "photos" / "cats" / "0.jpg")[0].words == ["cats"]
    done = run("apply", "--undo", undo)
    assert done.stdout.startswith("5 sidecars in")
    assert contents(library) == before


def test_labels_of_the_page_are_applied_and_read_as_labels_again(run: Any, library: Path, tmp_path: Path) -> None:
    Teacher(load_index(library), Feedback(library)).label([0, 7], "my favourite!")
    done = run("apply", library, "my favourite!", "--xmp", "--csv", tmp_path / "list.csv", "--json")
    facts = json.loads(done.stdout)
    assert (facts["pictures"], facts["xmp"]["created"], facts["about_wrong"]) == (2, 2, None)
    assert Path(facts["undo"]).name.startswith("photos.my-favourite--")
    assert (tmp_path / "list.csv").read_text().splitlines()[1] == "cats/0.jpg,my favourite!"
    done = run(
        "features", library.parent / "photos", "-o", tmp_path / "k", "-e", "pixels", "--labels", "keywords", "-q"
    )
    assert "1 label " in done.stdout
    assert "skipped" not in done.stderr


def test_probabilities_are_shown_with_the_least_sure(run: Any, library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = Concept("cats", np.array([0, 1, 2]), np.array([0.9, 0.2, 0.95]))
    monkeypatch.setattr("likewise.teach.concepts.labelled", lambda index, name: chosen)
    lines = run("apply", library, "cats").stdout.splitlines()
    assert lines[0] == "cats: 3 pictures, about 1 wrong; look at the least sure 3:"
    assert [line.rpartition("/")[2] for line in lines[1:]] == ["1.jpg", "0.jpg", "2.jpg"]


def test_a_cut_off_adds_what_belongs_and_has_no_label(run: Any, tmp_path: Path) -> None:
    from sklearn.datasets import load_digits

    from likewise import SimilarityLearner
    from likewise.teach.concepts import grown

    X, y = load_digits(return_X_y=True)
    learned, gallery = np.split(np.random.default_rng(0).permutation(len(y))[:600], [300])
    labels = np.where(np.arange(300) % 4 == 0, y[gallery].astype(str), None)
    model = SimilarityLearner(random_state=0).fit(X[learned], y[learned])
    folder = Index.build(model, X[gallery], {"label": labels}).save(tmp_path / "digits.index")
    expected = grown(Teacher(load_index(folder)), "3", 0.1)
    facts = json.loads(run("apply", folder, "3", "--at-most-wrong", "10%", "--json").stdout)
    assert facts["pictures"] == len(expected) > (labels == "3").sum()
    assert facts["about_wrong"] == round(expected.about_wrong, 1)
    assert facts["least_sure"] == [str(row) for row in expected.least_sure()]
    assert "such as 10% or 0.1" in run("apply", folder, "3", "--at-most-wrong", "10").stderr.replace("\n", " ")


def test_a_cut_off_without_a_calibration_is_a_sentence(run: Any, tmp_path: Path) -> None:
    X = RNG.normal(size=(6, 3))
    folder = Index.build(Cosine().fit(X), X, {"label": ["cats", None] * 3}).save(tmp_path / "plain.index")
    done = run("apply", folder, "cats", "--at-most-wrong", "10%")
    assert done.exit_code != 0
    assert "Cosine has no calibration" in done.stderr.replace("\n", " ")


def test_what_is_left_alone_is_said(run: Any, library: Path) -> None:
    broken = library.parent / "photos" / "cats" / "0.jpg.xmp"
    broken.write_text("mine")
    done = run("apply", library, "cats", "--xmp")
    assert "1 left alone, sidecars that cannot be read; the first: " in done.stderr
    assert "0.jpg (its sidecar is not well-formed XML" in done.stderr
    assert "4 new" in done.stdout
    assert broken.read_text() == "mine"


def test_errors_are_sentences(run: Any, library: Path, tmp_path: Path) -> None:
    numbers = Index.build(Cosine().fit(np.eye(4)), np.eye(4), {"label": list("aabb")}).save(tmp_path / "n.index")
    for words, sentence in (
        ((), "INDEX and LABEL are missing"),
        ((library, "cat"), "no item of the index has the label 'cat'; there is 'cats'"),
        ((numbers, "a", "--xmp"), "keywords are for an index of pictures, and this one was built from numbers"),
        ((library, "cats", "--undo", "x"), "--undo LIST takes no other options"),
        (("--undo", tmp_path / "x"), "x does not exist; expected an undo list"),
        ((library, "cats", "--csv", library), "is a folder: expected a file to write"),
    ):
        done = run("apply", *words)
        assert done.exit_code == 2, words
        assert sentence in done.stderr.replace("\n", " ")
    done = run("apply", library, "cats")
    assert "nothing was written: --csv FILE writes a list" in done.stderr
    shutil.move(library.parent / "photos", library.parent / "moved")
    assert "--root DIR says where they are now" in run("apply", library, "cats", "--xmp").stderr
    assert run("apply", library, "cats", "--xmp", "--root", library.parent / "moved").exit_code == 0


def test_an_index_made_by_others_names_no_files_elsewhere(run: Any, tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    Image.new("RGB", (2, 2)).save(tmp_path / "outside.jpg")
    index = Index.build(Cosine().fit(np.eye(2)), np.eye(2), {"label": ["a", "b"], "path": ["../outside.jpg", "x.jpg"]})
    index.root = tmp_path / "root"
    done = run("apply", index.save(tmp_path / "o.index"), "a", "--xmp")
    assert done.exit_code == 2
    assert "which is not below" in done.stderr.replace("\n", " ")
    assert not (tmp_path / "outside.jpg.xmp").exists()


def test_labels_that_differ_have_lists_that_differ() -> None:
    names = {default_undo_list(Path("p.index"), label).name for label in ("a b", "a-b", "a/b", "a\\b", "A b", "../x")}
    assert len(names) == 6
    assert not any("/" in name or ".." in name for name in names)
