"""A run of the experiments: set up, performed task by task with each result stored at once, and reported."""

import hashlib
import os
import platform
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from likewise.errors import LikewiseError, MissingExtraError
from likewise.paper.cells import CellJournal, Done, Key
from likewise.paper.datasets import Dataset, load_dataset
from likewise.paper.methods import default_methods, make, methods_from
from likewise.paper.protocol import Protocol, ProtocolSettings, TrainingBudget, describe
from likewise.utils.arrays import dense, evenly_spaced
from likewise.utils.files import StrPath, atomic_write
from likewise.utils.reporting.report import Block, Code, Facts, Heading, Text, to_html, to_markdown, versions
from likewise.utils.wording import plural

# In the order of the report: the module of each experiment, and the prefix of its functions tasks(run), section(run).
_MODULES = {
    "tables": ("tables", ""), "times": ("tables", "times_"),
    "figure1": ("figures", "figure1_"), "figure2": ("figures", "figure2_"), "figure3": ("figures", "figure3_"),
    "theorem": ("theorem", ""), "corollary": ("theorem", "corollary_"), "choices": ("tables", "choices_"),
}  # fmt: skip
EXPERIMENTS = tuple(_MODULES)
_ALIASES = {"table1": "tables", "table2": "tables", "table3": "times", "lemma2": "theorem", "theorem1": "theorem",
            "corollary1": "corollary"}  # fmt: skip
SPLITS, QUICK_SPLITS = 5, 2
# Settings of the paper for a data set, and usual ones for text.
_DATA_SETTINGS: dict[str, dict[str, Any]] = {"imagenet50": {"n_iter": 5}, "newsgroups20": {"components": 300}}
_QUICK_COMPONENTS = 100  # with more columns, a regression on few rows would interpolate


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

    def __post_init__(self) -> None:
        self.data, self.settings, self.budget = self.protocol.data, self.protocol.settings, self.protocol.budget
        self.folder = self.journal.path.parent
        self.curve_splits = min(self.n_splits, self.budget.curve_splits)

    def model(self, name: str, split: int = 0) -> Any:
        """An unfitted model of a method, with its seed on a split."""
        return make(name, self.settings, self.budget, self.settings.seed + split)


def prepare(
    dataset: str,
    path: StrPath | None = None,
    output: StrPath | None = None,
    *,
    quick: bool = False,
    methods: str | None = None,
    splits: int | None = None,
    resume: bool = False,
    only: str | None = None,
    command: str = "",
    **settings: Any,
) -> PaperRun:
    """A run ready to be performed; `settings` are fields of `ProtocolSettings`, None is the default."""
    if find_spec("matplotlib") is None:
        raise MissingExtraError("drawing the figures of the paper", "paper")
    experiments = _experiments_from(only)
    folder = Path(output) if output is not None else Path(f"paper-{Path(dataset).name.removesuffix('.features')}")
    data = load_dataset(dataset, None if path is None else Path(path))
    fields = {**_DATA_SETTINGS.get(data.name, {}), **({"components": _QUICK_COMPONENTS} if quick else {})}
    fields |= {key: value for key, value in settings.items() if value is not None}
    if fields.get("components") == 0:
        fields["components"] = None
    budget = TrainingBudget.quick() if quick else TrainingBudget()
    protocol = Protocol(data, ProtocolSettings(quick=quick, **fields), budget)
    n = protocol.n_train
    names = default_methods(n) if methods is None else methods_from(methods, n)
    number = splits if splits is not None else QUICK_SPLITS if quick else SPLITS
    if number < 1:
        raise LikewiseError(f"--splits {number}: expected 1 or more")
    journal = CellJournal(folder, _header(protocol, data), resume)
    if only is not None and "times" in experiments:
        journal.drop("times")  # named in order to measure them again
    journal.add_command(command)
    return PaperRun(protocol, names, number, journal, experiments)


