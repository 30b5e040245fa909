"""The way back: damaged indexes, damaged journals, backups, and steps about items that have another name now."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import sqlite3
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.hostile.forks import in_a_fork

from likewise.errors import FileFormatError, LikewiseError
from likewise.pictures import Pixels, extract_folder
from likewise.rivals import LDA
from likewise.rows import FeatureStore
from likewise.search import Index
from likewise.search.repair import problem_of, repair
from likewise.search.storage import INDEX
from likewise.teach import Feedback, Teacher, load_index, save_index
from likewise.teach.backup import back_up, marks_problem, parked, place, repair_marks, restore
from likewise.utils.versions import META

N = 24


def pictures(folder: Path) -> None:
    rng = np.random.default_rng(0)
    for number in range(N):
        if number % 8 == 0:
            tile = rng.integers(0, 256, (4, 4, 3))
        path = folder / "photos" / f"class{number // 8}" / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.clip(tile + rng.normal(0, 30, (4, 4, 3)), 0, 255).astype(np.uint8)).save(path)


def indexed(folder: Path, size: int = 4) -> Path:
    """The index of the pictures in a folder; with another size it has other features."""
    store = folder / f"{size}.features"
    extract_folder(folder / "photos", store, Pixels(size=size))
    features = FeatureStore.open(store)
    X, y = np.asarray(features.features)[::2], features.labels[::2]
    return save_index(Index.build(LDA(shrinkage=0.5).fit(X, y), features, n_neighbors=3), folder / "photos.index")


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index with marks, labels and a lesson, updated once, so that it has two versions."""
    folder = tmp_path_factory.mktemp("taught")
    pictures(folder)
    index = indexed(folder)
    teacher = Teacher(load_index(index), Feedback(index))
    teacher.mark(0, [1, 2, 3], True, "ann")
    teacher.mark(0, [9, 17], False, "bob")
    teacher.label([4, 5, 6], "new", "ann")
    teacher.learn()
    teacher.label([7], "later", "bob")
    save_index(Index.load(index), index)
    return folder


def said(index: Path) -> Any:
    """What marks and labels say, by the names of the items, and what is found."""
    loaded = load_index(index)
    ids = loaded.ids
    state = Teacher(loaded, Feedback(index)).state()
    marks = {(ids[mark.query.value], ids[mark.item.value], mark.right) for mark in state.marks}
    labels = {ids[row]: label for row, label in state.labels.items()}
    return marks, labels, loaded.search(rows=[0, 8], k=5).ids.tolist(), state.parked


@pytest.fixture
def home(taught: Path, tmp_path: Path) -> Path:
    shutil.copytree(taught, tmp_path / "home")
    return tmp_path / "home"


def _change(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)


def _current(index: Path) -> Path:
    version = INDEX.current(index)
    assert version is not None
    return version


