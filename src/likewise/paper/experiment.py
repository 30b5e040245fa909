"""Set up a run from the arguments of the command line."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from likewise.errors import LikewiseError, MissingExtraError
from likewise.paper.cells import CellJournal
from likewise.paper.datasets import load_dataset
from likewise.paper.methods import default_methods, methods_from
from likewise.paper.protocol import Protocol, ProtocolSettings, TrainingBudget
from likewise.paper.run import PaperRun, experiments_from, header

__all__ = ["prepare"]

SPLITS, QUICK_SPLITS = 5, 2
# Settings of the paper for a data set, and usual ones for text.
_OWN: dict[str, dict[str, Any]] = {"imagenet50": {"n_iter": 5}, "newsgroups20": {"components": 300}}
_QUICK_COMPONENTS = 100  # with more columns, a regression on few rows would interpolate


def prepare(
    dataset: str,
    path: str | os.PathLike[str] | None = None,
    output: str | os.PathLike[str] | None = None,
    *,
    quick: bool = False,
    methods: str | None = None,
    splits: int | None = None,
    resume: bool = False,
    only: str | None = None,
    extractor: str = "llc",
    command: str = "",
    **settings: Any,
) -> PaperRun:
    """A run ready to be performed; `settings` are fields of `ProtocolSettings`, None is the default."""
    _check_matplotlib()
    experiments = experiments_from(only)
    folder = Path(output) if output is not None else Path(f"paper-{Path(dataset).name.removesuffix('.features')}")
    data = load_dataset(dataset, None if path is None else Path(path), folder, extractor)
    chosen = _settings(data.name, quick, {name: value for name, value in settings.items() if value is not None})
    budget = TrainingBudget.quick() if quick else TrainingBudget()
    protocol = Protocol(data, chosen, budget)
    n = protocol.n_train
    names = default_methods(n) if methods is None else methods_from(methods, n)
    number = splits if splits is not None else QUICK_SPLITS if quick else SPLITS
    if number < 1:
        raise LikewiseError(f"--splits {number}: expected 1 or more")
    journal = CellJournal(folder, header(protocol, data), resume)
    if only is not None and "times" in experiments:
        journal.drop("times")  # asked for in order to measure them again
    journal.add_command(command)
    return PaperRun(protocol, names, number, journal, experiments)


def _settings(name: str, quick: bool, given: dict[str, Any]) -> ProtocolSettings:
    own = dict(_OWN.get(name, {}))
    if quick:
        own["components"] = _QUICK_COMPONENTS
    if given.get("components") == 0:
        given["components"] = None
    return replace(ProtocolSettings(quick=quick), **{**own, **given})


def _check_matplotlib() -> None:
    from importlib.util import find_spec

    if find_spec("matplotlib") is None:
        raise MissingExtraError("drawing the figures of the paper", "paper")
