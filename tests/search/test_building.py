"""A build in steps: killed at any of them and called again, it ends with the same index."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from likewise.errors import LikewiseError
from likewise.rivals import Cosine
from likewise.search import Index, gallery
from likewise.search.approximate import serialized


class Killed(BaseException):
    """Stands for the end of the process: nothing catches it."""


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """A thousand rows in a file, in steps of a hundred."""
    monkeypatch.setattr(gallery, "BLOCK", 100)
    monkeypatch.setattr(gallery, "_PART", 300)
    X = np.random.default_rng(0).standard_normal((1000, 8)).astype(np.float32)
    np.save(tmp_path / "rows.npy", X)
    return np.load(tmp_path / "rows.npy", mmap_mode="r")


def build(rows: np.ndarray, workspace: Path, kind: str = "ivfpq") -> Index:
    return Index.build(Cosine().fit(rows), rows, approximate=kind, workspace=workspace)


@pytest.mark.parametrize("write", range(2, 17, 3))
def test_a_build_that_was_killed_goes_on_to_the_same_index(
    rows: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: int
) -> None:
    whole = build(rows, tmp_path / "whole.building")
    done, original = [], gallery.atomic_write

    def killing(path: Path, data: Any) -> Any:
        done.append(path.name)
        if len(done) == write:
            raise Killed
        return original(path, data)

    monkeypatch.setattr(gallery, "atomic_write", killing)
    with pytest.raises(Killed):
        build(rows, tmp_path / "a.building")
    monkeypatch.setattr(gallery, "atomic_write", original)
    again = build(rows, tmp_path / "a.building")
    assert serialized(again.engine) == serialized(whole.engine)
    np.testing.assert_array_equal(again.vectors, whole.vectors)
    assert again.recall == whole.recall


def test_steps_in_parts_are_those_of_one_build(rows: np.ndarray, tmp_path: Path) -> None:
    plain = Index.build(Cosine().fit(rows), rows, approximate="ivf")
    stepped = build(rows, tmp_path / "a.building", "ivf")
    assert stepped.search(rows=[3, 4], k=10).rows.tolist() == plain.search(rows=[3, 4], k=10).rows.tolist()


def test_steps_of_another_gallery_are_begun_anew(rows: np.ndarray, tmp_path: Path) -> None:
    build(rows, tmp_path / "a.building")
    other = build(rows[:900] + 1, tmp_path / "a.building", "ivf")
    assert (len(other), other.approximate) == (900, "ivf")


def test_one_changed_row_is_another_gallery(rows: np.ndarray, tmp_path: Path) -> None:
    build(rows, tmp_path / "a.building")
    changed = np.array(rows)
    changed[501] = changed[7]
    again = build(changed, tmp_path / "a.building")
    np.testing.assert_array_equal(again.vectors, Index.build(Cosine().fit(changed), changed).vectors)


@pytest.mark.parametrize("name", ["thesis.tex", "part-1.txt", "vectors.npy", ".notes"])
def test_a_folder_of_somebody_else_is_left_alone(rows: np.ndarray, tmp_path: Path, name: str) -> None:
    (tmp_path / "a.building").mkdir()
    (tmp_path / "a.building" / name).write_text("…")
    with pytest.raises(LikewiseError, match="is there and was not made by likewise index; move it away"):
        build(rows, tmp_path / "a.building")
    assert (tmp_path / "a.building" / name).read_text() == "…"


def test_a_full_disk_is_a_sentence(rows: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(gallery, "reserve", full)
    with pytest.raises(LikewiseError, match=r"cannot write .*vectors.npy: No space left on device"):
        build(rows, tmp_path / "a.building")
