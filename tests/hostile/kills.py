"""`kill -9` at any moment of every way to write: `python -m tests.hostile.kills 200` (`make kills`).

The verbs run in forks. After each kill a reader sees the old or the new, what was confirmed is there, files of others
are untouched, and the same command again ends as if nothing had been.
"""

from __future__ import annotations

import csv
import os
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from typer.testing import CliRunner

from likewise.cli import app
from likewise.errors import LikewiseError
from likewise.learn.model_file import read_tensors
from likewise.pictures import Pixels
from likewise.rivals import Cosine
from likewise.rows import FeatureStore
from likewise.search import Index
from likewise.search.items import ItemRef
from likewise.teach import Feedback, Teacher, load_index
from likewise.teach.feedback import Event
from likewise.teach.teacher import opened_feedback
from tests.hostile.runner import scratch_folder

X = np.random.default_rng(0).standard_normal((60, 4)).astype(np.float32)
FOREIGN = "mine.txt"


@dataclass(frozen=True)
class Deed:
    """A way to write: the state before, what is done, what a reader sees, and what he may see after a kill."""

    before: Callable[[Path], object]
    act: Callable[[Path], object]
    seen: Callable[[Path], Any]
    holds: Callable[[Any, Any, Any], bool] = lambda found, old, new: found in (old, new)
    repeats: bool = True  # doing it again ends in the same


def verb(*words: str) -> Callable[[Path], None]:
    """A command whose files are in the folder."""

    def act(folder: Path) -> None:
        os.chdir(folder)
        done = CliRunner().invoke(app, list(words))
        assert done.exit_code == 0, done.output

    return act


# ---------------------------------------------------------------------------------------------------------------------
# The ways to write


