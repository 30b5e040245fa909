"""Several processes teach one index: what was confirmed to one of them stays, whatever the others do."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from likewise.search.items import ItemRef
from likewise.teach import Feedback
from likewise.teach.feedback import Event


def _marking(folder: Path, who: str, confirmed: Path) -> None:
    """Mark, and undo every third mark; write down what was confirmed, only then."""
    feedback = Feedback(folder)
    with open(confirmed, "ab", buffering=0) as notes:
        for number in range(10**6):
            event = feedback.append(Event("label", items=(ItemRef(f"{who}{number}"),), label=who, who=who))
            notes.write(f"+{event.id}\n".encode())
            if number % 3 == 2:
                undone = feedback.undo(who)
                assert undone is not None
                assert undone.who == who
                notes.write(f"-{undone.id}\n".encode())


@pytest.mark.second
def test_no_confirmed_mark_is_lost_by_others_undos_starts_and_kills(tmp_path: Path) -> None:
    people = ["ann", "bob", "cat"]
    children: dict[str, int] = {}
    for round_ in range(12):  # each round kills one at any moment, and starts it again
        for who in people:
            if who not in children:
                children[who] = os.fork()
                if children[who] == 0:
                    try:
                        _marking(tmp_path, who, tmp_path / f"{who}.txt")
                    finally:
                        os._exit(1)
        victim = people[round_ % 3]
        _await_marks(tmp_path / f"{victim}.txt", 5 + round_)
        os.kill(children[victim], signal.SIGKILL)
        assert os.waitstatus_to_exitcode(os.waitpid(children.pop(victim), 0)[1]) == -signal.SIGKILL
    for child in children.values():
        os.kill(child, signal.SIGKILL)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    _check(tmp_path, people)


def _await_marks(notes: Path, more: int) -> None:
    """Until so many more steps are confirmed there."""
    before = notes.stat().st_size if notes.exists() else 0
    while not notes.exists() or notes.stat().st_size < before + 18 * more:  # bytes of a line
        time.sleep(0.002)


def _check(folder: Path, people: list[str]) -> None:
    found = Feedback(folder)
    standing = {event.id for event in found.steps()}
    undone = {event.of for event in found._history if event.kind == "undo"}
    confirmed = 0
    for who in people:
        lines = (folder / f"{who}.txt").read_text().splitlines()
        taken_back = {line[1:] for line in lines if line[0] == "-"}
        made = {line[1:] for line in lines if line[0] == "+"}
        confirmed += len(made)
        assert taken_back <= undone
        assert made - undone <= standing
        # a kill between an undo and its note leaves at most one undo a round unknown
        assert len((made & undone) - taken_back) <= 13
    assert confirmed > 30
    assert found.damaged == 0
