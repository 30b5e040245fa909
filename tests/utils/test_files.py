"""Files are the old or the new; a folder has one writer, and a killed one leaves no lock behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from likewise.errors import LikewiseError
from likewise.utils.files import atomic_write, cached_bytes, cached_file, locked, sweep


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "f"
    atomic_write(path, b"one")
    assert atomic_write(str(path), lambda file: file.write(b"two") and None) == path
    assert path.read_bytes() == b"two"
    assert os.listdir(tmp_path) == ["f"]


def test_what_a_killed_writer_leaves_is_swept_and_nothing_else(tmp_path: Path) -> None:
    remaining = ["a.xmp", ".a.xmp.tmp", ".b.xmp.abcd1234.tmp", ".a.xmp.abcd1234.tmp2", "a.xmp.abcd1234.tmp"]
    for name in [*remaining, ".a.xmp.abcd_234.tmp"]:
        (tmp_path / name).touch()
    sweep([tmp_path / "a.xmp", tmp_path / "missing" / "c.xmp"])
    assert sorted(os.listdir(tmp_path)) == sorted(remaining)


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


def test_a_second_writer_is_refused_until_the_first_has_finished(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "store"
    with (
        locked(folder),
        pytest.raises(LikewiseError, match=r"store is being written by another process; wait for it to end"),
        locked(folder),
    ):
        pass
    with locked(folder):
        assert folder.is_dir()


def test_an_error_inside_ends_the_lock(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="mine"), locked(tmp_path):
        raise ValueError("mine")
    with locked(tmp_path):
        pass


def test_the_lock_of_a_killed_process_is_gone(tmp_path: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path; from likewise.utils.files import locked\n"
        "with locked(Path(sys.argv[1])): print('locked', flush=True); time.sleep(60)"
    )
    writer = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    assert writer.stdout.readline() == "locked\n"
    with pytest.raises(LikewiseError, match="another process"), locked(tmp_path):
        pass
    writer.send_signal(signal.SIGKILL)
    writer.communicate()
    with locked(tmp_path):
        pass


def test_a_folder_that_cannot_be_written_gets_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(LikewiseError, match=r"cannot write to .*file.store: Not a directory"),
        locked(tmp_path / "file" / "store"),
    ):
        pass


# ---------------------------------------------------------------------------------------------------------------------
# Cached files: made again if damaged, and without a folder to store them in


def test_a_file_is_made_once_and_again_only_if_damaged(tmp_path: Path) -> None:
    built: list[bytes] = []

    def make() -> bytes:
        built.append(b"content")
        return built[-1]

    assert [cached_bytes("a.bin", make, tmp_path) for _ in range(3)] == [b"content"] * 3
    assert len(built) == 1
    (tmp_path / "a.bin").write_bytes(b"contend")
    assert cached_file("a.bin", make, tmp_path) == tmp_path / "a.bin"
    assert (len(built), (tmp_path / "a.bin").read_bytes()) == (2, b"content")


def test_where_nothing_can_be_kept_there_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert cached_file("a.bin", lambda: b"content", tmp_path / "file") == b"content"
    assert cached_bytes("a.bin", lambda: b"content", tmp_path / "file") == b"content"
