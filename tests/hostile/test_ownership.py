"""We touch nothing that is not ours: no folder that we did not make, and no input."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from likewise.cli import app
from likewise.errors import LikewiseError
from likewise.pictures import Pixels, extract_folder
from likewise.rivals import Cosine
from likewise.rows import FeatureStore
from likewise.search import Index
from likewise.teach import Teacher, load_index
from likewise.teach.teacher import opened_feedback

FOREIGN = ("features.npy", "items.csv", "skipped.csv", "extractor.safetensors", ".work/mine", "notes/a.txt")


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    for number in range(6):
        path = tmp_path / "photos" / "ab"[number % 2] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)).save(path)
    return tmp_path / "photos"


def snapshot(folder: Path) -> dict[str, bytes]:
    return {os.fspath(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def fill(folder: Path, *names: str) -> dict[str, bytes]:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"mine")
    return snapshot(folder)


@pytest.mark.parametrize("names", [FOREIGN, *((name,) for name in FOREIGN)])
@pytest.mark.parametrize("overwrite", [False, True])
def test_features_go_into_no_folder_that_has_other_files(
    photos: Path, tmp_path: Path, names: tuple[str, ...], overwrite: bool
) -> None:
    before = fill(tmp_path / "out", *names)
    with pytest.raises(LikewiseError, match="out is a folder with other files in it; give features a folder of their"):
        extract_folder(photos, tmp_path / "out", Pixels(4), overwrite=overwrite)
    with pytest.raises(LikewiseError, match="folder with other files in it"):
        FeatureStore.write(tmp_path / "out", np.zeros((2, 2)))
    assert snapshot(tmp_path / "out") == before


def test_a_meta_file_of_others_does_not_make_a_folder_ours(photos: Path, tmp_path: Path) -> None:
    before = fill(tmp_path / "out", "meta.json", "features.npy")
    with pytest.raises(LikewiseError, match="folder with other files in it"):
        extract_folder(photos, tmp_path / "out", Pixels(4), overwrite=True)
    assert snapshot(tmp_path / "out") == before


def test_features_go_into_an_empty_folder_and_into_their_own(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    assert extract_folder(photos, tmp_path / "out", Pixels(4)).n_new == 6
    assert extract_folder(photos, tmp_path / "out", Pixels(4)).n_reused == 6


def test_a_failing_overwrite_leaves_the_store_as_it_was(photos: Path, tmp_path: Path) -> None:
    extract_folder(photos, tmp_path / "out", Pixels(4))
    before = snapshot(tmp_path / "out")
    for path in photos.rglob("*.png"):
        path.write_bytes(b"no image any more")
    with pytest.raises(LikewiseError, match="none of the 6 images"):
        extract_folder(photos, tmp_path / "out", Pixels(5), overwrite=True)
    after = snapshot(tmp_path / "out")
    assert {name: data for name, data in after.items() if not name.startswith(".work")} == before
    assert len(FeatureStore.open(tmp_path / "out")) == 6


# ---------------------------------------------------------------------------------------------------------------------
# Indexes


@pytest.fixture
def index() -> Index:
    X = np.random.default_rng(0).standard_normal((30, 4)).astype(np.float32)
    return Index.build(Cosine().fit(X), X)


@pytest.mark.parametrize("name", ["version-2/thesis.txt", "version-0123456789ab/thesis.txt", ".git/HEAD", "CURRENT"])
def test_an_index_goes_into_no_folder_that_has_other_files(index: Index, tmp_path: Path, name: str) -> None:
    before = fill(tmp_path / "out", name)
    with pytest.raises(LikewiseError, match="folder with other files in it; give an index a folder of its own"):
        index.save(tmp_path / "out")
    assert snapshot(tmp_path / "out") == before


@pytest.mark.parametrize("name", ["version-2/thesis.txt", "version-0123456789ab/thesis.txt", "notes.txt"])
def test_what_somebody_put_into_an_index_stays(index: Index, tmp_path: Path, name: str) -> None:
    folder = index.save(tmp_path / "out")
    fill(folder, name)
    (folder / "version-link00000000").symlink_to(tmp_path)
    index.save(folder)
    assert (folder / name).read_bytes() == b"mine"
    assert (folder / "version-link00000000").is_symlink()


def test_lessons_remove_only_lessons(index: Index, tmp_path: Path) -> None:
    folder = index.save(tmp_path / "out")
    fill(folder, "lessons/letter.txt")
    os.utime(folder / "lessons" / "letter.txt", (0, 0))
    loaded = load_index(folder)
    teacher = Teacher(loaded, opened_feedback(loaded))
    for number in range(10):
        teacher.mark(number, number + 1, right=True)
        teacher.mark(number, number + 9, right=False)
        teacher.learn()
    assert (folder / "lessons" / "letter.txt").exists()
    assert len(list((folder / "lessons").glob("*.likewise"))) == 8


# ---------------------------------------------------------------------------------------------------------------------
# Inputs of the command line


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    folder = tmp_path / "inputs"
    folder.mkdir()
    X = np.random.default_rng(0).standard_normal((24, 3))
    y = np.arange(24) % 3
    np.savez(folder / "t.npz", X=X, y=y)
    lines = [f"{a},{b},{c},{label}" for (a, b, c), label in zip(X, "abc" * 8, strict=True)]
    (folder / "t.csv").write_text("\n".join(["u,v,w,label", *lines]) + "\n")
    (folder / "labels.txt").write_text("\n".join(map(str, y)) + "\n")
    (folder / "relevance.csv").write_text("query,item,grade\n0,1,1\n0,2,0\n1,2,0\n")
    FeatureStore.write(folder / "s.features", X, y.astype(str))
    Cosine().fit(X).save(folder / "m.likewise")
    (folder / "link.csv").symlink_to("t.csv")
    os.link(folder / "t.csv", folder / "hard.csv")
    return folder


OVER_AN_INPUT = [
    "fit t.csv -o t.csv",
    "fit t.csv -o link.csv",
    "fit link.csv -o t.csv",
    "fit t.csv -o hard.csv",
    "fit t.csv -o ../inputs/./t.csv",
    "fit t.npz --labels labels.txt -o labels.txt",
    "fit t.npz --relevance relevance.csv -o relevance.csv",
    "fit t.npz --relevance relevance.csv --gallery t.csv -o t.csv",
    "fit t.npz --test t.csv -o t.csv",
    "fit s.features -o s.features/VERSION/features.npy",
    "fit t.npz -o new.likewise --checkpoint t.npz",
    "fit t.npz -o new.likewise --checkpoint new.likewise",
    "fit t.npz --labels labels.txt -o new.likewise --checkpoint labels.txt",
    "compare t.csv -o t.csv --methods cosine",
    "compare t.npz --labels labels.txt -o labels.txt",
    "index m.likewise t.npz -o new.index --export t.npz",
    "index m.likewise t.npz -o new.index --export m.likewise",
    "index m.likewise t.npz -o new.index --export new.npz --export new.npz",
    "index s.features -o s.features",
    "index s.features -o new.index --export s.features/VERSION/features.npy",
    "index t.npz --labels labels.txt -o new.index --export labels.txt",
    "features photos -o photos",
    "demo --digits -o .",
    "paper digits --quick -o .",
]


@pytest.mark.parametrize("command", OVER_AN_INPUT)
def test_no_verb_writes_over_an_input(inputs: Path, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(inputs)
    if command.startswith(("demo", "paper")):
        fill(inputs, "strips.png" if command.startswith("demo") else "report.html")
    if command.startswith("features"):
        (inputs / "photos").mkdir()
        Image.new("RGB", (8, 8)).save(inputs / "photos" / "a.png")
    before = snapshot(inputs)
    version = FeatureStore.open(inputs / "s.features").version.name
    done = CliRunner().invoke(app, command.replace("VERSION", version).split())
    assert done.exit_code == 2, done.output
    assert snapshot(inputs) == before


def test_a_model_beside_its_data_may_be_made_again(inputs: Path) -> None:
    folder = inputs / "pair"
    folder.mkdir()
    X = np.random.default_rng(0).standard_normal((24, 3))
    np.save(folder / "X.npy", X)
    (folder / "labels.txt").write_text("\n".join("abc" * 8))
    for _ in range(2):
        words = ["fit", str(folder), "-o", str(folder / "m.likewise"), "--method", "lda"]
        assert CliRunner().invoke(app, words).exit_code == 0
