"""The journal of an extraction: what was appended is there again, up to the first damage."""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path

import numpy as np
import pytest

from likewise.pictures.contents import ReadFile
from likewise.pictures.folder import ImageFile
from likewise.pictures.journal import ExtractionJournal, SkippedFile

HEADER = {"extractor": "made"}
FILES = [ReadFile(ImageFile(f"a/{i}\n.png", 10 + i, 100 + i), f"{i:032x}", "2023-05-01T00:00:00") for i in range(7)]
BAD = SkippedFile(FILES[6].file, "the file is empty", "empty")
ROWS = np.arange(15, dtype=np.float32).reshape(5, 3)


def _journal(work: Path, **header: str) -> ExtractionJournal:
    return ExtractionJournal(work, {**HEADER, **header}, 3, np.float32)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """Two batches: three rows, then two rows, a file kept and a file skipped."""
    journal = _journal(tmp_path)
    journal.append(ROWS[:3], FILES[:3], [], [])
    journal.append(ROWS[3:], FILES[3:5], FILES[5:6], [BAD])
    return tmp_path


def test_batches_are_read_back(work: Path) -> None:
    journal = _journal(work)
    np.testing.assert_array_equal(journal.rows(), ROWS)
    assert [read for batch in journal.batches for read in batch.done] == FILES[:5]
    assert list(journal.kept()) == FILES[5:6]
    assert list(journal.skipped()) == [BAD]
    assert list(journal.finished()) == [read.file for read in (*FILES[:5], FILES[6])]
    assert [batch.start for batch in journal.batches] == [0, 3]


@pytest.mark.parametrize("name", ["journal.jsonl", "rows.bin"])
def test_a_batch_that_is_cut_short_is_dropped(work: Path, name: str) -> None:
    os.truncate(work / name, (work / name).stat().st_size - 1)
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


def test_a_journal_without_hashes_is_discarded(work: Path) -> None:
    header = (work / "journal.jsonl").read_bytes().split(b"\n")[0]
    old = {key: value for key, value in json.loads(header).items() if key != "journal"}
    lines = [old, {"done": [["a/0.png", 10, 100]] * 5, "skipped": [], "crc": zlib.crc32(ROWS.tobytes())}]
    (work / "journal.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert len(_journal(work).rows()) == 0
