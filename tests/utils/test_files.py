"""Atomic writing: the old file, or the new one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from likewise.errors import LikewiseError
from likewise.utils.files import atomic_write


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "f"
    atomic_write(path, b"one")
    assert atomic_write(str(path), lambda file: file.write(b"two") and None) == path
    assert path.read_bytes() == b"two"
    assert os.listdir(tmp_path) == ["f"]


def test_what_fails_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "f"
    atomic_write(path, b"one")

    def fail(file: object) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(LikewiseError, match=r"cannot write .*: No space left on device; nothing was changed"):
        atomic_write(path, fail)
    assert path.read_bytes() == b"one"
    assert os.listdir(tmp_path) == ["f"]
    with pytest.raises(LikewiseError, match="cannot write"):
        atomic_write(tmp_path / "absent" / "f", b"")
