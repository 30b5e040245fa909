"""Any sequence of edits, copies, renames, replacements, marks, corrections and restarts: every statement stays with the
file that it was about, and none is lost. The oracle knows the files themselves, not their names."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from likewise.rivals import Cosine
from likewise.search import Index
from likewise.search.items import Items
from likewise.teach import Feedback, Teacher, load_index, save_index

PICK = st.integers(0, 10**6)


@dataclass(eq=False)
class File:
    """A file, whatever its name and content are by now."""

    path: str
    content: str  # what it shows, and after a bar which edit of it
    labels: list[tuple[str, Any]] = field(default_factory=list)  # ids of the steps, and the labels given
    before: str = ""  # the path before


def index_of(files: list[File]) -> Index:
    files = sorted(files, key=lambda file: file.path)
    paths = np.array([file.path for file in files], dtype=object)
    hashes = [blake2b(file.content.encode(), digest_size=16).hexdigest() for file in files]
    X = np.array([_features(file.content) for file in files])
    return Index.build(Cosine().fit(X), X, Items(paths, paths=paths, hashes=np.array(hashes, dtype=object)))


def _features(content: str) -> np.ndarray:
    """An edit changes the bytes of a picture, and hardly its features."""
    name, _, edit = content.partition("|")
    seed = int.from_bytes(blake2b(name.encode(), digest_size=4).digest(), "big")
    change = np.float32(1e-3 * (int(edit or 0) % 7))
    return np.random.default_rng(seed).normal(size=16).astype(np.float32) + change


class Journeys(RuleBasedStateMachine):
    """A folder, its index, and what was said of its files."""

    @initialize()
    def begin(self) -> None:
        self.folder, self.numbers = Path(tempfile.mkdtemp()), count()
        self.files = [self._new() for _ in range(6)]
        self.gone: list[File] = []
        self.marks: dict[tuple[File, File], tuple[str, bool]] = {}
        self.steps: list[tuple[str, Any]] = []
        self._look()

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder)

    def _new(self, content: str = "") -> File:
        number = next(self.numbers)
        return File(f"{'ab'[number % 2]}/{number:03d}.jpg", content or f"picture {number}")

    def _look(self) -> None:
        """The folder is looked at after each change."""
        save_index(index_of(self.files), self.folder / "x.index")
        self._restart()

    def _restart(self) -> None:
        self.teacher = Teacher(load_index(self.folder / "x.index"), Feedback(self.folder / "x.index"))

    def _file(self, number: int) -> File:
        return self.files[number % len(self.files)]

    def _row(self, file: File) -> int:
        return int(self.teacher.index.rows_of([file.path])[0])

    # -- what happens to files ----------------------------------------------------------------------------------------

    @rule()
    def add(self) -> None:
        self.files.append(self._new())
        self._look()

    @rule(number=PICK)
    def copy(self, number: int) -> None:
        self.files.append(self._new(self._file(number).content))
        self._look()

    @rule(number=PICK, back=st.booleans())
    def rename(self, number: int, back: bool) -> None:
        """To a new name, or back to the one before."""
        file = self._file(number)
        is_free = all(other.path != file.before for other in self.files)
        file.before, file.path = file.path, file.before if back and file.before and is_free else self._new().path
        self._look()

    @rule(number=PICK)
    def edit(self, number: int) -> None:
        file = self._file(number)
        file.content = f"{file.content.partition('|')[0]}|{next(self.numbers)}"
        self._look()

    @rule(number=PICK)
    def replace(self, number: int) -> None:
        file = self._file(number)
        self.files.remove(file)
        self.gone.append(file)
        self.files.append(File(file.path, self._new().content))
        self._look()

    @rule(one=PICK, two=PICK)
    def swap(self, one: int, two: int) -> None:
        first, second = self._file(one), self._file(two)
        if first.content == second.content:
            return  # the folder is what it was
        first.path, second.path = second.path, first.path
        self._look()

    @precondition(lambda self: len(self.files) > 4)
    @rule(number=PICK)
    def delete(self, number: int) -> None:
        file = self._file(number)
        self.files.remove(file)
        self.gone.append(file)
        self._look()

    @precondition(lambda self: self.gone)
    @rule(number=PICK)
    def bring_back(self, number: int) -> None:
        file = self.gone[number % len(self.gone)]
        if all(other.path != file.path for other in self.files):
            self.gone.remove(file)
            self.files.append(file)
            self._look()

    # -- what is said of them -----------------------------------------------------------------------------------------

    @rule(number=PICK, label=st.sampled_from(["cat", "dog", "bird", None]))
    def label(self, number: int, label: str | None) -> None:
        file = self._file(number)
        event = self.teacher.label([self._row(file)], label)
        file.labels.append((event.id, label))
        self.steps.append((event.id, file))

    @rule(query=PICK, item=PICK, right=st.booleans())
    def mark(self, query: int, item: int, right: bool) -> None:
        one, two = self._file(query), self._file(item)
        if one is not two:
            event = self.teacher.mark(self._row(one), [self._row(two)], right)
            self.marks[one, two] = event.id, right
            self.steps.append((event.id, (one, two)))

    @precondition(lambda self: self.steps)
    @rule()
    def undo(self) -> None:
        name, about = self.steps[-1]
        if isinstance(about, File):
            about.labels = [step for step in about.labels if step[0] != name]
        elif self.marks.get(about, ("",))[0] != name or sum(step[1] == about for step in self.steps) > 1:
            return  # the mark before it would count again
        else:
            del self.marks[about]
        self.steps.pop()
        undone = self.teacher.undo()
        assert undone is not None
        assert undone.id == name

    @rule()
    def restart(self) -> None:
        self._restart()

    # -- what has to be true ------------------------------------------------------------------------------------------

    @invariant()
    def every_statement_is_about_its_file(self) -> None:
        if not hasattr(self, "teacher"):
            return
        state, ids = self.teacher.state(), self.teacher.index.ids
        labels = {ids[row]: label for row, label in state.labels.items()}
        for file in self.files:
            if file.labels:
                assert labels.get(file.path) == file.labels[-1][1], f"{file} has the label {labels.get(file.path)}"
            else:  # nothing, or what was said of a file that is gone and had this content
                heirs = {other.labels[-1][1] for other in self.gone if other.labels and other.content == file.content}
                assert labels.get(file.path) in {None, *heirs}, f"{file} has the label {labels.get(file.path)}"
        marks = {(ids[mark.query.value], ids[mark.item.value]): mark.right for mark in state.marks}
        for (query, item), (_, right) in self.marks.items():
            if query in self.files and item in self.files:
                assert marks.get((query.path, item.path)) == right, f"{query}, {item}"

    @invariant()
    def nothing_is_lost(self) -> None:
        if hasattr(self, "teacher"):
            assert len(Feedback(self.folder / "x.index").events()) == len(self.steps)


@pytest.mark.parametrize(
    ("examples", "steps"), [(4, 30), pytest.param(40, 50, marks=pytest.mark.second)], ids=["120 steps", "2,000 steps"]
)
def test_whatever_happens_every_statement_stays_with_its_file(examples: int, steps: int) -> None:
    few = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],  # a shorter story would take minutes to find
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(Journeys, settings=few)  # type: ignore[no-untyped-call]