def _pictures(folder: Path, numbers: range) -> None:
    (folder / "photos").mkdir(exist_ok=True)
    for number in numbers:
        pixels = np.random.default_rng(number).integers(0, 256, (4, 4, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / "photos" / f"{number * 7 % 5}{number}.png")


_extract = verb("features", "photos", "-o", "out", "-e", "pixels")


def _some_pictures(folder: Path) -> None:
    _pictures(folder, range(8))
    _extract(folder)
    _pictures(folder, range(8, 24))


def _rows(folder: Path) -> Any:
    """Path and features of each item, each of its own picture."""
    store = FeatureStore.open(folder / "out")
    wanted = Pixels(store.extractor().size, n_jobs=1).transform([folder / "photos" / path for path in store.paths])
    assert np.array_equal(wanted, store.features), "features of another picture"
    return sorted(store.paths)


def _tables(folder: Path) -> None:
    np.savez(folder / "t.npz", X=X, y=np.arange(60) % 3)
    np.savez(folder / "u.npz", X=X + 1, y=np.arange(60) % 3)
    Cosine(centre=True).fit(X).save(folder / "m.likewise")


def _after(*words: str) -> Callable[[Path], None]:
    """The tables, and a command that ran before."""

    def make(folder: Path) -> None:
        _tables(folder)
        verb(*words)(folder)

    return make


def _learned(folder: Path) -> Any:
    """The arrays of a model; its card also has the seconds it took."""
    return {name: value.tobytes() for name, value in read_tensors(folder / "out")[0].items()}


def _bytes(name: str) -> Callable[[Path], Any]:
    return lambda folder: (folder / name).read_bytes()


def _indexed(folder: Path) -> Any:
    index = load_index(folder / "out")
    assert index.search(index.raw[:1], k=3).scores.shape == (1, 3)
    return index.raw.tobytes(), index.vectors.tobytes()


def _marked(folder: Path) -> None:
    Index.build(Cosine().fit(X), X).save(folder / "out")
    teacher = _teacher(folder)
    teacher.mark(0, [3, 6], right=True)
    teacher.mark(0, [5], right=False)


def _teacher(folder: Path) -> Teacher:
    index = Index.load(folder / "out")
    return Teacher(index, opened_feedback(index))


def _lesson(folder: Path) -> Any:
    """The marks, which are always there, and the vectors, taught or not."""
    marks = [event.kind for event in Feedback(folder / "out").steps() if event.kind == "mark"]
    assert marks == ["mark", "mark"], "a mark is lost"
    return load_index(folder / "out").vectors.shape


def _mark_and_note(folder: Path) -> None:
    """Many marks and some undone, each noted where it was confirmed."""
    feedback = Feedback(folder / "out")
    with open(folder / "notes", "ab", buffering=0) as notes:
        for number in range(300):
            event = feedback.append(Event("label", items=(ItemRef(f"i{number}"),), label="x"))
            notes.write(f"+{event.id}\n".encode())
            if number % 3 == 2 and (undone := feedback.undo()):
                notes.write(f"-{undone.id}\n".encode())


def _confirmed(folder: Path) -> int:
    """How many marks are in force; all that were noted are, but one that may have been undone without a note."""
    noted = (folder / "notes").read_text().splitlines() if (folder / "notes").exists() else []
    undone = {line[1:] for line in noted if line[0] == "-"}
    standing = {event.id for event in Feedback(folder / "out").steps()}
    lost = {line[1:] for line in noted if line[0] == "+"} - undone - standing
    assert len(lost) <= 1, f"{len(lost)} confirmed marks are lost"
    assert not undone & standing, "an undo is lost"
    return len(standing)


_PAPER = ("paper", "digits", "--quick", "--methods", "Euclid,LDA,SLR", "--only", "table1", "--splits", "2", "-o", "out")


def _cells(folder: Path) -> Any:
    """The table without its seconds."""
    if not (folder / "out" / "cells.csv").exists():
        return set()
    with open(folder / "out" / "cells.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    return {tuple(value for name, value in row.items() if not name.endswith("seconds")) for row in rows}


DEEDS = {
    "features": Deed(_some_pictures, _extract, _rows),
    "fit": Deed(
        _after("fit", "t.npz", "-o", "out", "--method", "slr", "--rank", "2"),
        verb("fit", "u.npz", "-o", "out", "--method", "slr", "--rank", "2"),
        _learned,
    ),
    "index": Deed(
        _after("index", "m.likewise", "t.npz", "-o", "out"), verb("index", "m.likewise", "u.npz", "-o", "out"), _indexed
    ),
    "lesson": Deed(_marked, lambda folder: _teacher(folder).learn(), _lesson),
    "feedback": Deed(
        _marked, _mark_and_note, _confirmed, holds=lambda found, old, new: old <= found <= new + 1, repeats=False
    ),
    "export": Deed(
        _after("index", "m.likewise", "t.npz", "-o", "i", "--export", "out.npz"),
        verb("index", "m.likewise", "u.npz", "-o", "i", "--export", "out.npz"),
        _bytes("out.npz"),
    ),
    "paper": Deed(lambda folder: None, verb(*_PAPER, "--resume"), _cells, holds=lambda found, old, new: found <= new),
}

# ---------------------------------------------------------------------------------------------------------------------
# Killing


def killed(act: Callable[[Path], object], folder: Path, after: float) -> bool:
    """Do it in a fork and kill that after so many seconds; whether the kill came in time."""
    child = started(act, folder)
    time.sleep(after)
    os.kill(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    _await_its_children(child)
    assert code in (0, -signal.SIGKILL), f"it failed by itself, with exit {code}"
    return code != 0


def started(act: Callable[[Path], object], folder: Path) -> int:
    child = os.fork()
    if child:
        return child
    os.setpgid(0, 0)
    try:
        act(folder)
        os._exit(0)
    except BaseException:
        traceback.print_exc()
    os._exit(1)


def _await_its_children(group: int) -> None:
    """What it had started, decoders of pictures, ends by itself."""
    for _ in range(600):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    raise AssertionError("processes outlive their parent")


def undisturbed(deed: Deed, folder: Path) -> float:
    """Do it to its end; how long it took."""
    began = time.monotonic()
    child = started(deed.act, folder)
    assert os.waitpid(child, 0)[1] == 0
    return time.monotonic() - began


def run(deed: Deed, kills: int, rng: np.random.Generator, scratch: str) -> list[str]:
    """Kill so many times; what went wrong."""
    sound = Path(scratch) / "sound"
    sound.mkdir()
    assert os.waitpid(started(deed.before, sound), 0)[1] == 0
    (sound / FOREIGN).write_text("mine")
    old = _seen(deed, sound)
    whole = shutil.copytree(sound, sound.with_name("whole"))
    seconds = undisturbed(deed, whole)
    new = deed.seen(whole)
    wrong = []
    while kills > 0:
        folder = shutil.copytree(sound, sound.with_name("now"))
        try:
            kills -= _one(deed, folder, rng.uniform(0, seconds), old, new)
        except (AssertionError, LikewiseError) as error:
            wrong.append(f"{type(error).__name__}: {error}")
            kills -= 1
        shutil.rmtree(folder)
    return wrong


def _one(deed: Deed, folder: Path, after: float, old: Any, new: Any) -> bool:
    """Kill once and look; whether the kill came before the end."""
    in_time = killed(deed.act, folder, after)
    found = _seen(deed, folder)
    assert deed.holds(found, old, new), f"after {after:.3f} s neither the old nor the new"
    assert (folder / FOREIGN).read_text() == "mine"
    if deed.repeats and in_time:
        undisturbed(deed, folder)
        assert deed.seen(folder) == new, f"killed after {after:.3f} s, it ends otherwise when done again"
    return in_time


def _seen(deed: Deed, folder: Path) -> Any:
    try:
        return deed.seen(folder)
    except FileNotFoundError:
        return None


def main() -> None:
    """`python -m tests.hostile.kills [N [SEED [NAME…]]]`: N kills over all ways; exits with 1 if something was lost."""
    n, seed, *names = [*sys.argv[1:], *["200", "1"][len(sys.argv) - 1 :]]
    names = names or list(DEEDS)
    wrong = []
    for place, name in enumerate(names):
        kills = int(n) // len(names) + (place < int(n) % len(names))
        with scratch_folder() as scratch:
            found = run(DEEDS[name], kills, np.random.default_rng([int(seed), place]), scratch)
        print(f"{name:<10}{kills:>5} kills, {len(found)} wrong", flush=True)
        wrong += [f"{name}: {text}" for text in found]
    print("\n".join(wrong))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
