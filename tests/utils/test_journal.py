"""An append-only journal: order, transactions, several processes, kills, damage."""

from __future__ import annotations

import os
import resource
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from likewise.errors import FileFormatError, LikewiseError
from likewise.utils.journal import Journal


def values(path: Path) -> list[object]:
    return [record.value for record in Journal(path).read()]


def forked(work: Callable[[], object]) -> int:
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except LikewiseError:
            os._exit(10)
        finally:
            os._exit(1)
    return child


def exit_code(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a journal?.sqlite"


def test_records_keep_their_order_and_get_sequence_numbers(path: Path) -> None:
    journal = Journal(path)
    assert journal.read() == []
    assert not path.exists()
    assert [record.sequence for record in journal.append(["a", {"b": [1, None]}])] == [1, 2]
    assert journal.append([]) == []
    assert journal.append([np.float32(0.5)])[0] == (3, 0.5)
    assert [tuple(record) for record in Journal(path).read()] == [(1, "a"), (2, {"b": [1, None]}), (3, 0.5)]
    assert journal.read(since=2) == [(3, 0.5)]
    assert sorted(os.listdir(path.parent)) == [path.name]


def test_an_append_is_all_or_nothing(path: Path) -> None:
    Journal(path).append([1])
    circular: list[object] = []
    circular.append(circular)
    with pytest.raises(ValueError, match="Circular"):
        Journal(path).append([2, circular])
    assert values(path) == [1]


def test_an_update_sees_what_others_wrote_and_nobody_writes_in_between(path: Path) -> None:
    one, two = Journal(path), Journal(path)
    one.append([0])

    def next_number(journal: Journal) -> None:
        journal.update(lambda records: [max(record.value for record in records) + 1], since=0)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(next_number, [one, two] * 10))
    assert values(path) == list(range(21))
    assert one.update(lambda records: [], since=20) == [(21, 20)]


def test_a_replaced_file_is_read_from_its_beginning(path: Path) -> None:
    journal = Journal(path)
    journal.append(["old", "older"])
    journal.read()
    before = journal.identity
    path.unlink()
    Journal(path).append(["new", "newer", "newest"])
    assert [record.value for record in journal.read(since=2)] == ["new", "newer", "newest"]
    assert journal.identity != before
    assert journal.read(since=2) == [(3, "newest")]


def test_two_processes_write_every_record_once(path: Path) -> None:
    def write(who: int) -> None:
        for number in range(40):
            Journal(path).append([[who, number], [who, number]])

    children = [forked(lambda who=who: write(who)) for who in range(2)]  # type: ignore[misc]
    assert [exit_code(child) for child in children] == [0, 0]
    entries = values(path)
    for who in range(2):
        assert [number for by, number in entries if by == who] == [n for n in range(40) for _ in range(2)]  # type: ignore[misc]
    assert entries[::2] == entries[1::2]  # an append stays together


def test_killed_at_any_moment_no_confirmed_record_is_lost(path: Path) -> None:
    notes = path.with_name("confirmed")
    notes.touch()

    def work() -> None:
        journal = Journal(path)
        number = len(journal.read())
        with open(notes, "ab", buffering=0) as file:
            while True:
                journal.append([number, number + 1])
                number += 2
                file.write(b"%d\n" % number)

    rng = np.random.default_rng(0)
    for kill in range(40):
        child, before = forked(work), notes.stat().st_size
        while kill % 2 and notes.stat().st_size == before:  # every second one has confirmed something
            time.sleep(0.001)
        time.sleep(float(rng.uniform(0, 0.03)))
        os.kill(child, signal.SIGKILL)
        assert exit_code(child) == -signal.SIGKILL
        confirmed = [int(line) for line in notes.read_bytes().splitlines()]
        assert values(path) == list(range(len(values(path))))
        assert len(values(path)) % 2 == 0
        assert len(values(path)) >= max(confirmed, default=0)
    assert len(values(path)) > 40


def test_a_lock_that_is_held_is_a_sentence(path: Path) -> None:
    Journal(path).append([1])
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(LikewiseError, match=r"by process \d+ \(.+\), which does not end; nothing was saved; try"):
        Journal(path, timeout=0.05).append([2])
    with pytest.raises(LikewiseError, match=r"is being written by process \d+ .*; try again"):
        Journal(path, timeout=0.05).read()
    other.close()
    Journal(path, timeout=0.05).append([3])
    assert values(path) == [1, 3]


