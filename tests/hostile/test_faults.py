"""A fault at every write, rename, link and sync of every way to write: what is there is the old or the new."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from likewise import load
from likewise.errors import LikewiseError
from likewise.paper.cells import Cell, CellJournal, Done
from likewise.pictures import Pixels, extract_folder
from likewise.rivals import Cosine
from likewise.rows import FeatureStore
from likewise.search import Index
from likewise.search.exports import export
from likewise.search.items import ItemRef
from likewise.teach import Feedback, Teacher, load_index
from likewise.teach.feedback import Event
from likewise.teach.teacher import opened_feedback
from tests.hostile.faults import DEAD, SENTENCE, SUCCESS, WRONG, with_fault

X = np.random.default_rng(0).standard_normal((24, 4)).astype(np.float32)
FOREIGN = "mine.txt"


@dataclass(frozen=True)
class Way:
    """A way to write: the state before, what is done, and what a reader sees."""

    before: Callable[[Path], object]
    act: Callable[[Path], object]
    seen: Callable[[Path], Any]


def _pictures(folder: Path, numbers: range) -> None:
    for number in numbers:
        pixels = np.random.default_rng(number).integers(0, 256, (4, 4, 3), dtype=np.uint8)
        (folder / "photos").mkdir(exist_ok=True)
        Image.fromarray(pixels).save(folder / "photos" / f"{number * 7 % 5}{number}.png")


def _extract(folder: Path) -> None:
    extract_folder(folder / "photos", folder / "out", Pixels(2, n_jobs=1))


def _store_before(folder: Path) -> None:
    _pictures(folder, range(2))
    _extract(folder)
    _pictures(folder, range(2, 4))


def _rows(folder: Path) -> Any:
    """The features by path, each of its own picture."""
    store = FeatureStore.open(folder / "out")
    pictures = [np.asarray(Image.open(folder / "photos" / path)) for path in store.paths]
    assert np.array_equal(Pixels(2, n_jobs=1).transform(pictures), store.features)
    return store.paths


def _write_store(n: int) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        FeatureStore.write(folder / "out", X[:n] * n, [str(n)] * n, extractor=Pixels(n))

    return write


def _read_store(folder: Path) -> Any:
    store = FeatureStore.open(folder / "out")
    return store.features.tobytes(), store.paths, set(store.items), store.extractor().size


@cache
def _built(start: int, end: int) -> Index:
    return Index.build(Cosine().fit(X[start:end]), X[start:end])


def _index(start: int, end: int) -> Callable[[Path], object]:
    return lambda folder: _built(start, end).save(folder / "out")


def _taught(folder: Path) -> None:
    _index(0, 24)(folder)
    teacher = _teacher(folder)
    teacher.mark(0, [2, 4], right=True)
    teacher.mark(0, [5], right=False)


def _teacher(folder: Path) -> Teacher:
    index = Index.load(folder / "out")
    return Teacher(index, opened_feedback(index))


def _events(folder: Path) -> Any:
    feedback = Feedback(folder / "out")
    return [(event.kind, len(event.items), event.right) for event in feedback.steps()]


def _sixteen(folder: Path) -> None:
    items = tuple(ItemRef(row, f"row:{row:016x}") for row in range(16))
    Feedback(folder / "out").append(Event("mark", (ItemRef(0, "row:0"),), items, right=True))


def _journal(folder: Path, resume: bool) -> CellJournal:
    return CellJournal(folder / "out", {"seed": 0}, resume=resume)


def _cells(folder: Path) -> None:
    journal = _journal(folder, False)
    journal.add(("tables", "LDA", 0), Done([Cell("tables", "LDA", 0, 1.0, {"mAP": 0.5})]))


def _more_cells(folder: Path) -> None:
    cell = Cell("tables", "SLR", 0, 1.0, {"mAP": 0.7})
    _journal(folder, True).add(("tables", "SLR", 0), Done([cell]))


def _cell_keys(folder: Path) -> Any:
    with tempfile.TemporaryDirectory() as copied:  # to read it is to write it
        shutil.copytree(folder / "out", Path(copied) / "out")
        return sorted(CellJournal(Path(copied) / "out", {"seed": 0}, resume=True).done)


WAYS = {
    "features": Way(_store_before, _extract, _rows),
    "features, for the first time": Way(lambda folder: _pictures(folder, range(3)), _extract, _rows),
    "store": Way(_write_store(5), _write_store(7), _read_store),
    "store, by one without an extractor": Way(
        _write_store(5),
        lambda folder: FeatureStore.write(folder / "out", X),
        lambda folder: ((store := FeatureStore.open(folder / "out")).meta, store.extractor_file is None),
    ),
    "fit": Way(
        lambda folder: Cosine(centre=True).fit(X).save(folder / "out"),
        lambda folder: Cosine(centre=True).fit(X + 1).save(folder / "out"),
        lambda folder: load(folder / "out").mean_.tobytes(),
    ),
    "index": Way(_index(0, 9), _index(9, 24), lambda folder: load_index(folder / "out").raw.tobytes()),
    "lesson": Way(
        _taught,
        lambda folder: _teacher(folder).learn(),
        lambda folder: (_events(folder), load_index(folder / "out").vectors.shape),
    ),
    "mark": Way(_taught, _sixteen, _events),
    "undo": Way(_taught, lambda folder: Feedback(folder / "out").undo(), _events),
    "export": Way(
        lambda folder: (folder / "out.npz").write_bytes(b"old"),
        lambda folder: export(_built(0, 24), folder / "out.npz"),
        lambda folder: (folder / "out.npz").read_bytes() == b"old" or np.load(folder / "out.npz")["vectors"].tobytes(),
    ),
    "paper": Way(_cells, _more_cells, _cell_keys),
}  # fmt: skip


@pytest.fixture
def scratch() -> Iterator[Path]:
    """In memory where there is such a folder: hundreds of states are written and synced."""
    where = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="faults-", dir=where) as folder:
        yield Path(folder)


def seen_or_none(way: Way, folder: Path) -> Any:
    try:
        return way.seen(folder)
    except LikewiseError as error:
        assert any(words in str(error) for words in ("does not exist", "has no CURRENT", "is lost;")), error  # noqa: PT017
        return None


def fresh(way: Way, scratch: Path, sound: Path) -> Path:
    folder = scratch / "now"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(sound, folder, symlinks=True)
    return folder


@pytest.mark.second
@pytest.mark.parametrize("how", ["full disk", "die"])
@pytest.mark.parametrize("name", [name for name in WAYS if name not in ("mark", "undo")])  # SQLite writes these
def test_a_fault_at_any_event_leaves_the_old_or_the_new(name: str, how: str, scratch: Path) -> None:
    way, sound = WAYS[name], scratch / "sound"
    sound.mkdir()
    way.before(sound)
    (sound / FOREIGN).write_text("mine")
    old = seen_or_none(way, sound)
    folder = fresh(way, scratch, sound)
    way.act(folder)
    new = way.seen(folder)
    assert old != new
    for number in range(500):
        folder = fresh(way, scratch, sound)
        code, came = with_fault(lambda folder=folder: way.act(folder), number, "die" if how == "die" else "full")  # type: ignore[misc]
        assert code != WRONG, number
        found = seen_or_none(way, folder)
        assert found in (old, new), number
        assert found == new or code in (SENTENCE, DEAD), number
        assert (folder / FOREIGN).read_text() == "mine"
        if not came:
            break
        if name != "lesson":  # a second time it is a second step
            way.act(folder)
            assert way.seen(folder) == new, number
    assert not came
    assert code == SUCCESS
    assert number > 2


# ---------------------------------------------------------------------------------------------------------------------
# A disk that really is full, and a folder that really is read-only


def mounted(folder: Path, *words: str) -> bool:
    done = subprocess.run(["mount", *words, str(folder)], capture_output=True)
    return done.returncode == 0


@pytest.mark.second
@pytest.mark.parametrize("name", WAYS)
def test_a_full_disk_is_a_sentence_and_leaves_the_old(name: str, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if not mounted(disk, "-t", "tmpfs", "-o", "size=2m", "tmpfs"):
        pytest.skip("cannot mount a file system here")
    way = WAYS[name]
    try:
        way.before(disk)
        old = seen_or_none(way, disk)
        with open(disk / "filler", "wb", buffering=0) as file:
            while True:
                try:
                    file.write(b"\0" * 4096)
                except OSError:
                    break
        code, _ = with_fault(lambda: way.act(disk), 10**9, "full")
        assert code in (SENTENCE, SUCCESS), name
        if code == SENTENCE:
            assert seen_or_none(way, disk) == old
        (disk / "filler").unlink()
        if code == SENTENCE:
            way.act(disk)
            assert way.seen(disk) != old
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.second
@pytest.mark.parametrize("name", WAYS)
def test_a_read_only_folder_is_a_sentence_and_leaves_the_old(name: str, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    way = WAYS[name]
    way.before(disk)
    old = seen_or_none(way, disk)
    if not (mounted(disk, "--bind", str(disk)) and mounted(disk, "-o", "remount,bind,ro")):
        pytest.skip("cannot mount a file system here")
    try:
        code, _ = with_fault(lambda: way.act(disk), 10**9, "full")
        assert code == SENTENCE
        assert seen_or_none(way, disk) == old
    finally:
        subprocess.run(["umount", str(disk)], check=True)
