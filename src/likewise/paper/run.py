"""A run of the experiments: its tasks, performed one by one, with each result stored at once."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from likewise.errors import LikewiseError
from likewise.paper.cells import CellJournal, Done, Key
from likewise.paper.datasets import Dataset
from likewise.paper.protocol import Protocol, ProtocolSettings, TrainingBudget

__all__ = ["EXPERIMENTS", "PaperRun", "Task", "experiments_from", "perform"]

# In the order of the report. Each is a module with `tasks(run)` and `section(run)`, named alike unless said below.
EXPERIMENTS = ("tables", "times", "documents", "figure1", "figure2", "figure3", "theorem", "corollary", "choices")
_MODULES = {"documents": "newsgroups"}
_ALIASES = {"table1": "tables", "table2": "tables", "table3": "times", "lemma2": "theorem", "theorem1": "theorem",
            "corollary1": "corollary"}  # fmt: skip


@dataclass(frozen=True)
class Task:
    """A task with a unique key; `work` returns the results to store."""

    key: Key
    work: Callable[[], Done]

    def __str__(self) -> str:
        experiment, method, split = self.key
        return f"{experiment}: {method}, split {split + 1}"


@dataclass
class PaperRun:
    """A run on one data set: its protocol, methods and journal."""

    protocol: Protocol
    methods: list[str]
    n_splits: int
    journal: CellJournal
    only: tuple[str, ...] = EXPERIMENTS
    loads: list[float] = field(default_factory=list)

    @property
    def data(self) -> Dataset:
        return self.protocol.data

    @property
    def settings(self) -> ProtocolSettings:
        return self.protocol.settings

    @property
    def budget(self) -> TrainingBudget:
        return self.protocol.budget

    @property
    def folder(self) -> Path:
        return self.journal.path.parent

    @property
    def is_small(self) -> bool:
        """Whether the matrices are so small that several BLAS threads are slower, on a busy machine up to 17 times."""
        return self.protocol.n_train * self.protocol.width <= 200_000

    @property
    def curve_splits(self) -> int:
        """Number of splits used for the curves."""
        return min(self.n_splits, self.budget.curve_splits)


def header(protocol: Protocol, data: Dataset) -> dict[str, Any]:
    """What decides the results, to be compared when a run is resumed."""
    return {
        "dataset": data.name,
        "shape": list(data.X.shape),
        "data": fingerprint(data),
        **protocol.settings.as_dict(),
        "budget": {name: value for name, value in vars(protocol.budget).items() if name != "curve_splits"},
    }


def fingerprint(data: Dataset) -> str:
    """A checksum of the labels and of up to 200 evenly spaced rows."""
    X = data.X[np.linspace(0, len(data.y) - 1, min(200, len(data.y))).astype(int)]
    rows = X.toarray() if sp.issparse(X) else np.asarray(X)
    digest = hashlib.sha256(np.ascontiguousarray(data.y, dtype=np.int64).tobytes())
    digest.update(np.ascontiguousarray(rows, dtype=np.float64).tobytes())
    return digest.hexdigest()[:16]


def experiments_from(text: str | None) -> tuple[str, ...]:
    """Experiments from a comma-separated list, in the order of the report; all of them for None."""
    if text is None:
        return EXPERIMENTS
    names = {_ALIASES.get(part.strip().lower(), part.strip().lower()) for part in text.split(",") if part.strip()}
    unknown = sorted(names - set(EXPERIMENTS))
    if unknown or not names:
        expected = "table1, table2, table3, " + ", ".join(EXPERIMENTS[2:])
        raise LikewiseError(f"--only {text!r}: unknown experiment {', '.join(unknown) or 'list'}; expected {expected}")
    return tuple(name for name in EXPERIMENTS if name in names)


def modules(names: tuple[str, ...]) -> list[Any]:
    """The modules of experiments."""
    return [import_module(f"likewise.paper.{_MODULES.get(name, name)}") for name in names]


def pending(run: PaperRun) -> list[Task]:
    """The tasks not done yet, split by split, since preparing a split may take a minute."""
    tasks = [task for module in modules(run.only) for task in module.tasks(run)]
    return sorted((task for task in tasks if task.key not in run.journal.done), key=lambda task: _rank(run, task))


def _rank(run: PaperRun, task: Task) -> tuple[bool, int]:
    """Times come last, since they use the settings chosen in the tables."""
    return task.key[0] == "times", task.key[2]


def perform(run: PaperRun, tasks: list[Task]) -> Iterator[tuple[Task, Done]]:
    """Perform the tasks; each result is stored before it is yielded."""
    for task in tasks:
        run.loads.append(os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan"))
        with threadpool_limits(1 if run.is_small else None, "blas"):
            done = task.work()
        run.journal.add(done)
        yield task, done