def test_a_stopped_process_that_holds_the_lock_is_named_and_waited_for_once(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Journal(path).append([1])

    def stop() -> None:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        os.kill(os.getpid(), signal.SIGSTOP)

    child = forked(stop)
    os.waitpid(child, os.WUNTRACED)
    journal = Journal(path, timeout=2)
    with pytest.raises(LikewiseError, match=rf"by process {child} \(.+\), which does not end; try again"):
        journal.read()
    attempts, connect = [], sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *args, **options: attempts.append(1) or connect(*args, **options))
    for _ in range(20):  # those that wait in a queue have an answer at once, not one after the other
        with pytest.raises(LikewiseError, match=f"by process {child} .*; nothing was saved; try again"):
            journal.append([2])
    assert len(attempts) < 3
    os.kill(child, signal.SIGKILL)
    os.kill(child, signal.SIGCONT)
    assert exit_code(child) == -signal.SIGKILL
    Journal(path).append([3])
    assert values(path) == [1, 3]


def test_a_folder_that_went_away_is_refused_whatever_is_in_its_place(tmp_path: Path) -> None:
    disk, unplugged = tmp_path / "disk" / "an.index", tmp_path / "unplugged"
    disk.mkdir(parents=True)
    journal = Journal(disk / "marks.sqlite")
    journal.append([1])
    disk.parent.rename(unplugged)
    for work in (journal.read, lambda: journal.append([2])):
        with pytest.raises(LikewiseError, match=r"an\.index is gone; nothing was saved: attach its disk"):
            work()
    disk.mkdir(parents=True)
    Journal(disk / "marks.sqlite").append(["of another index"])
    for work in (journal.read, lambda: journal.append([2])):
        with pytest.raises(LikewiseError, match="is not the folder that was opened: another is in its place"):
            work()
    assert values(disk / "marks.sqlite") == ["of another index"]
    assert values(unplugged / "an.index" / "marks.sqlite") == [1]


def test_after_a_partial_write_the_answer_is_true_in_the_same_process_too(path: Path) -> None:
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    Journal(path).append(["x" * 300] * 30)
    wrong = []
    for room in range(0, 60_000, 1_500):
        before = values(path)
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
            Journal(path).append(["y" * 12_000])
            saved = True
        except LikewiseError as error:
            saved = "nothing was saved" not in str(error)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        if len(values(path)) != len(before) + saved:
            wrong.append(room)
    assert not wrong


def test_a_file_that_cannot_grow_is_a_sentence_and_keeps_what_it_had(path: Path) -> None:
    Journal(path).append(["before"])

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size, path.stat().st_size))
        Journal(path).append(["x" * 100_000])

    assert exit_code(forked(limited)) == 10
    assert values(path) == ["before"]
    Journal(path).append(["after"])
    assert values(path) == ["before", "after"]


@pytest.mark.parametrize("content", [b"no database at all" * 99, b"{}\n"])
def test_a_file_that_is_not_a_journal_is_a_sentence(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    for work in (Journal(path).read, lambda: Journal(path).append([1])):
        with pytest.raises(FileFormatError, match=r"sqlite is not a journal$"):
            work()
    assert path.read_bytes() == content


def test_another_database_is_left_alone(path: Path) -> None:
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE addresses (name)")
    other.close()
    before = path.read_bytes()
    with pytest.raises(FileFormatError, match="it is another database"):
        Journal(path).append([1])
    assert path.read_bytes() == before


def test_a_missing_folder_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(LikewiseError, match=r"cannot write .*; nothing was saved"):
        Journal(tmp_path / "gone" / "journal.sqlite").append([1])
    assert Journal(tmp_path / "gone" / "journal.sqlite").read() == []


def test_a_flipped_bit_in_a_record_costs_that_record(path: Path) -> None:
    Journal(path).append(["first", "second", "third"])
    path.write_bytes(path.read_bytes().replace(b"second", b"sacond"))
    assert values(path) == ["first", None, "third"]
    Journal(path).append(["fourth"])
    assert values(path) == ["first", None, "third", "fourth"]


def test_any_damage_is_a_sentence_or_costs_records(path: Path) -> None:
    Journal(path).append([{"number": number, "text": "x" * 50} for number in range(200)])
    sound, rng = path.read_bytes(), np.random.default_rng(0)
    known = [{"number": number, "text": "x" * 50} for number in range(200)]
    for _ in range(200):
        data = bytearray(sound)
        for place in rng.integers(0, len(data), 3):
            data[place] = rng.integers(256)
        path.write_bytes(bytes(data) if rng.random() < 0.8 else sound[: rng.integers(1, len(sound))])
        try:
            result = values(path)
        except LikewiseError:
            continue
        assert all(value is None or value in known for value in result)


def test_read_only_media_can_be_read(path: Path) -> None:
    Journal(path).append([1])
    folder = str(path.parent)
    mounted = not subprocess.run(["mount", "--bind", folder, folder], capture_output=True).returncode
    if not mounted or subprocess.run(["mount", "-o", "remount,bind,ro", folder], capture_output=True).returncode:
        pytest.skip("cannot mount a folder read-only here")
    try:
        assert values(path) == [1]
        with pytest.raises(LikewiseError, match=r"cannot write .*; nothing was saved"):
            Journal(path).append([2])
    finally:
        subprocess.run(["umount", folder], check=True)
