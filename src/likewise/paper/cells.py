"""Results, stored one by one, so that a killed run can be resumed and gives the same table."""

import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from likewise.errors import LikewiseError
from likewise.rows.store import table_to_csv
from likewise.utils.files import append_synced, atomic_write, make_folder, parsed_json

MEASURES = ("mAP", "macro_mAP", "P@1", "P@10", "MAP@R", "nDCG", "value", "bound")
SECONDS = ("fit_seconds", "fit_cpu_seconds")
COLUMNS = ("experiment", "method", "split", "at", *MEASURES, "setting", *SECONDS)
FORMAT = 1
_CHECK = b', "crc": "%08x"}'

Key = tuple[str, str, int]
Curve = tuple[list[float], np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Cell:
    """The result of a method in an experiment on a split, `at` a position (an iteration, an m, a choice)."""

    experiment: str
    method: str
    split: int
    at: float | str = ""
    values: dict[str, float] = field(default_factory=dict)
    setting: dict[str, Any] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    def row(self) -> list[Any]:
        at = f"{self.at:g}" if isinstance(self.at, float) else self.at
        measured = [_written(self.values.get(name), 8) for name in MEASURES]
        setting = json.dumps(self.setting, sort_keys=True) if self.setting else ""
        seconds = [_written(self.seconds.get(name), 4) for name in SECONDS]
        return [self.experiment, self.method, self.split, at, *measured, setting, *seconds]


@dataclass(frozen=True)
class Done:
    """The results of a finished task: its cells, and extra data for the figures."""

    cells: list[Cell]
    extra: dict[str, Any] = field(default_factory=dict)


class CellJournal:
    """The finished tasks of a run, one line each in `cells.jsonl`, synced at once; `cells.csv` is the table of them.

    The first line holds the settings that decide the results. Every line has a checksum; an incomplete last line is
    dropped. A file with damaged lines is kept aside before it is written again.
    """

    def __init__(self, folder: Path, header: dict[str, Any], resume: bool = False) -> None:
        self.path, self.table, self.header = folder / "cells.jsonl", folder / "cells.csv", header
        self.done: dict[Key, Done] = {}
        self.commands: list[str] = []
        self.moved: Path | None = None
        self.damaged = 0  # lines that could not be read; the file that has them is `moved`
        make_folder(folder)
        self._check_own_folder(folder)
        if resume and self.path.exists():
            self._read()
        elif self.path.exists():  # the finished work of an earlier run is kept
            self.moved = self._aside("previous")
        self._write_whole()

    def _check_own_folder(self, folder: Path) -> None:
        """Raise if a report or a table is there that no run has written."""
        taken = [name for name in ("cells.csv", "report.md", "report.html") if (folder / name).exists()]
        if taken and not self.path.exists():
            raise LikewiseError(f"{folder} has a {taken[0]} of its own: choose another folder with -o")

    def _aside(self, word: str) -> Path:
        """A copy of the file under a name that is free; the file itself is replaced as a whole later."""
        names = (f"cells.{word}{'' if number == 1 else f'-{number}'}.jsonl" for number in count(1))
        free = next(name for name in names if not self.path.with_name(name).exists())
        return atomic_write(self.path.with_name(free), self.path.read_bytes())

    def add(self, key: Key, done: Done) -> None:
        """Store a finished task; it is on disk when this returns."""
        self._append(_task_entry(key, done))
        self.done[key] = done
        self._write_table()

    def add_command(self, command: str) -> None:
        if command not in self.commands:
            self._append({"command": command})
            self.commands.append(command)

    def _append(self, entry: dict[str, Any]) -> None:
        try:
            append_synced(self.path, _line(entry))
        except OSError as error:
            raise LikewiseError(f"cannot write {self.path}: {error.strerror or error}; --resume continues") from error

    def drop(self, experiment: str) -> None:
        """Delete the results of an experiment, to measure it again."""
        self.done = {key: done for key, done in self.done.items() if key[0] != experiment}
        self._write_whole()

    def cells(self, experiment: str, method: str | None = None) -> list[Cell]:
        """The cells of an experiment, or of one of its methods, sorted by split."""
        found = [cell for cell in self._all_cells() if cell.experiment == experiment and method in (None, cell.method)]
        return sorted(found, key=lambda cell: cell.split)

    def methods(self, experiment: str, order: Sequence[str]) -> list[str]:
        """The methods with cells in an experiment: first in the given order, then the others by name."""
        there = {cell.method for cell in self.cells(experiment)}
        return [name for name in order if name in there] + sorted(there - set(order))

    def scores(self, experiment: str, method: str, measure: str = "mAP") -> dict[int, float]:
        """A metric of a method by split, in per cent."""
        return {cell.split: 100 * cell.values[measure] for cell in self.cells(experiment, method)}

    def seconds(self, experiment: str, method: str) -> float | None:
        """Mean training time of a method over the splits."""
        found = [cell.seconds["fit_seconds"] for cell in self.cells(experiment, method) if cell.seconds]
        return float(np.mean(found)) if found else None

    def curve(self, experiment: str, method: str) -> Curve:
        """Positions, and mean and standard deviation of mAP over the splits at each, in per cent."""
        at: dict[float, list[float]] = {}
        for cell in self.cells(experiment, method):
            at.setdefault(float(cell.at), []).append(100 * cell.values["mAP"])
        places = sorted(at)
        spread = [np.std(at[place], ddof=1) if len(at[place]) > 1 else 0.0 for place in places]
        return places, np.array([np.mean(at[place]) for place in places]), np.array(spread)

    def extra(self, experiment: str, method: str, split: int = 0) -> dict[str, Any]:
        return self.done.get((experiment, method, split), Done([])).extra

    def _read(self) -> None:
        """Read the tasks of an earlier run with the same data and settings."""
        lines = self.path.read_bytes().split(b"\n")[:-1]  # an incomplete last line is dropped
        first = _entry(lines[0]) if lines else {}
        if first is None or (lines and not isinstance(first.get("header"), dict)):
            raise LikewiseError(
                f"--resume: the first line of {self.path} is damaged, and the results in it are kept: "
                "choose another folder with -o, or run without --resume"
            )
        if lines:
            self._check_header(first["header"])
        for line in lines[1:]:
            self.damaged += not self._take(_entry(line))
        if self.damaged:
            self.moved = self._aside("damaged")

    def _take(self, entry: dict[str, Any] | None) -> bool:
        """Let a line count, unless it is damaged."""
        if entry is None:
            return False
        if isinstance(entry.get("command"), str):
            self.commands.append(entry["command"])
            return True
        try:
            experiment, method, split = entry["key"]
            done = Done([_checked_cell(Cell(**cell)) for cell in entry["cells"]], dict(entry["extra"]))
            self.done[str(experiment), str(method), int(split)] = done
        except (KeyError, TypeError, ValueError, OverflowError):
            return False
        return True

    def _check_header(self, before: dict[str, Any]) -> None:
        now = json.loads(json.dumps(self.header))
        differing = [name for name in now if before.get(name) != now[name]]
        if differing:
            said = ", ".join(f"{name} was {before.get(name)!r} and is {now[name]!r}" for name in differing)
            raise LikewiseError(f"--resume: {self.path.parent} has another run ({said}); choose another folder with -o")

    def _write_whole(self) -> None:
        commands = [{"command": command} for command in self.commands]
        tasks = [_task_entry(key, done) for key, done in self.done.items()]
        entries: list[dict[str, Any]] = [{"format": FORMAT, "header": self.header}, *commands, *tasks]
        atomic_write(self.path, b"".join(map(_line, entries)))
        self._write_table()

    def _write_table(self) -> None:
        rows = (cell.row() for cell in sorted(self._all_cells(), key=_place))
        atomic_write(self.table, table_to_csv(COLUMNS, rows))

    def _all_cells(self) -> list[Cell]:
        return [cell for done in self.done.values() for cell in done.cells]


def _place(cell: Cell) -> tuple[str, int, str, float, str]:
    """Sort key of the table, independent of the order in which cells were finished."""
    number = float(cell.at) if isinstance(cell.at, int | float) else 0.0
    return cell.experiment, cell.split, cell.method, number, str(cell.at)


def _task_entry(key: Key, done: Done) -> dict[str, Any]:
    return {"key": key, "cells": [vars(cell) for cell in done.cells], "extra": done.extra}


def _line(entry: dict[str, Any]) -> bytes:
    text = json.dumps(entry).encode()[:-1]
    return text + _CHECK % zlib.crc32(text) + b"\n"


def _entry(line: bytes) -> dict[str, Any] | None:
    """What a line holds, or None if it is damaged; lines of before had no checksum."""
    entry = parsed_json(line)
    if not isinstance(entry, dict):
        return None
    check = entry.pop("crc", None)
    return entry if check is None or line.endswith(_CHECK % zlib.crc32(line[: -len(_CHECK % 0)])) else None


def _checked_cell(cell: Cell) -> Cell:
    """The cell, if its fields are of their kinds."""
    if not all(isinstance(part, dict) for part in (cell.values, cell.seconds, cell.setting)):
        raise ValueError("a cell has no values")
    numbers = (*cell.values.values(), *cell.seconds.values())
    if not all(isinstance(number, int | float) for number in numbers):
        raise ValueError("a cell holds other things than numbers")
    if not (isinstance(cell.split, int) and isinstance(cell.experiment, str) and isinstance(cell.method, str)):
        raise ValueError("a cell has no place")
    if not isinstance(cell.at, str | int | float):
        raise ValueError("a cell has no position")
    return cell


def _written(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}g}"
