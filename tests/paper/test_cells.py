"""Results that survive a kill."""

import csv
import sqlite3
from pathlib import Path

import pytest

from likewise.errors import LikewiseError
from likewise.paper.cells import COLUMNS, Cell, CellJournal, Done

HEADER = {"dataset": "made", "seed": 0, "margins": (1.0, 0.0)}


def _done(method: str, split: int, value: float) -> tuple[tuple[str, str, int], Done]:
    cell = Cell("tables", method, split, "", {"mAP": value}, {"C": 0.1}, {"fit_seconds": 1.5})
    return ("tables", method, split), Done([cell], {"found": [[1, 2]]})


def test_a_journal_is_read_back_as_it_was(tmp_path: Path) -> None:
    before = CellJournal(tmp_path, HEADER)
    before.add_command("likewise paper digits")
    before.add(*_done("SLR", 0, 0.5))
    after = CellJournal(tmp_path, HEADER, resume=True)
    assert after.done == before.done
    assert after.commands == ["likewise paper digits"]
    assert after.extra("tables", "SLR") == {"found": [[1, 2]]}


def test_a_damaged_record_is_counted_and_measured_again(tmp_path: Path) -> None:
    journal = CellJournal(tmp_path, HEADER)
    journal.add(*_done("SLR", 0, 0.5))
    journal.add(*_done("SLR", 1, 0.6))
    with sqlite3.connect(journal.path) as file:
        file.execute("UPDATE journal SET crc = crc + 1 WHERE sequence = 3")
    resumed = CellJournal(tmp_path, HEADER, resume=True)
    assert (list(resumed.done), resumed.damaged) == ([("tables", "SLR", 0)], 1)
    resumed.add(*_done("SLR", 1, 0.6))
    assert list(CellJournal(tmp_path, HEADER, resume=True).done) == [("tables", "SLR", 0), ("tables", "SLR", 1)]


def test_the_table_does_not_depend_on_the_order_of_work(tmp_path: Path) -> None:
    tables = []
    for folder, order in (("a", (0, 1, 2)), ("b", (2, 0, 1))):
        journal = CellJournal(tmp_path / folder, HEADER)
        for split in order:
            journal.add(*_done("SLR", split, 0.5 + split))
        tables.append(journal.table.read_text())
    assert tables[0] == tables[1]
    rows = list(csv.DictReader(tables[0].splitlines()))
    assert tuple(rows[0]) == COLUMNS
    assert [row["split"] for row in rows] == ["0", "1", "2"]
    assert rows[1]["setting"] == '{"C": 0.1}'


def test_another_run_is_not_taken_up(tmp_path: Path) -> None:
    CellJournal(tmp_path, HEADER).add(*_done("SLR", 0, 0.5))
    with pytest.raises(LikewiseError, match=r"has another run \(seed was 0 and is 1\); choose another folder with -o"):
        CellJournal(tmp_path, {**HEADER, "seed": 1}, resume=True)


def test_without_resume_the_earlier_results_are_moved_aside(tmp_path: Path) -> None:
    before = CellJournal(tmp_path, HEADER)
    before.add(*_done("SLR", 0, 0.5))
    content = before.path.read_bytes()
    after = CellJournal(tmp_path, HEADER)
    assert after.done == {}
    assert after.moved is not None
    assert after.moved.read_bytes() == content


def test_an_experiment_can_be_forgotten(tmp_path: Path) -> None:
    journal = CellJournal(tmp_path, HEADER)
    journal.add(*_done("SLR", 0, 0.5))
    journal.add(("times", "SLR", 0), Done([Cell("times", "SLR", 0)]))
    journal.drop("times")
    assert list(CellJournal(tmp_path, HEADER, resume=True).done) == [("tables", "SLR", 0)]
