"""Files made once: kept beside their checksum, made again if damaged, done without if they cannot be kept."""

from __future__ import annotations

from pathlib import Path

from likewise.utils.cached import cached_bytes, cached_file


def test_a_file_is_made_once_and_again_only_if_damaged(tmp_path: Path) -> None:
    made: list[bytes] = []

    def make() -> bytes:
        made.append(b"content")
        return made[-1]

    assert [cached_bytes("a.bin", make, tmp_path) for _ in range(3)] == [b"content"] * 3
    assert len(made) == 1
    (tmp_path / "a.bin").write_bytes(b"contend")
    assert cached_file("a.bin", make, tmp_path) == tmp_path / "a.bin"
    assert (len(made), (tmp_path / "a.bin").read_bytes()) == (2, b"content")


def test_where_nothing_can_be_kept_there_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert cached_file("a.bin", lambda: b"content", tmp_path / "file") is None
    assert cached_bytes("a.bin", lambda: b"content", tmp_path / "file") == b"content"
