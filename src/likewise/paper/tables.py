"""Tables 1 to 3 of the paper, and a table of what it leaves open: mAP of every method, training times, choices."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from likewise import rivals
from likewise.evaluate import evaluate
from likewise.paper.cells import Cell, Done
from likewise.paper.methods import IN_PAPER, at_setting, default_methods, warm_up
from likewise.paper.run import PaperRun, Task
from likewise.rivals.compare.methods import timed_fit
from likewise.utils.reporting.pictures import nearest
from likewise.utils.reporting.report import Block, Heading, TableBlock, Text
from likewise.utils.wording import duration, listed, mean_and_deviation, plural, points, short

# -- Tables 1 and 2: mean average precision of every method over the splits -------------------------------------------

EXPERIMENT = "tables"
SHOWN = 3  # results per query in Figure 1
# Tables 1 and 2 as published: mAP in per cent and its standard deviation over five splits.
PUBLISHED: dict[str, dict[str, tuple[float, float]]] = {
    "caltech101": {
        "Euclid": (27.7, 0.7), "LMNN": (43.7, 0.9), "FRML": (46.6, 0.9), "OASIS": (48.7, 0.8), "SLR": (55.3, 0.9),
    },
    "imagenet50": {
        "Euclid": (6.8, 0.1), "LMNN": (7.6, 0.1), "FRML": (8.2, 0.1), "OASIS": (11.1, 0.1), "SLR": (14.2, 0.1),
    },
}  # fmt: skip


def tasks(run: PaperRun) -> Iterator[Task]:
    for split in range(run.n_splits):
        for name in run.methods:
            yield Task((EXPERIMENT, name, split), partial(_work, run, name, split))


def _work(run: PaperRun, name: str, number: int) -> Done:
    split = run.protocol.split(number)
    fitted = timed_fit(run.model(name, number), split.X, split.y)
    cell = Cell(EXPERIMENT, name, number, "", measured(fitted.model, split), fitted.setting, fitted.seconds)
    if number:
        return Done([cell])
    Q, G = fitted.model.transform_query(split.Q), fitted.model.transform(split.Q)
    first = nearest(Q, G, min(SHOWN, len(Q) - 1), exclude=np.arange(len(Q)))  # as numbers of test rows
    return Done([cell], {"found": first.tolist()})


def measured(model: Any, split: Any) -> dict[str, float]:
    """Metrics of the rankings of all other test rows by each test row."""
    return figures(model.transform_query(split.Q), model.transform(split.Q), split.y_q)


def figures(Q: np.ndarray, G: np.ndarray, y_q: np.ndarray, y_g: np.ndarray | None = None) -> dict[str, float]:
    summary = evaluate(Q, G, y_q, y_g).summary()
    return {name: float(summary[name]) for name in ("mAP", "macro_mAP", "P@1", "P@10", "MAP@R", "nDCG")}


def order_of(run: PaperRun) -> list[str]:
    """The methods with results, in the order of the tables."""
    return run.journal.methods(EXPERIMENT, default_methods(run.protocol.n_train))


def section(run: PaperRun) -> list[Block]:
    names, theirs = order_of(run), PUBLISHED.get(run.data.name, {})
    if not names:
        return []
    columns, rows, best = score_table(run, EXPERIMENT, names, ("mAP", "macro_mAP", "P@1", "P@10"))
    if theirs:
        columns.append("mAP % in the paper")
        for name, row in zip(names, rows, strict=True):
            row.append("{} ± {}".format(*theirs[name]) if name in theirs else "")
    number = {"caltech101": "Table 1", "imagenet50": "Table 2"}.get(run.data.name, "Tables 1 and 2")
    title = Heading(f"{number}: mean average precision")
    return [title, TableBlock(columns, rows, best), *map(Text, _findings(run, names))]


def score_table(
    run: PaperRun, experiment: str, names: list[str], measures: Sequence[str]
) -> tuple[list[str], list[list[str]], int]:
    """Columns and rows of metrics by method with the number of splits, and the row with the best mAP."""
    rows = []
    for name in names:
        values = [list(run.journal.scores(experiment, name, measure).values()) for measure in measures]
        rows.append([name, *map(mean_and_deviation, values), str(len(values[0]))])
    columns = ["method", *(f"{measure.replace('_', ' ')} %" for measure in measures), "splits"]
    return columns, rows, int(np.argmax([_mean(run, name, experiment) for name in names]))


def _mean(run: PaperRun, name: str, experiment: str = EXPERIMENT) -> float:
    return float(np.mean(list(run.journal.scores(experiment, name).values())))


def _difference(run: PaperRun, name: str, other: str) -> float:
    """Mean difference of two methods in points of mAP, on the splits of both."""
    ours, theirs = run.journal.scores(EXPERIMENT, name), run.journal.scores(EXPERIMENT, other)
    common = ours.keys() & theirs.keys()
    return float(np.mean([ours[split] - theirs[split] for split in sorted(common)])) if common else float("nan")


def _findings(run: PaperRun, names: list[str]) -> Iterator[str]:
    """Which method is better than which, and by how much."""
    yield (
        "Mean and standard deviation over the splits. Every test row is a query that ranks all other test rows; macro "
        "mAP is the mean over classes, so that a rare class counts as much as a common one."
    )
    if "SLR" in names:
        gaps = {name: _difference(run, "SLR", name) for name in names if name != "SLR"}
        above = [f"{name} by {points(gap)}" for name, gap in gaps.items() if gap >= 0]
        below = [f"{name} by {points(-gap)}" for name, gap in gaps.items() if gap < 0]
        if above:
            yield f"SLR is above {listed(above)} points of mAP, on the splits they share."
        if below:
            yield f"SLR is below {listed(below)} points."
    if "Euclid" in names:
        worse = [name for name in names if name != "Euclid" and _difference(run, name, "Euclid") <= 0]
        yield (
            f"Not above Euclid: {listed(worse)}." if worse else "Every learned method is above Euclid, as in the paper."
        )
    yield from _order_of_the_paper(run, names)


def _order_of_the_paper(run: PaperRun, names: list[str]) -> Iterator[str]:
    there = [name for name in IN_PAPER if name in names]
    if len(there) < 3:
        return
    ranked = sorted(there, key=lambda name: _mean(run, name))
    text = "the order of the paper holds" if ranked == there else f"the paper has {' < '.join(there)}"
    yield f"Of {plural(len(there), 'method')} that the paper compares, from the lowest: {' < '.join(ranked)}; {text}."


# -- Table 3: training time of each method on the first split, at the setting it chose --------------------------------

TIMES = "times"
# Table 3 as published: minutes on twelve cores of 2.4 GHz.
PUBLISHED_MINUTES: dict[str, dict[str, float]] = {
    "caltech101": {"LMNN": 725.5, "FRML": 766.8, "OASIS": 249.5, "SLR": 3.2},
    "imagenet50": {"LMNN": 521.0, "FRML": 609.3, "OASIS": 614.6, "SLR": 30.0},
}
STEPS = "OASIS, step by step"
"""OASIS as published, a compiled loop over rank-one updates; our blocks are exact as well, and faster."""


def times_tasks(run: PaperRun) -> Iterator[Task]:
    for name in _with_steps(run.methods):
        if name not in ("Euclid", "Cosine"):
            yield Task((TIMES, name, 0), partial(_times_work, run, name))


def _with_steps(names: list[str]) -> list[str]:
    """The methods, with both ways to compute OASIS."""
    return [row for name in names for row in ([name, STEPS] if name == "OASIS" else [name])]


def _rival(name: str) -> str:
    """The method of a row of the table."""
    return "OASIS" if name == STEPS else name


def _times_work(run: PaperRun, name: str) -> Done:
    """A fit without search, after a warm-up; the load of the machine is recorded as well."""
    split = run.protocol.split(0)
    model = run.model(_rival(name))
    if name == STEPS:
        model.set_params(engine="steps")
    warm_up(_rival(name), model, split.X, split.y)
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    first = _first(run, _rival(name))
    setting = {} if first is None else first.setting
    fitted = timed_fit(at_setting(_rival(name), model, setting), split.X, split.y)
    return Done([Cell(TIMES, name, 0, "", {}, setting, fitted.seconds)], {"load": load})


def _first(run: PaperRun, name: str) -> Cell | None:
    """The cell of the tables on the first split."""
    return next((cell for cell in run.journal.cells("tables", name) if cell.split == 0), None)


def times_section(run: PaperRun) -> list[Block]:
    names = run.journal.methods(TIMES, _with_steps(default_methods(run.protocol.n_train)))
    if not names:
        return []
    theirs = PUBLISHED_MINUTES.get(run.data.name, {})
    columns = ["method", "training", "times SLR", "processor time", "search before", "setting"]
    columns += ["paper, minutes", "paper, times SLR"] if theirs else []
    rows = [_times_row(run, name, theirs) for name in names]
    return [Heading("Table 3: training time"), TableBlock(columns, rows), Text(_caveat(run, names))]


def _times_row(run: PaperRun, name: str, theirs: dict[str, float]) -> list[str]:
    cell = run.journal.cells(TIMES, name)[0]
    trained, slr = cell.seconds["fit_seconds"], run.journal.seconds(TIMES, "SLR")
    tuned = hasattr(rivals, _rival(name))
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
    loads = [run.journal.extra(TIMES, name).get("load") for name in names]
    measured_loads = [load for load in loads if load is not None]
    cores, busy = os.cpu_count() or 1, max(measured_loads, default=0.0)
    text = (
        "One fit per method on the first split, one after the other in this run, at the setting chosen on the training "
        "rows; compilation is not timed. The search of a rival is listed separately; our methods choose their settings "
        "within their training time. "
    )
    if STEPS in names:
        text += (
            "OASIS is timed twice: as published, one compiled update after the other, and in blocks of triplets, which "
            "give the same result by matrix products. "
        )
    if busy > 1.5 * cores:
        text += (
            f"The machine was busy with other work (load up to {busy:.1f} on {cores} cores): take the ratios with care."
        )
    elif measured_loads:
        text += f"The load of the machine stayed at or below {busy:.1f} on {cores} cores."
    return text


def _ratio(value: float, base: float | None) -> str:
    return "" if not base else f"{value / base:.3g}"


# -- What the paper leaves open, changed one at a time: scaling, PCA, gallery, ridge, rank, start ---------------------

CHOICES = "choices"
CHANGED = ("Euclid", "SLR-Fixed", "SLR")
WIDEST = 5000  # columns; "no PCA" is not tried above


@dataclass(frozen=True)
class OpenChoice:
    """Settings of the protocol, parameters of the model or a gallery that differ from those of the tables."""

    name: str
    methods: tuple[str, ...] = ("SLR",)
    protocol: dict[str, Any] = field(default_factory=dict)
    model: dict[str, Any] = field(default_factory=dict)
    gallery: str = "test"


def choices(run: PaperRun) -> list[OpenChoice]:
    """The choices that apply to this data set, first that of the tables."""
    unscaled = OpenChoice("rows not scaled to length 1", CHANGED, {"normalize": not run.settings.normalize})
    options = [OpenChoice("as in the tables", CHANGED), unscaled]
    d, wanted = run.data.X.shape[1], run.settings.components
    if wanted is not None and d > wanted:
        options.append(OpenChoice("PCA learned from all rows", CHANGED, {"pca_on": "all"}))
        if d <= min(WIDEST, run.protocol.n_train):
            options.append(OpenChoice(f"no PCA, {d:,} columns", CHANGED, {"components": None}))
    options.append(OpenChoice("test rows rank the training rows", CHANGED, gallery="train"))
    k = len(np.unique(run.data.y))
    tried = {k - 1, k, 2 * k, 4 * k, 50, 200} - {run.settings.rank}
    ranks = [r for r in sorted(tried) if 2 <= r <= run.protocol.width]
    options += [OpenChoice(f"ridge {a:g}", ("SLR-Fixed", "SLR"), model={"alpha": a}) for a in (0.01, 0.1, 1.0)]
    options += [OpenChoice(f"rank {r}", ("SLR-Fixed", "SLR"), model={"rank": r}) for r in ranks]
    options.append(OpenChoice("start from the fixed target", model={"init": "fixed"}))
    return options


def choices_tasks(run: PaperRun) -> Iterator[Task]:
    for split in range(run.curve_splits):
        for choice in choices(run):
            for name in choice.methods:
                yield Task((CHOICES, f"{name}, {choice.name}", split), partial(_choices_work, run, choice, name, split))


def _choices_work(run: PaperRun, choice: OpenChoice, name: str, number: int) -> Done:
    split = run.protocol.split(number, **choice.protocol)
    model = run.model(name, number).set_params(**choice.model)
    fitted = timed_fit(model, split.X, split.y)
    G, y_g = (split.Q, None) if choice.gallery == "test" else (split.X, split.y)
    values = figures(model.transform_query(split.Q), model.transform(G), split.y_q, y_g)
    return Done([Cell(CHOICES, name, number, choice.name, values, {}, fitted.seconds)])


def choices_section(run: PaperRun) -> list[Block]:
    """A table with one row per choice and one column per method."""
    scores: dict[str, dict[str, list[float]]] = {}
    for cell in run.journal.cells(CHOICES):
        scores.setdefault(str(cell.at), {}).setdefault(cell.method, []).append(100 * cell.values["mAP"])
    shown = [(choice.name, scores[choice.name]) for choice in choices(run) if choice.name in scores]
    if not shown:
        return []
    rows = [[name, *(mean_and_deviation(of[m]) if m in of else "" for m in CHANGED)] for name, of in shown]
    table = TableBlock(["changed", *(f"{name}, mAP %" for name in CHANGED)], rows)
    return [Heading("What the paper leaves open"), Text(_CHOICES_LEAD), table]


_CHOICES_LEAD = (
    "One choice is changed at a time, everything else is as in the tables. The paper does not say whether rows are "
    "scaled, or whether PCA saw the test rows; it uses rank 100 and no ridge. Ranking the training rows for each test "
    "row is the protocol of the authors of FRML. A ridge is in units of the mean eigenvalue of XᵀX."
)
