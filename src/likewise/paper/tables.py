"""Tables 1 and 2: mean average precision of every method over the splits."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from likewise.evaluate import evaluate
from likewise.paper.cells import Cell, Done
from likewise.paper.methods import IN_PAPER, default_methods, fit
from likewise.paper.run import PaperRun, Task
from likewise.utils.reporting.pictures import nearest
from likewise.utils.reporting.report import Block, Heading, TableBlock, Text
from likewise.utils.wording import listed, mean_and_deviation, plural, points

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
    found = fit(run.method(name, number).model, split.X, split.y)
    cell = Cell(EXPERIMENT, name, number, "", measured(found.model, split), found.setting, found.seconds)
    if number:
        return Done([cell])
    Q, G = found.model.transform_query(split.Q), found.model.transform(split.Q)
    first = nearest(Q, G, min(SHOWN, len(Q) - 1), own=np.arange(len(Q)))  # as numbers of test rows
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
        found = [list(run.journal.scores(experiment, name, measure).values()) for measure in measures]
        rows.append([name, *map(mean_and_deviation, found), str(len(found[0]))])
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
    said = "the order of the paper holds" if ranked == there else f"the paper has {' < '.join(there)}"
    yield f"Of {plural(len(there), 'method')} that the paper compares, from the lowest: {' < '.join(ranked)}; {said}."
