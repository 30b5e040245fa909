"""The journal of feedback: what was confirmed is there, whatever happens."""

from __future__ import annotations

import csv
import io
import resource
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from tests.search.conftest import killed_while

from likewise.errors import LikewiseError
from likewise.search.items import ItemRef
from likewise.teach import Feedback
from likewise.teach.feedback import NAME, Event, feedback_to_csv, outside_name
from likewise.utils.journal import Journal


def mark(query: object, item: object, right: bool | None = True, who: str = "") -> Event:
    return Event("mark", (ItemRef(query),), (ItemRef(item),), right, who=who)


def label(item: object, name: str, who: str = "") -> Event:
    return Event("label", items=(ItemRef(item, "ab12"),), label=name, who=who)


def items_of(journal: Feedback) -> list[object]:
    return [event.items[0].id for event in journal.events()]


def test_what_is_appended_is_read_back_in_order(tmp_path: Path) -> None:
    journal = Feedback(tmp_path)
    numbers = np.array([0.5, 1.5], np.float32)
    name = outside_name(numbers)
    events = [
        journal.append(mark(1, 2)),
        journal.append(Event("mark", (ItemRef("a", "ff"), name), (ItemRef("b"), ItemRef("c")), None), {name: numbers}),
        journal.append(label("x/ü.jpg", "cat", "Anna")),
    ]
    again = Feedback(tmp_path)
    assert again.events() == journal.events() == events
    assert all(event.time > 0 for event in events)
    assert len({event.id for event in events}) == 3
    np.testing.assert_array_equal(again.numbers(name), numbers)


def test_the_numbers_of_a_query_are_written_once(tmp_path: Path) -> None:
    journal, numbers = Feedback(tmp_path), np.arange(1000, dtype=np.float32)
    name = outside_name(numbers)
    for item in range(5):
        journal.append(Event("mark", (name,), (ItemRef(item),), True), {name: numbers})
    kinds = [record.value["kind"] for record in Journal(journal.path).read()]
    assert kinds == ["query"] + ["mark"] * 5
    assert journal.path.stat().st_size < 5 * 1000 * 4


def test_an_undo_names_the_step_it_takes_back(tmp_path: Path) -> None:
    journal = Feedback(tmp_path)
    assert journal.undo() is None
    for item in (2, 3, 4):
        journal.append(mark(1, item))
    assert journal.undo().items[0].id == 4  # type: ignore[union-attr]
    assert journal.undo().items[0].id == 3  # type: ignore[union-attr]
    assert items_of(Feedback(tmp_path)) == [2]


def test_one_takes_back_ones_own_last_step(tmp_path: Path) -> None:
    anna, ben = Feedback(tmp_path), Feedback(tmp_path)
    anna.append(mark(1, 2, who="Anna"))
    ben.append(mark(1, 3, who="Ben"))
    anna.append(mark(1, 4, who="Anna"))
    undone = ben.undo("Ben")
    assert undone is not None
    assert undone.items[0].id == 3
    assert ben.undo("Ben") is None
    assert items_of(ben) == [2, 4]
    assert [event.kind for event in anna.refresh()][-1] == "undo"
    assert items_of(anna) == [2, 4]


def test_two_processes_that_undo_at_once_take_back_one_step_each(tmp_path: Path) -> None:
    one, two = Feedback(tmp_path), Feedback(tmp_path)
    for item in range(2, 10):
        one.append(mark(1, item))
    with ThreadPoolExecutor(2) as pool:
        undone = list(pool.map(lambda journal: journal.undo(), [one, two] * 4))
    assert {event.items[0].id for event in undone if event} == set(range(2, 10))
    assert Feedback(tmp_path).events() == []


def test_a_journal_hears_what_another_process_writes(tmp_path: Path) -> None:
    one, two = Feedback(tmp_path), Feedback(tmp_path)
    two.append(mark(1, 2))
    two.append(mark(1, 3))
    assert [event.items[0].id for event in one.refresh()] == [2, 3]
    assert one.refresh() == []
    one.append(mark(1, 4))
    assert [event.items[0].id for event in one.refresh()] == [4]  # its own, for whoever listens


def test_a_flipped_bit_costs_one_record_and_is_counted(tmp_path: Path) -> None:
    journal = Feedback(tmp_path)
    for item in ("two", "three", "four"):
        journal.append(mark(1, item))
    journal.path.write_bytes(journal.path.read_bytes().replace(b'"three"', b'"thref"'))
    again = Feedback(tmp_path)
    assert items_of(again) == ["two", "four"]
    assert again.damaged == 1
    again.append(mark(1, "five"))
    assert items_of(Feedback(tmp_path)) == items_of(again) == ["two", "four", "five"]


@pytest.mark.parametrize(
    "entry", [7, None, {}, {"kind": "mark"}, {"kind": "praise", "id": "x"}, {"kind": "edited", "id": "x"},
              {"kind": "mark", "id": "x", "items": [[[], 1]]}, {"kind": "label", "id": "x", "label": []},
              {"kind": "mark", "id": "x", "price": 1}, {"kind": "query", "id": "x", "numbers": "abc"}],
)  # fmt: skip
def test_a_record_that_is_not_an_event_is_passed_over(tmp_path: Path, entry: object) -> None:
    Feedback(tmp_path).append(mark(1, 2))
    Journal(tmp_path / NAME).append([entry])
    journal = Feedback(tmp_path)
    assert (items_of(journal), journal.damaged) == ([2], 1)


