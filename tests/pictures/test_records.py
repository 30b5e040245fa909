"""Hashes and dates of files, rows of an earlier run, and the journal of an extraction."""

from __future__ import annotations

import hashlib
import io
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from likewise.pictures.folder import ImageFile
from likewise.pictures.records import ExtractionJournal, KnownRows, ReadFile, SkippedFile, content_hash, date_taken
from likewise.rows.store import Item

SMALL = Image.fromarray(np.full((16, 24, 3), 90, np.uint8))


def encoded(kind: str, original: object = None, changed: object = None) -> bytes:
    exif = Image.Exif()
    if original is not None:
        exif.get_ifd(0x8769)[0x9003] = original
    if changed is not None:
        exif[0x0132] = changed
    data = io.BytesIO()
    SMALL.save(data, kind, exif=exif)
    return data.getvalue()


def test_the_hash_is_blake2b_of_sixteen_bytes() -> None:
    assert content_hash(b"abc") == hashlib.blake2b(b"abc", digest_size=16).hexdigest()


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "AVIF"])
def test_the_date_of_the_exposure_is_preferred(kind: str) -> None:
    assert date_taken(encoded(kind, "2023:05:01 10:20:30", "2024:01:01 00:00:00")) == "2023-05-01T10:20:30"


def test_the_date_of_a_heic_picture_is_read() -> None:
    pillow_heif = pytest.importorskip("pillow_heif")
    pillow_heif.register_heif_opener()
    assert date_taken(encoded("HEIF", "2023:05:01 10:20:30")) == "2023-05-01T10:20:30"


@pytest.mark.parametrize("original", [None, "0000:00:00 00:00:00", "    :  :     :  :  ", "2023:13:01 00:00:00"])
def test_a_missing_or_impossible_exposure_falls_back_to_the_date_of_the_file(original: str | None) -> None:
    assert date_taken(encoded("JPEG", original, "2024:01:02 03:04:05")) == "2024-01-02T03:04:05"


@pytest.mark.parametrize(
    "date", [None, "0000:00:00 00:00:00", "0001:01:01 00:00:00", "yesterday", "2023:02:30 00:00:00"]
)
def test_an_unknown_or_impossible_date_is_empty(date: str | None) -> None:
    assert date_taken(encoded("JPEG", date, date)) == ""


@pytest.mark.parametrize("data", [b"", b"plain text", encoded("JPEG", "2023:05:01 10:20:30")[:40]])
def test_damaged_files_have_no_date(data: bytes) -> None:
    assert date_taken(data) == ""


# ---------------------------------------------------------------------------------------------------------------------
# Rows of an earlier run

ITEMS = [
    Item("a.jpg", "", 1, 10, "aa", "", "7:1"),
    Item("b.jpg", "", 1, 20, "aa", "", "8:1"),
    Item("new.jpg", "", 3, 30, "dd"),
]


def read(path: str, content: str) -> ReadFile:
    return ReadFile(ImageFile(path, 1, 99), content, "")


def test_files_need_not_be_read_unless_they_changed_just_before() -> None:
    rows = KnownRows(ITEMS, {"a.jpg", "b.jpg", "new.jpg"})
    assert [(file.path, row) for (file, _, _), row in rows.unread()] == [("a.jpg", 0), ("b.jpg", 1)]


def test_a_renamed_file_takes_the_row_of_the_path_that_vanished() -> None:
    assert KnownRows(ITEMS, {"b.jpg", "new.jpg"}).row_of(read("new.jpg", "aa")) == 0
    assert KnownRows(ITEMS, {"a.jpg", "new.jpg"}).row_of(read("new.jpg", "aa")) == 1


def test_other_content_is_unknown() -> None:
    assert KnownRows(ITEMS, {"a.jpg"}).row_of(read("a.jpg", "bb")) is None


# ---------------------------------------------------------------------------------------------------------------------
# The journal

HEADER = {"extractor": "made"}
FILES = [ReadFile(ImageFile(f"a/{i}\n.png", 10 + i, 100 + i), f"{i:032x}", "2023-05-01T00:00:00") for i in range(7)]
BAD = SkippedFile(FILES[6].file, "the file is empty", "empty")
ROWS = np.arange(15, dtype=np.float32).reshape(5, 3)


def _journal(work: Path, **header: str) -> ExtractionJournal:
    return ExtractionJournal(work, {**HEADER, **header}, 3, np.float32)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """Two batches: three rows, then two rows, a file reused and a file skipped."""
    journal = _journal(tmp_path)
    journal.append(ROWS[:3], FILES[:3], [], [])
    journal.append(ROWS[3:], FILES[3:5], FILES[5:6], [BAD])
    return tmp_path


def test_batches_are_read_back(work: Path) -> None:
    journal = _journal(work)
    np.testing.assert_array_equal(journal.rows(), ROWS)
    assert [read for batch in journal.batches for read in batch.done] == FILES[:5]
    assert [read for batch in journal.batches for read in batch.reused] == FILES[5:6]
    assert [entry for batch in journal.batches for entry in batch.skipped] == [BAD]
    assert [batch.start for batch in journal.batches] == [0, 3]


def damage_last_record(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE journal SET crc = crc + 1 WHERE sequence = (SELECT max(sequence) FROM journal)")


@pytest.mark.parametrize("name", ["journal.sqlite", "rows.bin"])
def test_a_batch_that_is_damaged_is_dropped(work: Path, name: str) -> None:
    if name == "rows.bin":
        os.truncate(work / name, (work / name).stat().st_size - 1)
    else:
        damage_last_record(work / name)
    journal = _journal(work)
    np.testing.assert_array_equal(journal.rows(), ROWS[:3])
    journal.append(ROWS[3:], FILES[3:5], [], [])
    np.testing.assert_array_equal(_journal(work).rows(), ROWS)


def test_rows_that_do_not_match_their_checksum_are_dropped(work: Path) -> None:
    with open(work / "rows.bin", "r+b") as file:
        file.write(b"\xff")
    assert len(_journal(work).rows()) == 0


def test_a_journal_of_other_settings_is_discarded(work: Path) -> None:
    assert len(_journal(work, extractor="other").rows()) == 0
    assert len(_journal(work).rows()) == 0


def test_a_journal_that_cannot_be_read_is_discarded(work: Path) -> None:
    (work / "journal.sqlite").write_bytes(b"no journal at all")
    assert len(_journal(work).rows()) == 0
    _journal(work).append(ROWS, FILES[:5], [], [])
    np.testing.assert_array_equal(_journal(work).rows(), ROWS)
