"""Table 3: training time of each method on the first split, at the setting it chose."""

import os
from collections.abc import Iterator
from functools import partial

from likewise import rivals as baselines
from likewise.paper.cells import Cell, Done
from likewise.paper.methods import at_setting, default_methods, fit, warm_up
from likewise.paper.run import PaperRun, Task
from likewise.utils.reporting.report import Block, Heading, TableBlock, Text
from likewise.utils.wording import duration, short

EXPERIMENT = "times"
# Table 3 as published: minutes on twelve cores of 2.4 GHz.
PUBLISHED: dict[str, dict[str, float]] = {
    "caltech101": {"LMNN": 725.5, "FRML": 766.8, "OASIS": 249.5, "SLR": 3.2},
    "imagenet50": {"LMNN": 521.0, "FRML": 609.3, "OASIS": 614.6, "SLR": 30.0},
}
STEPS = "OASIS, step by step"
"""OASIS as published, a compiled loop over rank-one updates; our blocks are exact as well, and faster."""


def rival(name: str) -> str:
    """The method of a row of the table."""
    return "OASIS" if name == STEPS else name


def tasks(run: PaperRun) -> Iterator[Task]:
    for name in _with_steps(run.methods):
        if name not in ("Euclid", "Cosine"):
            yield Task((EXPERIMENT, name, 0), partial(_work, run, name))


def _with_steps(names: list[str]) -> list[str]:
    """The methods, with both ways to compute OASIS."""
    return [row for name in names for row in ([name, STEPS] if name == "OASIS" else [name])]


def _work(run: PaperRun, name: str) -> Done:
    """A fit without search, after a warm-up; the load of the machine is recorded as well."""
    split = run.protocol.split(0)
    found = run.method(rival(name))
    if name == STEPS:
        found.model.set_params(engine="steps")
    warm_up(found, split.X, split.y)
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    first = _first(run, rival(name))
    setting = {} if first is None else first.setting
    fitted = fit(at_setting(found, setting), split.X, split.y)
    return Done([Cell(EXPERIMENT, name, 0, "", {}, setting, fitted.seconds)], {"load": load})


def _first(run: PaperRun, name: str) -> Cell | None:
    """The cell of the tables on the first split."""
    return next((cell for cell in run.journal.cells("tables", name) if cell.split == 0), None)


def section(run: PaperRun) -> list[Block]:
    names = run.journal.methods(EXPERIMENT, _with_steps(default_methods(run.protocol.n_train)))
    if not names:
        return []
    theirs = PUBLISHED.get(run.data.name, {})
    columns = ["method", "training", "times SLR", "processor time", "search before", "setting"]
    columns += ["paper, minutes", "paper, times SLR"] if theirs else []
    rows = [_row(run, name, theirs) for name in names]
    return [Heading("Table 3: training time"), TableBlock(columns, rows), Text(_caveat(run, names))]


def _row(run: PaperRun, name: str, theirs: dict[str, float]) -> list[str]:
    cell = run.journal.cells(EXPERIMENT, name)[0]
    trained, slr = cell.seconds["fit_seconds"], run.journal.seconds(EXPERIMENT, "SLR")
    tuned = hasattr(baselines, rival(name))
    setting = ", ".join(f"{key} = {short(value)}" for key, value in cell.setting.items()) if tuned else ""
    row = [name, duration(trained), _ratio(trained, slr), duration(cell.seconds["fit_cpu_seconds"])]
    searched = "" if tuned or not cell.setting else "within"
    if tuned and (first := _first(run, name)) is not None and first.setting:
        searched = duration(max(0.0, first.seconds["fit_seconds"] - trained))  # the first fit, beyond training
    row += [searched, setting]
    if theirs:
        row += [f"{theirs[name]:g}", _ratio(theirs[name], theirs["SLR"])] if name in theirs else ["", ""]
    return row


def _caveat(run: PaperRun, names: list[str]) -> str:
    loads = [run.journal.extra(EXPERIMENT, name).get("load") for name in names]
    known = [load for load in loads if load is not None]
    cores = os.cpu_count() or 1
    busy = max(known) if known else float("nan")
    said = (
        "One fit per method on the first split, one after the other in this run, at the setting chosen on the training "
        "rows; compilation is not timed. The search of a rival is listed separately; our methods choose their settings "
        "within their training time. "
    )
    if STEPS in names:
        said += (
            "OASIS is timed twice: as published, one compiled update after the other, and in blocks of triplets, which "
            "give the same result by matrix products. "
        )
    if known and busy > 1.5 * cores:
        said += (
            f"The machine was busy with other work (load up to {busy:.1f} on {cores} cores): take the ratios with care."
        )
    elif known:
        said += f"The load of the machine stayed at or below {busy:.1f} on {cores} cores."
    return said


def _ratio(value: float, base: float | None) -> str:
    return "" if not base else f"{value / base:.3g}"
