"""Results, stored one by one, so that a killed run can be resumed and gives the same table."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from likewise.errors import LikewiseError
from likewise.rows.store import table_to_csv
from likewise.utils.files import atomic_write, make_folder
from likewise.utils.journal import Journal

MEASURES = ("mAP", "macro_mAP", "P@1", "P@10", "MAP@R", "nDCG", "value", "bound")
SECONDS = ("fit_seconds", "fit_cpu_seconds")
COLUMNS = ("experiment", "method", "split", "at", *MEASURES, "setting", *SECONDS)

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
    """The finished tasks of a run, stored at once in the journal `cells.sqlite`; `cells.csv` is the table of them.

    The first record holds the settings that decide the results. Results of an earlier run are moved to
    `cells.previous.sqlite`, unless it is resumed.
    """

    def __init__(self, folder: Path, header: dict[str, Any], resume: bool = False) -> None:
        self.path, self.table, self.header = folder / "cells.sqlite", folder / "cells.csv", header
        self.done: dict[Key, Done] = {}
        self.commands: list[str] = []
        self.moved: Path | None = None
        self.damaged = 0  # records that could not be read
        make_folder(folder)
        taken = [name for name in ("cells.csv", "report.md", "report.html") if (folder / name).exists()]
        if taken and not self.path.exists():
            raise LikewiseError(f"{folder} has a {taken[0]} that no run wrote: choose another folder with -o")
        if self.path.exists() and not resume:
            names = (f"cells.previous{'' if number == 1 else f'-{number}'}.sqlite" for number in count(1))
            self.moved = next(folder / name for name in names if not (folder / name).exists())
            self.path.replace(self.moved)
        self._journal = Journal(self.path)
        records = self._journal.read()
        if records:
            self._check_header(records[0].value)
            for record in records:
                self._replay(record.value)
        else:
            self._append({"header": self.header})
        self._write_table()

    def add(self, key: Key, done: Done) -> None:
        """Store a finished task; it is on disk when this returns."""
        self._append({"key": key, "cells": [vars(cell) for cell in done.cells], "extra": done.extra})

    def add_command(self, command: str) -> None:
        if command not in self.commands:
            self._append({"command": command})

    def drop(self, experiment: str) -> None:
        """Delete the results of an experiment, to measure it again."""
        self._append({"dropped": experiment})

    def _append(self, entry: dict[str, Any]) -> None:
        try:
            self._journal.append([entry])
        except LikewiseError as error:
            raise LikewiseError(f"{error}; --resume continues") from error
        self._replay(json.loads(json.dumps(entry)))
        self._write_table()

    def _check_header(self, entry: Any) -> None:
        if not isinstance(entry, dict) or "header" not in entry:
            raise LikewiseError(f"--resume: the settings in {self.path} are damaged: choose another folder with -o")
        before, now = entry["header"], json.loads(json.dumps(self.header))
        changed = [
            f"{name} was {before.get(name)!r} and is {now[name]!r}" for name in now if before.get(name) != now[name]
        ]
        if changed:
            raise LikewiseError(
                f"--resume: {self.path.parent} has another run ({', '.join(changed)}); choose another folder with -o"
            )

    def _replay(self, entry: Any) -> None:
        match entry:
            case {"header": _}:
                pass
            case {"command": command}:
                self.commands.append(command)
            case {"dropped": experiment}:
                self.done = {key: done for key, done in self.done.items() if key[0] != experiment}
            case {"key": [experiment, method, split], "cells": cells, "extra": extra}:
                self.done[experiment, method, split] = Done([Cell(**cell) for cell in cells], extra)
            case _:
                self.damaged += 1

    def _write_table(self) -> None:
        rows = (cell.row() for cell in sorted(self._all_cells(), key=_place))
        atomic_write(self.table, table_to_csv(COLUMNS, rows))

    def _all_cells(self) -> list[Cell]:
        return [cell for done in self.done.values() for cell in done.cells]

    def cells(self, experiment: str, method: str | None = None) -> list[Cell]:
        """The cells of an experiment, or of one of its methods, sorted by split."""
        cells = [cell for cell in self._all_cells() if cell.experiment == experiment and method in (None, cell.method)]
        return sorted(cells, key=lambda cell: cell.split)

    def methods(self, experiment: str, order: Sequence[str]) -> list[str]:
        """The methods with cells in an experiment: first in the given order, then the others by name."""
        there = {cell.method for cell in self.cells(experiment)}
        return [name for name in order if name in there] + sorted(there - set(order))

    def scores(self, experiment: str, method: str, measure: str = "mAP") -> dict[int, float]:
        """A metric of a method by split, in per cent."""
        return {cell.split: 100 * cell.values[measure] for cell in self.cells(experiment, method)}

    def seconds(self, experiment: str, method: str) -> float | None:
        """Mean training time of a method over the splits."""
        seconds = [cell.seconds["fit_seconds"] for cell in self.cells(experiment, method) if cell.seconds]
        return float(np.mean(seconds)) if seconds else None

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


def _place(cell: Cell) -> tuple[str, int, str, float, str]:
    """Sort key of the table, independent of the order in which cells were finished."""
    number = float(cell.at) if isinstance(cell.at, int | float) else 0.0
    return cell.experiment, cell.split, cell.method, number, str(cell.at)


def _written(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}g}"
