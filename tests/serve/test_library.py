"""A folder of pictures and the index next to it: built, updated, and never replacing other files."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from likewise import SimilarityLearner
from likewise.errors import LikewiseError
from likewise.pictures import Pixels, extract_folder
from likewise.pictures.folder import LabelFolders
from likewise.rivals import Cosine
from likewise.rows import FeatureStore
from likewise.search import Index
from likewise.serve.library import BuiltIndex, PhotoLibrary, update_library
from likewise.teach import Feedback, Taught, Teacher, load_index

NAMES = ("zero", "one", "two", "three")
EACH = 12


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Digits as small pictures, in four folders."""
    images, digits = load_digits(return_X_y=True)
    for digit, name in enumerate(NAMES):
        for number in np.flatnonzero(digits == digit)[:EACH]:
            save(tmp_path / "My photos" / name / f"{number}.png", images[number])
    return tmp_path / "My photos"


def save(path: Path, image: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray((image.reshape(8, 8) * 15.9).astype(np.uint8)).save(path)


def flat(photos: Path) -> Path:
    """The same pictures without folders."""
    folder = photos.parent / "flat"
    folder.mkdir()
    for path in photos.rglob("*.png"):
        shutil.copy(path, folder / f"{path.parent.name}-{path.name}")
    return folder


def update(folder: Path, **options: Any) -> BuiltIndex:
    return update_library(folder, **{"extractor": Pixels(size=8, colour=False), **options})


def told_by(folder: Path, refit: bool = False) -> tuple[BuiltIndex, list[str]]:
    """An update of an existing library, and what it said."""
    sentences: list[str] = []
    library = PhotoLibrary(folder, tell=sentences.append)
    library.extract(library.choose_labels())
    return library.build(refit), sentences


def never(seen: LabelFolders) -> bool:
    raise AssertionError(f"asked again: {seen.sentence}")


def names(index: Path) -> list[str]:
    paths = load_index(index).paths
    assert paths is not None
    return paths.tolist()


# ---------------------------------------------------------------------------------------------------------------------
# Made


def test_folders_of_classes_become_labels_and_are_learned(photos: Path) -> None:
    before = sorted(photos.rglob("*"))
    built = update(photos)
    index = load_index(photos.parent / "My photos.index")
    assert built.folder == photos.parent / "My photos.index"
    assert (built.written, built.learned, built.n_learned) == (True, True, 4 * EACH)
    assert built.held_out is not None
    assert isinstance(index.model, SimilarityLearner)
    assert index.labels is not None
    assert set(index.labels) == set(NAMES)
    assert index.source is not None
    assert (index.source["labels"], index.source["n_learned"]) == ("folders", 4 * EACH)
    assert index.source["features"] == "../My photos.features"
    assert sorted(photos.rglob("*")) == before


def test_pictures_without_folders_are_compared_by_the_cosine(photos: Path) -> None:
    folder = flat(photos)
    built = update(folder, ask=never)
    index = load_index(built.folder)
    assert isinstance(index.model, Cosine)
    assert index.labels is None
    assert not built.learned
    assert len(index) == 4 * EACH


def test_the_question_is_asked_once(photos: Path) -> None:
    questions: list[str] = []

    def no(seen: LabelFolders) -> bool:
        questions.append(seen.sentence)
        return False

    built = update(photos, ask=no)
    assert questions == ["4 folders with 12 pictures each"]
    assert load_index(built.folder).labels is None
    shutil.copy(next(photos.rglob("*.png")), photos / "copy.png")
    update(photos, ask=never)
    assert load_index(built.folder).labels is None


def test_labels_may_come_from_a_file(photos: Path, tmp_path: Path) -> None:
    folder = flat(photos)
    file = tmp_path / "labels.csv"
    file.write_text("".join(f"{path.name},{path.name.split('-')[0]}\n" for path in folder.iterdir()))
    built = update(folder, labels=str(file))
    assert built.learned
    assert load_index(built.folder).source["labels"] == str(file)  # type: ignore[index]
    assert not update(folder).written


@pytest.mark.parametrize(
    ("keep", "sentence"),
    [
        (("zero",), "all labelled pictures have the label 'zero': "),
        (("zero", "one"), "2 pictures of 2 labels are too few to learn from: "),
    ],
)
def test_too_little_to_learn_from_is_said(photos: Path, keep: tuple[str, ...], sentence: str) -> None:
    for path in photos.rglob("*.png"):
        first = min(path.parent.iterdir())
        if path.parent.name not in keep or (len(keep) == 2 and path != first):
            path.unlink()
    sentences: list[str] = []
    library = PhotoLibrary(photos, tell=sentences.append)
    library.extract("folders", Pixels(size=8))
    built = library.build()
    assert sentences == [sentence + "pictures are compared as they are, without learning"]
    assert isinstance(load_index(built.folder).model, Cosine)


def test_one_picture_is_a_library(tmp_path: Path) -> None:
    save(tmp_path / "Küste" / "a.png", np.arange(64))
    assert len(load_index(update(tmp_path / "Küste").folder)) == 1


def test_the_folder_one_is_in_has_its_index_beside_it(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(photos)
    assert update(Path(".")).folder == photos.parent / "My photos.index"
    assert not update(photos).written


def test_a_linked_folder_has_its_index_beside_the_link(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "desk").mkdir()
    (tmp_path / "desk" / "pictures").symlink_to(photos)
    assert update(tmp_path / "desk" / "pictures").folder == tmp_path / "desk" / "pictures.index"


def test_features_are_indexed_beside_themselves(photos: Path) -> None:
    extract_folder(photos, photos.parent / "mine.features", Pixels(size=8))
    built = update_library(photos.parent / "mine.features")
    assert built.folder == photos.parent / "mine.index"
    assert built.learned
    assert not update_library(photos.parent / "mine.features").written


def test_output_puts_both_elsewhere(photos: Path, tmp_path: Path) -> None:
    update(photos, output=tmp_path / "deep" / "er" / "mine.index")
    assert load_index(tmp_path / "deep" / "er" / "mine.index").image_path(0) == photos / "one" / "1.png"
    assert len(FeatureStore.open(tmp_path / "deep" / "er" / "mine.features")) == 4 * EACH


# ---------------------------------------------------------------------------------------------------------------------
# Brought up to date


def test_nothing_is_written_if_nothing_changed(photos: Path) -> None:
    current = (update(photos).folder / "CURRENT").read_bytes()
    again = update(photos, ask=never)
    assert not again.written
    assert (again.folder / "CURRENT").read_bytes() == current


def test_new_pictures_come_in_deleted_ones_leave_and_the_model_stays(photos: Path) -> None:
    built = update(photos)
    model = load_index(built.folder).model
    first, second = sorted((photos / "two").iterdir())[:2]
    first.unlink()
    second.rename(photos / "two" / "renamed.png")
    save(photos / "two" / "new.png", np.arange(64) / 4)
    again, sentences = told_by(photos)
    assert (again.written, again.learned) == (True, False)
    assert sentences == ["the model is kept: little has changed since it learned (--refit learns again)"]
    paths = names(built.folder)
    assert "two/new.png" in paths
    assert "two/renamed.png" in paths
    assert f"two/{first.name}" not in paths
    index = load_index(built.folder)
    np.testing.assert_array_equal(index.model.transform(index.raw[:5]), model.transform(index.raw[:5]))
    assert index.source["n_learned"] == 4 * EACH  # type: ignore[index]


def test_a_picture_moved_to_another_folder_has_its_label(photos: Path) -> None:
    built = update(photos)
    (photos / "two" / "2.png").rename(photos / "one" / "2.png")
    assert not told_by(photos)[0].learned
    index = load_index(built.folder)
    assert index.labels is not None
    assert index.labels[names(built.folder).index("one/2.png")] == "one"


def test_many_new_pictures_are_learned_from(photos: Path) -> None:
    update(photos)
    for number in range(6):
        save(photos / "two" / f"new{number}.png", (np.arange(64) + number) / 5)
    again, sentences = told_by(photos)
    assert sentences == ["learning again: 6 of 48 labelled pictures changed"]
    assert (again.learned, again.n_learned) == (True, 4 * EACH + 6)


def test_a_new_class_is_learned(photos: Path) -> None:
    update(photos)
    for number in range(3):
        save(photos / "noise" / f"{number}.png", np.arange(64)[::-1] / (5 + number))
    assert told_by(photos)[1] == ["learning again: 1 label of 4 changed"]


def test_refit_learns_again_without_a_change(photos: Path) -> None:
    update(photos)
    assert told_by(photos, refit=True)[0].learned


def test_labels_may_be_dropped_and_taken_back(photos: Path) -> None:
    folder = update(photos).folder
    update(photos, labels="none")
    assert isinstance(load_index(folder).model, Cosine)
    assert not update(photos, ask=never).written
    assert update(photos, labels="folders").learned
    assert isinstance(load_index(folder).model, SimilarityLearner)


def test_marks_and_lessons_stay_with_their_pictures(photos: Path) -> None:
    folder = update(photos, labels="none").folder
    teacher = Teacher(load_index(folder), Feedback(folder))
    rows = [names(folder).index(f"{name}/{number}.png") for name, number in (("zero", 0), ("zero", 10), ("one", 1))]
    teacher.mark(rows[0], rows[1], True)
    teacher.mark(rows[0], rows[2], False)
    teacher.learn()
    (photos / "zero" / "0.png").rename(photos / "a.png")
    save(photos / "0.png", np.arange(64) / 4)
    assert update(photos).written
    index = load_index(folder)
    assert isinstance(index.model, Taught)
    state = Teacher(index, Feedback(folder)).state()
    assert {names(folder)[row] for row in state.rows} == {"a.png", "zero/10.png", "one/1.png"}


def test_a_moved_library_goes_on(photos: Path, tmp_path: Path) -> None:
    update(photos)
    shutil.copytree(tmp_path, tmp_path.parent / f"{tmp_path.name}-moved")
    shutil.rmtree(photos)
    moved = tmp_path.parent / f"{tmp_path.name}-moved" / "My photos"
    again, _ = told_by(moved)
    assert not again.learned
    assert load_index(again.folder).image_path(0) == moved / "one" / "1.png"


# ---------------------------------------------------------------------------------------------------------------------
# Other files in the folder


def _refused(words: str, *arguments: Any, **options: Any) -> None:
    with pytest.raises(LikewiseError) as caught:
        update(*arguments, **options)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_has_no_pictures_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    _refused("empty contains no image (jpg, png, webp, gif, bmp, tiff, heic, avif)", tmp_path / "empty")
    _refused("none does not exist", tmp_path / "none")
    (tmp_path / "file").touch()
    _refused("file is not a folder", tmp_path / "file")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "file"]


def test_nothing_is_written_among_the_pictures(photos: Path) -> None:
    _refused("nothing is written among your pictures", photos, output=photos / "x.index")


@pytest.mark.parametrize("name", ["My photos.features", "My photos.index"])
def test_what_is_somebody_elses_is_left_alone(photos: Path, name: str) -> None:
    other = photos.parent / name
    other.mkdir()
    (other / "thesis.txt").write_text("mine")
    _refused(f"{name} is there already and is something else; choose another place with --output", photos)
    assert [path.name for path in other.iterdir()] == ["thesis.txt"]


def test_an_index_made_by_hand_is_left_alone(photos: Path) -> None:
    Index.build(Cosine().fit(np.eye(3)), np.eye(3)).save(photos.parent / "My photos.index")
    _refused("My photos.index was made by likewise index, with a model of its own: likewise serve", photos)
    assert len(load_index(photos.parent / "My photos.index")) == 3


def test_features_by_another_extractor_or_of_another_folder_are_left_alone(photos: Path) -> None:
    store = photos.parent / "My photos.features"
    extract_folder(photos, store, Pixels(size=4))
    _refused("My photos.features holds features by pixels; choose another place with --output", photos)
    extract_folder(flat(photos), store, Pixels(size=8, colour=False), overwrite=True)
    _refused("holds features of ", photos)
    FeatureStore.write(store, np.eye(3))
    _refused("holds features by something else; choose another place with --output", photos)


def test_features_made_before_are_used_with_their_own_extractor(photos: Path) -> None:
    extract_folder(photos, photos.parent / "My photos.features", Pixels(size=4), labels="none")
    built = update_library(photos, ask=never)
    index = load_index(built.folder)
    assert index.raw.shape == (4 * EACH, 48)
    assert index.labels is None


def test_a_place_that_cannot_be_written_is_said_before_any_work(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parent = photos.parent
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != parent)  # root may write everywhere
    _refused(f"My photos.features: {parent} is read-only; choose another place with --output", photos)
