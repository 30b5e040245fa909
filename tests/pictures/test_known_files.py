"""Rows found again: by name, size and time without reading, and by content after reading."""

from __future__ import annotations

from likewise.pictures.contents import ReadFile
from likewise.pictures.folder import ImageFile
from likewise.pictures.known_files import KnownRows
from likewise.rows.store import Item

ITEMS = [Item("a.jpg", "", 1, 10, "aa"), Item("b.jpg", "", 1, 20, "aa"), Item("old.jpg", "", 3, 30)]


def read(path: str, content: str) -> ReadFile:
    return ReadFile(ImageFile(path, 1, 99), content, "")


def test_files_with_a_hash_need_not_be_read() -> None:
    known = KnownRows(ITEMS, {"a.jpg", "b.jpg", "old.jpg"})
    assert [(file.path, row) for (file, _, _), row in known.unread()] == [("a.jpg", 0), ("b.jpg", 1)]


def test_a_renamed_file_takes_the_row_of_the_path_that_vanished() -> None:
    assert KnownRows(ITEMS, {"b.jpg", "new.jpg"}).row_of(read("new.jpg", "aa")) == 0
    assert KnownRows(ITEMS, {"a.jpg", "new.jpg"}).row_of(read("new.jpg", "aa")) == 1


def test_a_file_without_a_hash_is_known_by_its_name_size_and_time() -> None:
    known = KnownRows(ITEMS, {"old.jpg"})
    assert known.row_of(ReadFile(ImageFile("old.jpg", 3, 30), "cc", "")) == 2
    assert known.row_of(ReadFile(ImageFile("old.jpg", 3, 31), "cc", "")) is None


def test_other_content_is_unknown() -> None:
    assert KnownRows(ITEMS, {"a.jpg"}).row_of(read("a.jpg", "bb")) is None
