"""Table 3: training time of each method on the first split, at the setting it chose."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from typing import Any

from likewise import baselines
from likewise.paper.cells import Cell, Done
from likewise.paper.markdown import Block, Heading, TableBlock, Text
from likewise.paper.methods import ORDER, at_setting, default_size, fit, method, warm_up
from likewise.paper.published import MINUTES
from likewise.paper.run import PaperRun, Task
from likewise.paper.words import duration
from likewise.reporting.words import short

__all__ = ["section", "tasks"]

EXPERIMENT = "times"
STEPS = "OASIS, step by step"
"""OASIS as published, a compiled loop over rank-one updates; our blocks are exact as well, and faster."""


def rival(name: str) -> str:
    """The method of a row of the table."""
    return "OASIS" if name == STEPS else name


def tasks(run: PaperRun) -> Iterator[Task]:
    """One task per method that is trained."""
    names = [name for name in run.methods if name not in ("Euclid", "Cosine")]
    if "OASIS" in names:
        names.insert(names.index("OASIS") + 1, STEPS)
    for name in names:
        yield Task((EXPERIMENT, name, 0), partial(_work, run, name))


def _work(run: PaperRun, name: str) -> Done:
    """A fit without search, after a warm-up; the load of the machine is recorded as well."""
    split = run.protocol.split(0)
    found = method(rival(name), run.settings, run.budget, run.settings.seed)
    if name == STEPS:
        found.model.set_params(engine="steps")
    warm_up(found, split.X, split.y)
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    fitted = fit(at_setting(found, _setting(run, name)), split.X, split.y)
    cell = Cell(EXPERIMENT, name, 0, "", {}, _setting(run, name), fitted.seconds)
    return Done((EXPERIMENT, name, 0), [cell], {"load": load})


def _setting(run: PaperRun, name: str) -> dict[str, Any]:
    cells = [cell for cell in run.journal.cells("tables", rival(name)) if cell.split == 0]
    return cells[0].setting if cells else {}


# ---------------------------------------------------------------------------------------------------------------------
# The page


def seconds(run: PaperRun, name: str, column: str = "fit_seconds") -> float | None:
    """Training time of a method on the first split."""
    cells = run.journal.cells(EXPERIMENT, name)
    return cells[0].seconds[column] if cells else None


def section(run: PaperRun) -> list[Block]:
    """The table, and its caveats."""
    m = default_size(run.protocol.n_train)
    order = [f"{n}-{m}" if n in ("SLR-G", "SLR-C") else n for n in ORDER]
    order.insert(order.index("OASIS") + 1, STEPS)
    names = run.journal.methods(EXPERIMENT, order)
    if not names:
        return []
    theirs = MINUTES.get(run.data.name, {})
    columns = ["method", "training", "times SLR", "processor time", "search before", "setting"]
    columns += ["paper, minutes", "paper, times SLR"] if theirs else []
    rows = [_row(run, name, theirs) for name in names]
    return [Heading("Table 3: training time"), TableBlock(columns, rows), Text(_caveat(run, names))]


def _row(run: PaperRun, name: str, theirs: dict[str, float]) -> list[str]:
    trained, slr = seconds(run, name) or 0.0, seconds(run, "SLR")
    cell = run.journal.cells(EXPERIMENT, name)[0]
    tuned = hasattr(baselines, rival(name))
    setting = ", ".join(f"{key} = {short(value)}" for key, value in cell.setting.items()) if tuned else ""
    row = [name, duration(trained), _ratio(trained, slr), duration(cell.seconds["fit_cpu_seconds"])]
    row += [_search(run, name, trained) if tuned else "within" if cell.setting else "", setting]
    if theirs:
        row += [f"{theirs[name]:g}", _ratio(theirs[name], theirs["SLR"])] if name in theirs else ["", ""]
    return row


def _search(run: PaperRun, name: str, trained: float) -> str:
    """Time of the first fit beyond training, if it had a setting to choose."""
    cells = [cell for cell in run.journal.cells("tables", name) if cell.split == 0 and cell.setting]
    return duration(max(0.0, cells[0].seconds["fit_seconds"] - trained)) if cells else ""


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
