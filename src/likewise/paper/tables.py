"""Tables 1 and 2: mean average precision of every method over the splits."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from likewise.metrics import evaluate
from likewise.paper.cells import Cell, Done
from likewise.paper.markdown import Block, Heading, TableBlock, Text
from likewise.paper.methods import IN_PAPER, ORDER, default_size, fit, method
from likewise.paper.protocol import PaperSplit
from likewise.paper.published import MEAN_AVERAGE_PRECISION
from likewise.paper.run import PaperRun, Task
from likewise.paper.words import listed, mean_and_deviation, plural, points
from likewise.reporting.strips import nearest

__all__ = ["measured", "scores", "section", "tasks"]

EXPERIMENT = "tables"
SHOWN = 3  # results per query in Figure 1


def tasks(run: PaperRun) -> Iterator[Task]:
    """One task per method and split."""
    for split in range(run.n_splits):
        for name in run.methods:
            yield Task((EXPERIMENT, name, split), partial(_work, run, name, split))


def _work(run: PaperRun, name: str, number: int) -> Done:
    split = run.protocol.split(number)
    found = fit(method(name, run.settings, run.budget, run.settings.seed + number).model, split.X, split.y)
    cell = Cell(EXPERIMENT, name, number, "", measured(found.model, split), found.setting, found.seconds)
    return Done((EXPERIMENT, name, number), [cell], {} if number else {"found": _first(found.model, split)})


def measured(model: Any, split: PaperSplit) -> dict[str, float]:
    """Metrics of the rankings of all other test rows by each test row."""
    return figures(model.transform_query(split.Q), model.transform(split.Q), split.y_q)


def figures(Q: np.ndarray, G: np.ndarray, y_q: np.ndarray, y_g: np.ndarray | None = None) -> dict[str, float]:
    """The metrics of the tables."""
    summary = evaluate(Q, G, y_q, y_g).summary()
    return {name: float(summary[name]) for name in ("mAP", "macro_mAP", "P@1", "P@10", "MAP@R", "nDCG")}


def _first(model: Any, split: PaperSplit) -> list[list[int]]:
    """The first results of each test row, as numbers of test rows."""
    Q, G = model.transform_query(split.Q), model.transform(split.Q)
    return nearest(Q, G, min(SHOWN, len(Q) - 1), own=np.arange(len(Q))).tolist()


# ---------------------------------------------------------------------------------------------------------------------
# The page


def order_of(run: PaperRun) -> list[str]:
    """The methods with results, in the order of the tables."""
    m = default_size(run.protocol.n_train)
    return run.journal.methods(EXPERIMENT, [f"{n}-{m}" if n in ("SLR-G", "SLR-C") else n for n in ORDER])


def scores(run: PaperRun, name: str, measure: str = "mAP") -> dict[int, float]:
    """A metric of a method by split, in per cent."""
    return {cell.split: 100 * cell.values[measure] for cell in run.journal.cells(EXPERIMENT, name)}


def section(run: PaperRun) -> list[Block]:
    """The table and its reading."""
    names = order_of(run)
    if not names:
        return []
    published = MEAN_AVERAGE_PRECISION.get(run.data.name, {})
    rows = [_row(run, name, published) for name in names]
    best = int(np.argmax([np.mean(list(scores(run, name).values())) for name in names]))
    columns = [
        "method",
        "mAP %",
        "macro mAP %",
        "P@1 %",
        "P@10 %",
        "splits",
        *(["mAP % in the paper"] if published else []),
    ]
    number = {"caltech101": "Table 1", "imagenet50": "Table 2"}.get(run.data.name, "Tables 1 and 2")
    return [
        Heading(f"{number}: mean average precision"),
        TableBlock(columns, rows, best),
        *map(Text, _findings(run, names)),
    ]


def _row(run: PaperRun, name: str, published: dict[str, tuple[float, float]]) -> list[str]:
    shown = [
        mean_and_deviation(list(scores(run, name, measure).values())) for measure in ("mAP", "macro_mAP", "P@1", "P@10")
    ]
    theirs = [f"{published[name][0]} ± {published[name][1]}" if name in published else ""] if published else []
    return [name, *shown, str(len(scores(run, name))), *theirs]


def difference(run: PaperRun, name: str, other: str) -> float:
    """Mean difference of two methods in points of mAP, on the splits of both."""
    ours, theirs = scores(run, name), scores(run, other)
    common = sorted(set(ours) & set(theirs))
    return float(np.mean([ours[split] - theirs[split] for split in common])) if common else float("nan")


def _findings(run: PaperRun, names: list[str]) -> Iterator[str]:
    """Which method is better than which, and by how much."""
    yield (
        "Mean and standard deviation over the splits. Every test row is a query that ranks all other test rows; macro "
        "mAP is the mean over classes, so that a rare class counts as much as a common one."
    )
    if "SLR" in names:
        gaps = {name: difference(run, "SLR", name) for name in names if name != "SLR"}
        above = [f"{name} by {points(gap)}" for name, gap in gaps.items() if gap >= 0]
        below = [f"{name} by {points(-gap)}" for name, gap in gaps.items() if gap < 0]
        if above:
            yield f"SLR is above {listed(above)} points of mAP, on the splits they share."
        if below:
            yield f"SLR is below {listed(below)} points."
    if "Euclid" in names:
        yield _over_euclid(run, names)
    yield from _order_of_the_paper(run, names)


def _over_euclid(run: PaperRun, names: list[str]) -> str:
    worse = [name for name in names if name != "Euclid" and difference(run, name, "Euclid") <= 0]
    if not worse:
        return "Every learned method is above Euclid, as in the paper."
    return f"Not above Euclid: {listed(worse)}."


def _order_of_the_paper(run: PaperRun, names: list[str]) -> Iterator[str]:
    there = [name for name in IN_PAPER if name in names]
    if len(there) < 3:
        return
    ranked = sorted(there, key=lambda name: np.mean(list(scores(run, name).values())))
    said = "the order of the paper holds" if ranked == there else f"the paper has {' < '.join(there)}"
    yield f"Of {plural(len(there), 'method')} that the paper compares, from the lowest: {' < '.join(ranked)}; {said}."