DAMAGES: dict[str, Callable[[Path], object]] = {
    "the pointer is lost": lambda index: (index / "CURRENT").unlink(),
    "the pointer is garbage": lambda index: (index / "CURRENT").write_bytes(b"\xff\0"),
    "a version is lost": lambda index: shutil.rmtree(_current(index)),
    "vectors are altered": lambda index: _change(_current(index) / "vectors.npy"),
    "rows are altered": lambda index: _change(_current(index) / "raw.npy"),
    "the model is altered": lambda index: _change(_current(index) / "model.likewise"),
    "the facts are lost": lambda index: (_current(index) / META).unlink(),
    "items are truncated": lambda index: (_current(index) / "items.json").write_bytes(b'{"ids"'),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_after_any_damage_a_repair_brings_all_marks_back(home: Path, damage: str) -> None:
    index = home / "photos.index"
    before = said(index)
    DAMAGES[damage](index)
    with pytest.raises(FileFormatError, match=f"likewise check {index} --repair"):
        load_index(index)
    assert problem_of(index) is not None
    repair(index)
    assert problem_of(index) is None
    assert said(index) == before


@pytest.mark.parametrize("damage", ["vectors are altered", "the facts are lost"])
def test_with_one_version_what_can_be_computed_is_computed_again(home: Path, damage: str) -> None:
    index = home / "photos.index"
    before = said(index)
    previous = INDEX.previous(index)
    assert previous is not None
    shutil.rmtree(previous)
    DAMAGES[damage](index)
    assert repair(index).startswith(f"computed again from the rows and the model of {_name_before(index)}: 24 items")
    assert said(index)[:2] == before[:2]
    if damage == "vectors are altered":
        assert said(index) == before


def _name_before(index: Path) -> str:
    return str((index / "CURRENT").read_text().split()[1])


@pytest.mark.parametrize("damage", ["a version is lost", "rows are altered", "items are truncated"])
def test_where_nothing_can_be_repaired_the_index_is_built_again_around_its_marks(home: Path, damage: str) -> None:
    index = home / "photos.index"
    before = said(index)
    previous = INDEX.previous(index)
    assert previous is not None
    shutil.rmtree(previous)
    DAMAGES[damage](index)
    command = f"likewise serve PHOTOS -o {index}, or likewise index [MODEL] GALLERY -o {index},"
    if damage != "a version is lost":
        command = f"likewise index {_current(index) / 'model.likewise'} GALLERY -o {index}"
    with pytest.raises(LikewiseError) as caught:
        repair(index)
    assert str(caught.value) == (
        f"no version of {index} can be repaired; its marks stay: {command} builds it again around them"
    )
    indexed(home)
    assert said(index)[:2] == before[:2]


def test_a_folder_that_never_was_an_index_is_not_repaired(tmp_path: Path) -> None:
    with pytest.raises(LikewiseError) as caught:
        repair(tmp_path)
    assert str(caught.value) == f"{tmp_path} is not an index: it has no CURRENT"


# ---------------------------------------------------------------------------------------------------------------------
# The journal


def _first_page(path: Path) -> None:
    path.write_bytes(b"\0" * 4096 + path.read_bytes()[4096:])


def _record(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data.replace(b'"label":"new"', b'"label":"odd"'))


@pytest.mark.parametrize(("damage", "lost"), [(_first_page, 0), (_record, 1)])
def test_of_a_damaged_journal_all_that_can_be_read_is_saved(
    home: Path, damage: Callable[[Path], None], lost: int
) -> None:
    index = home / "photos.index"
    marks, labels, _, _ = said(index)
    n = len(Feedback(index).history())
    damage(index / "marks.sqlite")
    problem = marks_problem(index)
    assert problem is not None
    with pytest.raises(LikewiseError) as caught:
        back_up(index, home / "b.zip")
    assert str(caught.value) == f"{problem}; likewise check {index} --repair comes before a backup"
    damaged = (index / "marks.sqlite").read_bytes()
    path = index / "marks.sqlite"
    assert repair_marks(index) == f"{n - lost} records of {path} were read; the damaged file is {path}.damaged-1"
    assert (index / "marks.sqlite.damaged-1").read_bytes() == damaged
    assert marks_problem(index) is None
    assert said(index)[0] == marks
    assert {name: label for name, label in labels.items() if label != "new" or not lost} == said(index)[1]
    save_index(Index.load(index), index)  # the damaged file is not in the way


# ---------------------------------------------------------------------------------------------------------------------
# Backups


def test_a_backup_brings_marks_labels_and_lessons_to_another_machine(home: Path, tmp_path: Path) -> None:
    (home / "photos.cat.undo.sqlite").write_bytes(b"an undo list")
    saved = back_up(home / "photos.index", tmp_path / "b.zip")
    assert (saved.steps, saved.lessons, saved.undo_lists) == (4, 1, 1)
    assert saved.settings["neighbors"] == {"k": 3, "power": saved.settings["neighbors"]["power"]}
    there = tmp_path / "there"
    pictures(there)
    index = indexed(there)
    assert restore(tmp_path / "b.zip", index) == saved
    assert said(index) == said(home / "photos.index")
    assert (there / "photos.cat.undo.sqlite").read_bytes() == b"an undo list"
    assert restore(tmp_path / "b.zip", index) == saved  # again


def test_a_backup_fits_an_index_with_other_features(home: Path, tmp_path: Path) -> None:
    back_up(home / "photos.index", tmp_path / "b.zip")
    there = tmp_path / "there"
    pictures(there)
    index = indexed(there, size=3)
    restore(tmp_path / "b.zip", index)
    marks, labels, _, parked_steps = said(index)
    assert (marks, labels) == said(home / "photos.index")[:2]
    assert parked_steps == 0


def test_steps_that_a_backup_has_not_are_not_lost(home: Path, tmp_path: Path) -> None:
    index = home / "photos.index"
    back_up(index, tmp_path / "b.zip")
    Teacher(load_index(index), Feedback(index)).label([10], "since")
    before = said(index)
    with pytest.raises(LikewiseError) as caught:
        restore(tmp_path / "b.zip", index)
    assert str(caught.value) == (
        f"{index} has 1 steps that {tmp_path / 'b.zip'} has not; expected an index without: likewise backup {index} "
        f"saves these, and without {index / 'marks.sqlite'} the backup can be restored"
    )
    assert said(index) == before


def test_marks_that_were_lost_come_back_in_their_order(home: Path, tmp_path: Path) -> None:
    index = home / "photos.index"
    before = said(index)
    back_up(index, tmp_path / "b.zip")
    (index / "marks.sqlite").unlink()
    restore(tmp_path / "b.zip", index)
    assert said(index) == before


def test_what_a_killed_process_left_next_to_lost_marks_does_not_undo_a_backup(home: Path, tmp_path: Path) -> None:
    index = home / "photos.index"
    marks = index / "marks.sqlite"

    def half_a_step() -> None:
        connection = sqlite3.connect(marks, isolation_level=None)
        connection.execute("PRAGMA cache_size = 1")  # pages are written before the end
        connection.execute("BEGIN IMMEDIATE")
        for number in range(1000, 1100):
            connection.execute("INSERT INTO journal VALUES (?, ?, 0)", (number, "x" * 3000))
        os.kill(os.getpid(), signal.SIGKILL)

    shutil.copytree(home, tmp_path / "other")
    for row in range(10):
        Teacher(load_index(index), Feedback(index)).label([row], "since")
    back_up(index, tmp_path / "b.zip")
    before, index = said(index), tmp_path / "other" / "photos.index"
    marks = index / "marks.sqlite"
    assert in_a_fork(half_a_step).returncode == -signal.SIGKILL
    assert (index / "marks.sqlite-journal").stat().st_size
    marks.unlink()
    restore(tmp_path / "b.zip", index)
    assert said(index) == before


def test_of_a_damaged_index_the_marks_can_be_saved(home: Path, tmp_path: Path) -> None:
    shutil.rmtree(_current(home / "photos.index"))
    assert back_up(home / "photos.index", tmp_path / "b.zip").steps == 4


def test_other_files_than_backups_are_refused(home: Path, tmp_path: Path) -> None:
    index, file = home / "photos.index", tmp_path / "b.zip"
    with pytest.raises(LikewiseError, match=f"^{file} does not exist$"):
        restore(file, index)
    file.write_bytes(b"PK")
    with pytest.raises(FileFormatError, match="is not a backup, or it is damaged: File is not a zip file"):
        restore(file, index)
    back_up(index, file)
    with zipfile.ZipFile(file) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in content.items():
            archive.writestr(name, data + b"0" * (name == "marks.sqlite"))
    with pytest.raises(FileFormatError, match=r"the checksum of marks\.sqlite does not match"):
        restore(file, index)
    for name in ("undo/../../x.undo.sqlite", "undo/x.sh", "/etc/cron.d/x"):
        about = json.loads(content["backup.json"])
        about["files"][name] = hashlib.sha256(b"x").hexdigest()
        with zipfile.ZipFile(file, "w") as archive:
            for member, data in {**content, "backup.json": json.dumps(about).encode(), name: b"x"}.items():
                archive.writestr(member, data)
        with pytest.raises(FileFormatError, match=f"{name} is not a file of a backup"):
            restore(file, index)
    with pytest.raises(LikewiseError, match="is not an index: expected one of the items that the backup is about"):
        restore(file, tmp_path)
    with pytest.raises(LikewiseError, match="is not an index: expected a folder with marks"):
        back_up(tmp_path, file)


# ---------------------------------------------------------------------------------------------------------------------
# Parked steps


def test_what_was_said_of_a_file_that_is_gone_is_listed_and_can_be_placed(home: Path) -> None:
    index, photos = home / "photos.index", home / "photos"
    other = np.random.default_rng(1).integers(0, 256, (4, 4, 3)).astype(np.uint8)
    (photos / "class0" / "4.png").unlink()
    Image.fromarray(other).save(photos / "class0" / "other.png")  # edited beyond recognition, and renamed
    indexed(home)
    loaded, feedback = load_index(index), Feedback(index)
    assert [step.words for step in parked(loaded, feedback)] == ["class0/4.png: label new on 3 items by ann"]
    assert place(loaded, feedback, "class0/4.png", "class0/other.png") == 1
    assert said(index)[1]["class0/other.png"] == "new"
    assert not parked(loaded, Feedback(index))
    for names, words in (
        (("class0/4.png", "class0/other.png"), "--place class0/4.png: no step about an item of this name is parked"),
    ):
        with pytest.raises(LikewiseError) as caught:
            place(loaded, Feedback(index), *names)
        assert str(caught.value) == words
