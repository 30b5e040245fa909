"""Identity: what was said of an item goes on speaking of that item, whatever becomes of the gallery."""

from __future__ import annotations

from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from likewise.rivals import Cosine
from likewise.rows import store as stores
from likewise.search import Index
from likewise.search.items import Identities, ItemRef, Items, Places, as_items
from likewise.teach import Feedback, Teacher, load_index, save_index


def features(content: str) -> np.ndarray:
    """Features of a picture: a metadata edit, marked by `+`, changes its bytes and hardly its features."""
    name, edits = content.rstrip("+"), content.count("+")
    seed = int.from_bytes(blake2b(name.encode(), digest_size=4).digest(), "big")
    return np.random.default_rng(seed).normal(size=16).astype(np.float32) + np.float32(1e-3 * edits)


def index_of(files: dict[str, str]) -> Index:
    """An index of files, by path, each with its content."""
    paths = sorted(files)
    items = Items(
        np.array([stores.escape(path) for path in paths], dtype=object),
        paths=np.array(paths, dtype=object),
        hashes=np.array([blake2b(files[p].encode(), digest_size=16).hexdigest() for p in paths], dtype=object),
    )
    X = np.array([features(files[path]) for path in paths])
    return Index.build(Cosine().fit(X), X, items)


class Folder:
    """A folder of pictures that somebody tidies up."""

    def __init__(self, n: int, seed: int) -> None:
        self.files = {f"a/{number:03d}.jpg": f"picture {number}" for number in range(n)}
        self.rng, self.count = np.random.default_rng(seed), n

    def change(self) -> None:
        kind = self.rng.choice(["add", "rename", "delete", "move", "edit", "swap", "replace"])
        path, other = self.rng.choice(sorted(self.files), 2, replace=False).tolist()
        self.count += 1
        if kind == "add":
            self.files[f"a/{self.rng.integers(1000):03d}-{self.count}.jpg"] = f"picture {self.count}"
        elif kind == "rename":
            self.files[f"{path[:1]}/{self.rng.integers(1000):03d}-{self.count}.jpg"] = self.files.pop(path)
        elif kind == "delete" and len(self.files) > 40:
            del self.files[path]
        elif kind == "move":
            self.files = {("b/" if name == path else "") + name: what for name, what in self.files.items()}
        elif kind == "edit":
            self.files[path] += "+"
        elif kind == "swap":
            self.files[path], self.files[other] = self.files[other], self.files[path]
        elif kind == "replace":
            self.files[path] = f"picture {self.count}"


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.second) for seed in range(1, 4))])
def test_over_250_random_edits_every_mark_speaks_of_the_same_picture(tmp_path: Path, seed: int) -> None:
    """An edit and a rename between two looks at the folder cannot be told from a new picture, so one is looked at."""
    folder = Folder(60, seed)
    save_index(index_of(folder.files), tmp_path / "x.index")
    teacher = Teacher(load_index(tmp_path / "x.index"), Feedback(tmp_path / "x.index"))
    paths = teacher.index.paths.tolist()  # type: ignore[union-attr]
    for row, path in enumerate(paths):
        teacher.label(row, folder.files[path])
    for _ in range(250):
        folder.change()
        save_index(index_of(folder.files), tmp_path / "x.index")
    index = load_index(tmp_path / "x.index")
    assert index.labels is not None
    assert index.paths is not None
    there = {content.rstrip("+") for content in folder.files.values()}
    known = {f"picture {number}" for number in range(60)}
    for path, label in zip(index.paths, index.labels, strict=True):
        content = folder.files[path].rstrip("+")
        assert label == (content if content in known else None)
    assert len(there & known) >= 10  # or this would say little
    assert len(Feedback(tmp_path / "x.index").events()) == 60  # nothing is lost: a deleted one may come back


def test_a_deleted_picture_that_comes_back_has_its_marks_again(tmp_path: Path) -> None:
    files = {f"{name}.jpg": name for name in "abcdef"}
    save_index(index_of(files), tmp_path / "x.index")
    Teacher(load_index(tmp_path / "x.index"), Feedback(tmp_path / "x.index")).label(2, "mine")
    save_index(index_of({path: what for path, what in files.items() if what != "c"}), tmp_path / "x.index")
    without = load_index(tmp_path / "x.index")
    assert without.labels is None
    assert Teacher(without, Feedback(tmp_path / "x.index")).state().parked == 1
    save_index(index_of({**files, "zz.jpg": "c"}), tmp_path / "x.index")
    assert load_index(tmp_path / "x.index").labels.tolist() == [None, None, "mine", None, None, None, None]  # type: ignore[union-attr]


def row(known: Identities, reference: ItemRef) -> int | None:
    place = Places(known, [])[reference]
    return None if place is None else place.row


