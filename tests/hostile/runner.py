"""Reads many damaged files in processes with limits; counts what ends in a sentence, in success, or otherwise."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from likewise.errors import LikewiseError

MOST_SECONDS = 5  # of processor time for one file
MOST_MEMORY = 1 << 30  # resident, of a whole process
_AGAIN = 7  # exit code of a process that was asked to stop
_ADDRESS_SPACE = 4 << 30  # libraries map a good part of it without using it

Files = dict[str, bytes]
Damage = Callable[[np.random.Generator, Files], Files]


@dataclass(frozen=True)
class Kind:
    """A kind of file: how a sound one is made, damaged, and read."""

    name: str
    make: Callable[[Path], None]
    damage: Damage
    read: Callable[[Path], object]


@dataclass
class Outcome:
    """What became of the mutations of a kind."""

    name: str
    n: int = 0
    sentences: int = 0
    successes: int = 0
    seconds: float = 0.0
    memory: int = 0
    wrong: list[str] = field(default_factory=list)


def run(kind: Kind, numbers: range, seed: int, scratch: Path) -> Outcome:
    """Damage and read the files of these numbers; a process that dies is replaced by one that goes on after it."""
    sound = scratch / f"{kind.name}.sound"
    sound.mkdir()
    _made(kind, sound)
    files = snapshot(sound)
    outcome = Outcome(kind.name)
    while numbers:
        numbers = numbers[_in_child(kind, files, numbers, seed, scratch / kind.name, outcome) - numbers.start :]
    shutil.rmtree(sound)
    return outcome


def _made(kind: Kind, folder: Path) -> None:
    """Sound files, made in a process of their own: threads that a library starts would not survive a fork."""
    child = os.fork()
    if child == 0:
        try:
            kind.make(folder)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0, f"no sound file of kind {kind.name}"


def snapshot(folder: Path) -> Files:
    return {os.fspath(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _in_child(kind: Kind, files: Files, numbers: range, seed: int, folder: Path, outcome: Outcome) -> int:
    """Let a fork read files until it is done or dies; returns the number to go on with."""
    inlet, outlet = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(inlet)
        try:
            _read_all(kind, files, numbers, seed, folder, outlet)
            os._exit(0)
        finally:
            os._exit(1)
    os.close(outlet)
    last = numbers.start
    with os.fdopen(inlet) as report:
        for line in report:
            word, *rest = line.rstrip("\n").split("\t")
            if word == "begin":
                last = int(rest[0])
            else:
                _count(outcome, word, last, seed, rest)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status in (0, _AGAIN):
        return numbers.stop if status == 0 else last + 1
    reason = f"more than {MOST_SECONDS} s" if status == -signal.SIGPROF else f"exit {status}"
    _count(outcome, "wrong", last, seed, ["0", "0", reason])
    return last + 1


def _read_all(kind: Kind, files: Files, numbers: range, seed: int, folder: Path, outlet: int) -> None:
    _limit()
    with os.fdopen(outlet, "w", buffering=1) as report:
        for number in numbers:
            print(f"begin\t{number}", file=report)
            try:
                print(_one(kind, files, number, seed, folder), file=report)
            except Exception as error:
                print(f"wrong\t0\t0\tthe test itself: {error!r}", file=report)
            if _memory() > MOST_MEMORY:  # what a process took it never gives back: a new one starts
                os._exit(_AGAIN)


def _memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE, _ADDRESS_SPACE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)


def _one(kind: Kind, files: Files, number: int, seed: int, folder: Path) -> str:
    rng = np.random.default_rng([seed, number])
    shutil.rmtree(folder, ignore_errors=True)
    for name, data in kind.damage(rng, dict(files)).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    began = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
    try:
        word, said = "success", ""
        kind.read(folder)
    except LikewiseError as error:
        word, said = "sentence", str(error)
        if not said.strip():
            word = "wrong"
    except BaseException as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        word, said = "wrong", f"{type(error).__name__}: {error} at {where.filename.split('/')[-1]}:{where.lineno}"
    signal.setitimer(signal.ITIMER_PROF, 0)
    seconds, memory = time.process_time() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    return "\t".join(
        [word, f"{seconds:.4f}", str(memory), " ".join(said.split())[:300].encode("ascii", "replace").decode()]
    )


def _count(outcome: Outcome, word: str, number: int, seed: int, rest: list[str]) -> None:
    seconds, memory, said = float(rest[0]), int(rest[1]), rest[2] if len(rest) > 2 else ""
    outcome.n += 1
    outcome.seconds, outcome.memory = max(outcome.seconds, seconds), max(outcome.memory, memory)
    outcome.sentences += word == "sentence"
    outcome.successes += word == "success"
    if word == "wrong" or memory > MOST_MEMORY:
        outcome.wrong.append(f"seed {seed}, number {number}, {memory >> 20} MB: {said}")


def scratch_folder() -> tempfile.TemporaryDirectory[str]:
    """In memory where there is such a folder: thousands of small files are written."""
    return tempfile.TemporaryDirectory(prefix="fuzz-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)


def table(outcomes: list[Outcome]) -> str:
    head = f"{'kind':<22}{'mutations':>10}{'sentences':>11}{'successes':>11}{'wrong':>7}{'worst s':>9}{'worst MB':>10}"
    return "\n".join([head, *map(_row, outcomes)])


def _row(o: Outcome) -> str:
    counts = f"{o.n:>10,}{o.sentences:>11,}{o.successes:>11,}{len(o.wrong):>7}"
    return f"{o.name:<22}{counts}{o.seconds:>9.2f}{o.memory >> 20:>10,}"


def main(kinds: dict[str, Any]) -> None:
    """`python -m tests.hostile.kinds [N|FROM-TO [SEED [KIND…]]]`: damaged files; exits with 1 if one is wrong."""
    which, seed, *names = [*sys.argv[1:], *["20000", "0"][len(sys.argv) - 1 :]]
    first, _, end = which.rpartition("-")
    outcomes = []
    with scratch_folder() as scratch:
        for name in names or kinds:
            outcomes.append(run(kinds[name], range(int(first or 0), int(end)), int(seed), Path(scratch)))
            print(table(outcomes[-1:]).splitlines()[-1], flush=True)
    print(table(outcomes))
    wrong = [f"{outcome.name}: {text}" for outcome in outcomes for text in outcome.wrong]
    print("\n".join(wrong[:200]))
    sys.exit(bool(wrong))
