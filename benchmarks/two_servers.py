"""Two servers on one index: what was confirmed to somebody stays, whichever server said so.

usage: python -m benchmarks.two_servers [--seconds 60]

Four people mark, label, undo and learn on either server at once. At the end every confirmed step that was not undone
is in the journal, nothing else is, and both servers count the same. Prints PASS or FAIL.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import httpx

from benchmarks.soak import N_ITEMS, made_index, served
from likewise.teach import Feedback

__all__ = ["main"]


class Person:
    """Teaches until it is stopped, now at one server, now at the other, and remembers what was confirmed."""

    def __init__(self, name: str, urls: list[str]) -> None:
        self.name, self.urls, self.answers = name, urls, Counter[str]()
        self.steps: list[str] = []  # words of the steps that stand
        self.undone = 0

    def teach(self, stop: threading.Event) -> None:
        rng = random.Random(self.name)
        with httpx.Client(headers={"x-likewise-who": self.name}, timeout=60) as client:
            while not stop.is_set():
                self._step(client, rng.choice(self.urls), rng)

    def _step(self, client: httpx.Client, url: str, rng: random.Random) -> None:
        row, kind = rng.randrange(N_ITEMS - 20), rng.random()
        if kind < 0.6:
            mark = {"query": [{"row": row}], "items": [row + 20], "right": rng.random() < 0.7}
            self._record("mark", client.post(f"{url}/api/marks", json=mark))
        elif kind < 0.9:
            label = f"{self.name} {len(self.steps)}"
            self._record("label", client.post(f"{url}/api/labels", json={"items": [row], "label": label}))
        elif kind < 0.97:
            self._record("undo", client.post(f"{url}/api/undo"))
        else:
            self._record("learn", client.post(f"{url}/api/learn"))

    def _record(self, kind: str, answer: httpx.Response) -> None:
        self.answers[f"{kind} {answer.status_code}"] += 1
        if answer.status_code == 201:
            self.steps.append(kind)
        elif kind == "undo" and answer.status_code == 200:
            self.undone += 1


def _in_force(folder: Path, who: str) -> Counter[str]:
    """What is in force in the journal, by kind; lessons end by themselves, after they were asked for."""
    return Counter(event.kind for event in Feedback(folder).steps() if event.who == who)


def _undone(folder: Path, who: str) -> Counter[str]:
    feedback = Feedback(folder)
    standing = {event.id for event in feedback.steps()}
    events = [event for event in feedback._history if event.kind != "undo" and event.who == who]
    return Counter(event.kind for event in events if event.id not in standing)


def _lost(folder: Path, person: Person) -> int:
    """Confirmed marks and labels that neither stand nor were undone; those beyond count too."""
    in_force, undone, confirmed = _in_force(folder, person.name), _undone(folder, person.name), Counter(person.steps)
    return sum(abs(confirmed[kind] - in_force[kind] - undone[kind]) for kind in ("mark", "label")) + abs(
        sum(undone.values()) - person.undone
    )


def main(seconds: float) -> int:
    """Run and print what was confirmed, what is in force and what each server counts; exit code 1 for FAIL."""
    with tempfile.TemporaryDirectory() as scratch:
        index = made_index(Path(scratch))
        with served(index, "--no-token") as (_, one), served(index, "--no-token") as (_, other):
            urls = [f"http://127.0.0.1:{port}" for port in (one, other)]
            people = [Person(name, urls) for name in ("ann", "bob", "cat", "dan")]
            _teach(people, seconds)
            counts = [_settled(url) for url in urls]
        return _verdict(index, people, counts)


def _teach(people: list[Person], seconds: float) -> None:
    stop = threading.Event()
    threads = [threading.Thread(target=person.teach, args=[stop]) for person in people]
    for thread in threads:
        thread.start()
    time.sleep(seconds)
    stop.set()
    for thread in threads:
        thread.join()


def _settled(url: str) -> int:
    """What a server counts once no lesson runs."""
    while True:
        status = httpx.get(f"{url}/api/status", timeout=60).json()
        if status["learning"]["state"] != "running":
            return int(status["feedback"]["total"])
        time.sleep(0.2)


def _verdict(index: Path, people: list[Person], counts: list[int]) -> int:
    answers = sum((person.answers for person in people), Counter[str]())
    confirmed, undone = sum(len(person.steps) for person in people), sum(person.undone for person in people)
    lost, in_force = sum(_lost(index, person) for person in people), len(Feedback(index).events())
    print(f"answers: {dict(sorted(answers.items()))}")
    print(
        f"{confirmed} confirmed marks and labels, {undone} steps undone, {in_force} stand, the servers count {counts}"
    )
    failed = sum(n for words, n in answers.items() if words.split()[1] >= "5")
    passed = lost == 0 and failed == 0 and counts == [in_force, in_force]
    print(f"{lost} lost, {failed} answers of 5xx: {'PASS' if passed else 'FAIL'}")
    return 0 if passed else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60)
    sys.exit(main(parser.parse_args().seconds))
