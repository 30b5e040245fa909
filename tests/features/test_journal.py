"""The journal of an extraction: what was appended is there again, up to the first damage."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from likewise.features.folder import ImageFile
from likewise.features.journal import ExtractionJournal, commit, recover

HEADER = {"extractor": "made"}
FILES = [ImageFile(f"a/{i}.png", 10 + i, 100 + i) for i in range(6)]
ROWS = np.arange(15, dtype=np.float32).reshape(5, 3)


def _journal(work: Path, **header: str) -> ExtractionJournal:
    return ExtractionJournal(work, {**HEADER, **header}, 3, np.float32)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """Two batches: three rows, then two rows and a skipped file."""
    journal = _journal(tmp_path)
    journal.append(ROWS[:3], FILES[:3], [])
    journal.append(ROWS[3:], FILES[3:5], [(FILES[5], "the file is empty")])
    return tmp_path


def test_batches_are_read_back(work: Path) -> None:
    journal = _journal(work)
    np.testing.assert_array_equal(journal.rows(), ROWS)
    assert list(journal.files()) == FILES
    assert list(journal.skipped()) == [(FILES[5], "the file is empty")]
    assert [batch.start for batch in journal.batches] == [0, 3]


@pytest.mark.parametrize("name", ["journal.jsonl", "rows.bin"])
def test_a_batch_that_is_cut_short_is_dropped(work: Path, name: str) -> None:
    os.truncate(work / name, (work / name).stat().st_size - 1)
    journal = _journal(work)
    np.testing.assert_array_equal(journal.rows(), ROWS[:3])
    journal.append(ROWS[3:], FILES[3:5], [])
    np.testing.assert_array_equal(_journal(work).rows(), ROWS)


def test_rows_that_do_not_match_their_checksum_are_dropped(work: Path) -> None:
    with open(work / "rows.bin", "r+b") as file:
        file.write(b"\xff")
    assert len(_journal(work).rows()) == 0


def test_a_journal_of_other_settings_is_discarded(work: Path) -> None:
    assert len(_journal(work, extractor="other").rows()) == 0
    assert len(_journal(work).rows()) == 0


def test_a_commit_moves_the_new_files_and_forgets_the_work(tmp_path: Path) -> None:
    new = tmp_path / ".work" / "new"
    new.mkdir(parents=True)
    (new / "meta.json").write_text("{}")
    commit(tmp_path)
    assert (tmp_path / "meta.json").read_text() == "{}"
    assert not (tmp_path / ".work").exists()


def test_half_written_files_are_deleted_without_a_commit(tmp_path: Path) -> None:
    new = tmp_path / ".work" / "new"
    new.mkdir(parents=True)
    (new / "meta.json").write_text("{")
    recover(tmp_path)
    assert not new.exists()
    assert not (tmp_path / "meta.json").exists()