def test_a_file_that_is_replaced_is_read_from_its_beginning(tmp_path: Path) -> None:
    """Marks of another journal must not be mixed with those of the former one."""
    journal = Feedback(tmp_path)
    for item in (2, 3):
        journal.append(mark(1, item))
    journal.path.unlink()
    other = Feedback(tmp_path)
    for item in (5, 6, 7):
        other.append(mark(1, item))
    journal.append(mark(1, 8))
    assert items_of(journal) == items_of(Feedback(tmp_path)) == [5, 6, 7, 8]


def test_a_journal_that_cannot_be_read_now_is_a_problem_and_what_is_known_stays(tmp_path: Path) -> None:
    folder, unplugged = tmp_path / "an.index", tmp_path / "unplugged"
    folder.mkdir()
    journal = Feedback(folder)
    journal.append(label(1, "cat"))
    folder.rename(unplugged)
    journal.refresh()
    assert journal.problem is not None
    assert "is gone" in journal.problem
    assert items_of(journal) == [1]
    with pytest.raises(LikewiseError, match="is gone; nothing was saved"):
        journal.append(label(2, "cat"))
    unplugged.rename(folder)
    journal.append(label(3, "cat"))
    assert journal.refresh()
    assert journal.problem is None
    assert items_of(Feedback(folder)) == [1, 3]


def test_an_unknown_kind_and_a_missing_folder_get_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(LikewiseError, match="kind='praise'; expected mark, label"):
        Feedback(tmp_path).append(Event("praise"))  # type: ignore[arg-type]
    with pytest.raises(LikewiseError, match="nothing was saved"):
        Feedback(tmp_path / "gone").append(mark(1, 2))


def test_a_failed_write_leaves_the_journal_as_it_was(tmp_path: Path) -> None:
    """A full disk: the step is refused, uses nothing up, and the next one works."""
    journal = Feedback(tmp_path)
    journal.append(mark(1, 2))
    before, soft = journal.path.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, soft[1]))
    try:
        for work in (lambda: journal.append(mark(1, 3)), journal.undo):
            with pytest.raises(LikewiseError, match=r"cannot write .*; nothing was saved"):
                work()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, soft)
    assert journal.path.read_bytes() == before
    assert items_of(journal) == items_of(Feedback(tmp_path)) == [2]
    journal.append(mark(1, 4))
    assert items_of(Feedback(tmp_path)) == [2, 4]


def test_the_csv_has_what_counts_and_no_formula(tmp_path: Path) -> None:
    journal = Feedback(tmp_path)
    journal.append(Event("mark", (ItemRef(1), "query:ab"), (ItemRef(5), ItemRef(6)), True, who="Anna"))
    journal.append(label(7, '=HYPERLINK("x")'))
    rows = list(csv.DictReader(io.StringIO(feedback_to_csv(journal.events()))))
    assert [row["kind"] for row in rows] == ["mark"] * 4 + ["label"]
    assert [(row["query"], row["item"]) for row in rows[:4]] == [
        ("1", "5"), ("1", "6"), ("query:ab", "5"), ("query:ab", "6"),
    ]  # fmt: skip
    assert (rows[0]["right"], rows[0]["who"]) == ("true", "Anna")
    assert rows[4]["label"].startswith("'=")


def test_threads_and_journals_of_one_folder_lose_nothing(tmp_path: Path) -> None:
    journals = [Feedback(tmp_path), Feedback(tmp_path)]

    def write(i: int) -> None:
        numbers = np.full(2000, i, np.float32)
        name = outside_name(numbers)
        journals[i % 2].append(Event("mark", (name,), (ItemRef(i),), True), {name: numbers})

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(60)))
    again = Feedback(tmp_path)
    assert sorted(event.items[0].id for event in again.events()) == list(range(60))
    assert again.damaged == 0


@pytest.mark.second
def test_killed_at_50_random_moments_no_confirmed_mark_is_lost(tmp_path: Path) -> None:
    confirmed = tmp_path / "confirmed"
    confirmed.write_bytes(b"")

    def work() -> None:
        journal = Feedback(tmp_path)
        number = len(journal.events())
        with open(confirmed, "ab", buffering=0) as told:
            while True:
                journal.append(mark(number, number))
                told.write(b"%d\n" % number)  # the page has now told the user
                number += 1

    rng = np.random.default_rng(0)
    kept: list[object] = []
    kills = 0
    while (kills < 50 or len(kept) < 50) and kills < 500:  # a busy machine may need more of them
        killed_while(work, float(rng.uniform(0.001, 0.02)))
        kills += 1
        kept = items_of(Feedback(tmp_path))
        assert kept == list(range(len(kept)))
        told = [int(line) for line in confirmed.read_bytes().splitlines()]
        assert set(told) <= set(kept)
    assert len(kept) >= 50