def test_of_two_copies_the_one_of_the_same_name_is_meant(tmp_path: Path) -> None:
    X = np.ones((3, 4), np.float32)
    ids = np.array(["a", "b", "c"], dtype=object)
    items = Items(ids, paths=ids, hashes=np.array(["f1", "f1", "f2"], dtype=object))
    known = Identities(items, X)
    assert row(known, ItemRef("b", "f1")) == 1
    assert row(known, ItemRef("gone", "f1")) == 0
    assert row(known, ItemRef("c", "f3")) is None  # another picture under the old name
    assert row(known, ItemRef("c")) is None
    assert len(set(known.keys)) == 3


@pytest.mark.parametrize("items", [None, ["x", "y", "z", "u", "v"], {"id": [5, 6, 7, 8, 9]}])
def test_rows_without_files_are_known_by_their_numbers_or_their_own_ids(items: Any) -> None:
    X = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    before = Identities(as_items(items, 5), X)
    order = np.array([3, 1, 4, 0])
    shuffled = as_items(items, 5).take(order) if items is not None else as_items(None, 4)
    after = Identities(shuffled, X[order] if items is None else X[order] + 1)  # own ids outlive new features
    result = [row(after, before.reference(number)) for number in range(5)]
    assert result == [3, 1, None, 0, 2]
    assert [after.keys.index(before.keys[row]) for row in order.tolist()] == [0, 1, 2, 3]


def test_row_numbers_that_were_deleted_are_not_own_ids() -> None:
    items = as_items(None, 4).take(np.array([0, 2, 3]))
    assert not items.own_ids
    assert not Items.from_json(items.to_json(), len(items)).own_ids
    assert as_items([3, 4, 5], 3).own_ids


def known(**files: str) -> Identities:
    """An index of files, by name and content; of contents with the same first letter the features are alike."""
    ids, hashes = (np.array(list(values), dtype=object) for values in (files, files.values()))
    X = np.eye(26, dtype=np.float32)[[ord(content[0]) - ord("a") for content in files.values()]]
    return Identities(Items(ids, paths=ids, hashes=hashes), X)


def files_of(named: list[ItemRef], *versions: Identities) -> list[tuple[str, bool] | None]:
    """Where items are in the last version, and whether these are their own files; each version notes what became."""
    names = {item: [item] for item in named}
    for old, new in pairwise(versions):
        before, after = (Places(identities, names.values()) for identities in (old, new))
        for latest, now in list(after.became(before)):
            owner = next(item for item, history in names.items() if history[0] == latest)
            names[owner] = [now, *names[owner]]
    places = Places(versions[-1], names.values())
    result = [places[names[item][0]] for item in named]
    return [None if place is None else (versions[-1].items.ids[place.row], place.own) for place in result]


A, B = ItemRef("a", "aa"), ItemRef("b", "aa")


def test_an_edited_picture_stays_itself_when_the_original_is_copied_back() -> None:
    first = known(a="aa", z="zz")
    assert files_of([A], first, known(a="ab", z="zz")) == [("a", True)]
    assert files_of([A], first, known(a="ab", original="aa", z="zz")) == [("a", True)]
    assert files_of([A], first, known(a="ab", z="zz"), known(a="ab", original="aa", z="zz")) == [("a", True)]
    assert files_of([A], first, known(a="ab", z="zz"), known(a="aa", z="zz")) == [("a", True)]


def test_of_two_copies_with_statements_a_renamed_one_takes_nothing_from_the_other() -> None:
    assert files_of([B, A], known(a="aa", b="aa"), known(a="aa", c="aa")) == [("c", True), ("a", True)]
    assert files_of([B, A], known(a="aa", b="aa"), known(c="aa", d="aa")) == [("c", True), ("d", True)]


def test_a_renamed_copy_leaves_the_other_without_statements() -> None:
    assert files_of([A], known(a="aa", b="aa"), known(b="aa", c="aa")) == [("c", True)]
    assert files_of([B], known(a="aa", b="aa"), known(a="aa", c="aa")) == [("c", True)]


def test_what_was_said_of_a_deleted_copy_is_shared_with_the_other_which_comes_first_itself() -> None:
    assert files_of([B], known(a="aa", b="aa"), known(a="aa")) == [("a", False)]
    assert files_of([A, B], known(a="aa", b="aa"), known(a="aa")) == [("a", True), ("a", False)]


def test_pictures_that_swap_names_are_followed_even_if_they_are_alike() -> None:
    one, two = ItemRef("a", "aa"), ItemRef("b", "ab")
    assert files_of([one, two], known(a="aa", b="ab"), known(a="ab", b="aa")) == [("b", True), ("a", True)]


def test_a_picture_that_has_its_old_name_again_keeps_its_statements_when_it_is_copied() -> None:
    before, swapped = known(a="aa", b="bb"), known(a="bb", b="aa")
    assert files_of([A], before, swapped, before, known(a="aa", b="bb", c="aa")) == [("a", True)]


def test_another_picture_in_the_place_of_one_gets_nothing() -> None:
    assert files_of([A], known(a="aa"), known(a="bb")) == [None]
    assert files_of([A], known(a="aa"), known(c="ab")) == [None]  # edited and renamed at once: not guessed
    assert files_of([A], known(a="aa"), known(a="bb"), known(a="aa")) == [("a", True)]  # and it is not forgotten
