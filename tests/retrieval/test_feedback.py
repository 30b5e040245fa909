"""The journal of feedback: what was confirmed is there, whatever happens."""

from __future__ import annotations

import csv
import io
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from tests.retrieval.conftest import killed_while

from likewise.errors import LikewiseError
from likewise.retrieval import Feedback
from likewise.retrieval.feedback import Event


def test_what_is_appended_is_read_back_in_order(tmp_path: Path) -> None:
    journal = Feedback(tmp_path)
    events = [
        journal.append(Event("mark", 1, 2, True)),
        journal.append(Event("mark", [0.5, 1.5], "b", False)),
        journal.append(Event("label", item=3, label="cat")),
    ]
    assert list(Feedback(tmp_path)) == events
    assert all(event.time > 0 for event in events)


def test_an_undo_takes_back_the_last_that_counts(tmp_path: Path) -> None:
    journal = Feedback(tmp_path)
    for event in (Event("undo"), Event("mark", 1, 2, True), Event("mark", 1, 3, True), Event("undo"), Event("undo")):
        journal.append(event)
    assert journal.events() == []
    journal.append(Event("label", item=1, label="x"))
    assert [event.label for event in journal.events()] == ["x"]


def test_a_torn_last_line_is_passed_over_and_cut_before_the_next(tmp_path: Path) -> None:
    journal = Feedback(tmp_path)
    journal.append(Event("mark", 1, 2, True))
    with open(journal.path, "ab") as file:
        file.write(b'{"kind": "mark", "qu')
    again = Feedback(tmp_path)
    assert len(again.events()) == 1
    again.append(Event("mark", 1, 3, False))
    assert [event.item for event in Feedback(tmp_path)] == [2, 3]


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    journal = Feedback(tmp_path)
    journal.path.write_bytes(b"nonsense\n")
    with pytest.raises(LikewiseError, match=r"line 1 of .*feedback.jsonl is damaged"):
        list(journal)


def test_an_unknown_kind_and_a_missing_folder_get_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(LikewiseError, match="kind='praise'; expected mark, label, undo"):
        Feedback(tmp_path).append(Event("praise"))  # type: ignore[arg-type]
    with pytest.raises(LikewiseError, match="the mark was not saved"):
        Feedback(tmp_path / "gone").append(Event("undo"))


def test_the_csv_has_what_counts_and_no_formula(tmp_path: Path) -> None:
    journal = Feedback(tmp_path)
    journal.append(Event("mark", [1.0, 2.0], 5, True))
    journal.append(Event("label", item=7, label='=HYPERLINK("x")'))
    rows = list(csv.DictReader(io.StringIO(journal.to_csv())))
    assert [row["kind"] for row in rows] == ["mark", "label"]
    assert (rows[0]["query"], rows[0]["right"], rows[0]["item"]) == ("[1.0, 2.0]", "true", "5")
    assert rows[1]["label"].startswith("'=")


def test_threads_and_journals_of_one_folder_write_whole_lines(tmp_path: Path) -> None:
    journals = [Feedback(tmp_path), Feedback(tmp_path)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: journals[i % 2].append(Event("mark", [float(i)] * 2000, i, True)), range(60)))
    assert sorted(event.item for event in Feedback(tmp_path)) == list(range(60))


def test_a_line_torn_by_another_writer_is_cut_before_the_next(tmp_path: Path) -> None:
    journal = Feedback(tmp_path)
    journal.append(Event("mark", 1, 2, True))
    with open(journal.path, "ab") as file:
        file.write(b'{"kind": "ma')
    journal.append(Event("mark", 1, 3, True))
    assert [event.item for event in journal] == [2, 3]


def test_killed_at_50_random_moments_no_confirmed_mark_is_lost(tmp_path: Path) -> None:
    confirmed = tmp_path / "confirmed"
    confirmed.write_bytes(b"")

    def work() -> None:
        journal = Feedback(tmp_path)
        number = sum(1 for _ in journal)
        with open(confirmed, "ab", buffering=0) as told:
            while True:
                journal.append(Event("mark", number, number, True))
                told.write(b"%d\n" % number)  # the page has now told the user
                number += 1

    rng = np.random.default_rng(0)
    kept: list[int] = []
    kills = 0
    while (kills < 50 or len(kept) < 50) and kills < 500:  # a busy machine may need more of them
        killed_while(work, float(rng.uniform(0.001, 0.02)))
        kills += 1
        kept = [event.item for event in Feedback(tmp_path)]
        assert kept == list(range(len(kept)))
        told = [int(line) for line in confirmed.read_bytes().splitlines()]
        assert set(told) <= set(kept)
    assert len(kept) >= 50