def _experiments_from(text: str | None) -> tuple[str, ...]:
    """Experiments from a comma-separated list, in the order of the report; all of them for None."""
    if text is None:
        return EXPERIMENTS
    names = {_ALIASES.get(part.strip().lower(), part.strip().lower()) for part in text.split(",") if part.strip()}
    unknown = sorted(names - set(EXPERIMENTS))
    if unknown or not names:
        expected = "table1, table2, table3, " + ", ".join(EXPERIMENTS[2:])
        raise LikewiseError(f"--only {text!r}: unknown experiment {', '.join(unknown) or 'list'}; expected {expected}")
    return tuple(name for name in EXPERIMENTS if name in names)


def _header(protocol: Protocol, data: Dataset) -> dict[str, Any]:
    """What decides the results, to be compared when a run is resumed."""
    budget = {name: value for name, value in vars(protocol.budget).items() if name != "curve_splits"}
    # A checksum of the labels and of up to 200 evenly spaced rows.
    rows = dense(data.X[evenly_spaced(len(data.y), 200)])
    digest = hashlib.sha256(np.ascontiguousarray(data.y, dtype=np.int64).tobytes())
    digest.update(np.ascontiguousarray(rows, dtype=np.float64).tobytes())
    facts = {"dataset": data.name, "shape": list(data.X.shape), "data": digest.hexdigest()[:16]}
    return {**facts, **vars(protocol.settings), "budget": budget}


def pending(run: PaperRun) -> list[Task]:
    """The tasks not done yet, split by split, since preparing a split may take a minute.

    Times come last, since they use the settings chosen in the tables. Figure 1 has no tasks: the tables store the
    first results of the first split.
    """
    tasks: list[Task] = []
    for module, prefix in (_MODULES[name] for name in run.only if name != "figure1"):
        tasks += getattr(import_module(f"likewise.paper.{module}"), f"{prefix}tasks")(run)
    left = [task for task in tasks if task.key not in run.journal.done]
    return sorted(left, key=lambda task: (task.key[0] == "times", task.key[2]))


def perform(run: PaperRun, tasks: list[Task]) -> Iterator[tuple[Task, Done]]:
    """Perform the tasks; each result is stored before it is yielded."""
    for task in tasks:
        run.loads.append(os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan"))
        with threadpool_limits(1 if run.protocol.is_small else None, "blas"):
            done = task.work()
        run.journal.add(task.key, done)
        yield task, done


def write_report(run: PaperRun) -> dict[str, Path]:
    """Write all results of the journal to `report.md` and `report.html`, with pictures; the files by name."""
    blocks: list[Block] = []
    for module, prefix in _MODULES.values():
        blocks += getattr(import_module(f"likewise.paper.{module}"), f"{prefix}section")(run)
    blocks += [Heading("Protocol"), *map(Text, describe(run.protocol))]
    blocks += [Code("\n".join(run.journal.commands)), Facts(_facts(run))]
    n, d = run.data.X.shape
    features = f" ({run.data.facts['features']})" if "features" in run.data.facts else ""
    lead = (
        f"{n:,} rows of {d:,} features{features} in {plural(len(np.unique(run.data.y)), 'class')}, "
        f"{run.protocol.n_train:,} for training and {n - run.protocol.n_train:,} for testing in random 70/30 splits."
    )
    if run.settings.quick:
        lead += " A quick run: few rows and short training; its figures are not those of a full run."
    title = f"The experiments of the paper on {run.data.name}"
    for name, text in (("report.md", to_markdown), ("report.html", to_html)):
        atomic_write(run.folder / name, text(title, lead, blocks).encode("utf-8", "backslashreplace"))
    pictures = sorted(path.name for path in run.folder.glob("*.png"))
    return {name: run.folder / name for name in ("report.md", "report.html", "cells.csv", *pictures)}


def _facts(run: PaperRun) -> dict[str, str]:
    facts = versions("numpy", "scipy", "scikit-learn", "numba", "matplotlib")
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    processor = names[0] if names else platform.machine()
    facts["machine"] = f"{processor}, {plural(os.cpu_count() or 1, 'core')}, {platform.system()}"
    loads = [load for load in run.loads if load == load]
    if loads:
        facts["load while running"] = f"{min(loads):.1f} to {max(loads):.1f}"
    return facts
