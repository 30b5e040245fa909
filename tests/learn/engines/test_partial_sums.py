"""Sums of a pass are kept while it lasts; what is found is used only for the same pass."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from likewise.errors import LikewiseError
from likewise.learn.engines import partial_sums
from likewise.learn.engines.partial_sums import PartialSums

SUMS = (np.arange(6.0).reshape(2, 3), np.array(7.0))


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partial_sums, "SECONDS", 0.0)
    monkeypatch.setattr(partial_sums, "SHARE", 0)


def kept(path: Path) -> PartialSums:
    sums = PartialSums(path, "a-key")
    sums.keep(3, SUMS)
    return sums


def assert_none(path: Path) -> None:
    assert PartialSums(path, "a-key").read() == (0, ())


@pytest.mark.usefixtures("at_once")
def test_what_was_kept_is_found_again(tmp_path: Path) -> None:
    kept(tmp_path / "c.sums")
    done, found = PartialSums(tmp_path / "c.sums", "a-key").read()
    assert done == 3
    for one, other in zip(found, SUMS, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.usefixtures("at_once")
def test_sums_of_another_pass_are_not_used(tmp_path: Path) -> None:
    kept(tmp_path / "c.sums")
    assert PartialSums(tmp_path / "c.sums", "another").read() == (0, ())


def test_a_short_pass_writes_nothing(tmp_path: Path) -> None:
    sums = kept(tmp_path / "c.sums")
    sums.keep(4, SUMS, last=True)
    assert not list(tmp_path.iterdir())
    assert_none(tmp_path / "c.sums")


@pytest.mark.usefixtures("at_once")
def test_nothing_is_left_after_the_fit(tmp_path: Path) -> None:
    kept(tmp_path / "c.sums").remove()
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("at_once")
def test_a_file_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "c.sums").write_text("rows of my own\n")
    with pytest.raises(LikewiseError, match=r"c.sums is no file of sums: move it away, or name another checkpoint"):
        PartialSums(tmp_path / "c.sums", "a-key").read()
    PartialSums(tmp_path / "c.sums", "a-key").remove()
    assert (tmp_path / "c.sums").read_text() == "rows of my own\n"


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("place", [15, 30, 60, 90, 120, -1])
def test_a_damaged_file_begins_anew(tmp_path: Path, caplog: Any, place: int) -> None:
    kept(tmp_path / "c.sums")
    content = bytearray((tmp_path / "c.sums").read_bytes())
    content[place] ^= 0x41
    (tmp_path / "c.sums").write_bytes(content)
    assert_none(tmp_path / "c.sums")
    (tmp_path / "c.sums").write_bytes(content[: len(content) // 2])
    assert_none(tmp_path / "c.sums")
    assert "the pass begins anew" in caplog.text
