"""Choices that the paper leaves open, changed one at a time: scaling, PCA, gallery, ridge, rank, start."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from likewise.paper.cells import Cell, Done
from likewise.paper.methods import fit
from likewise.paper.run import PaperRun, Task
from likewise.paper.tables import figures
from likewise.utils.reporting.report import Block, Heading, TableBlock, Text
from likewise.utils.wording import mean_and_deviation

EXPERIMENT = "choices"
METHODS = ("Euclid", "SLR-Fixed", "SLR")
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
    unscaled = OpenChoice("rows not scaled to length 1", METHODS, {"normalise": not run.settings.normalise})
    found = [OpenChoice("as in the tables", METHODS), unscaled]
    d, wanted = run.data.X.shape[1], run.settings.components
    if wanted is not None and d > wanted:
        found.append(OpenChoice("PCA learned from all rows", METHODS, {"pca_on": "all"}))
        if d <= min(WIDEST, run.protocol.n_train):
            found.append(OpenChoice(f"no PCA, {d:,} columns", METHODS, {"components": None}))
    found.append(OpenChoice("test rows rank the training rows", METHODS, gallery="train"))
    k = len(np.unique(run.data.y))
    tried = {k - 1, k, 2 * k, 4 * k, 50, 200} - {run.settings.rank}
    ranks = [r for r in sorted(tried) if 2 <= r <= run.protocol.width]
    found += [OpenChoice(f"ridge {a:g}", ("SLR-Fixed", "SLR"), model={"alpha": a}) for a in (0.01, 0.1, 1.0)]
    found += [OpenChoice(f"rank {r}", ("SLR-Fixed", "SLR"), model={"rank": r}) for r in ranks]
    found.append(OpenChoice("start from the fixed target", model={"init": "fixed"}))
    return found


def tasks(run: PaperRun) -> Iterator[Task]:
    for split in range(run.curve_splits):
        for choice in choices(run):
            for name in choice.methods:
                yield Task((EXPERIMENT, f"{name}, {choice.name}", split), partial(_work, run, choice, name, split))


def _work(run: PaperRun, choice: OpenChoice, name: str, number: int) -> Done:
    split = run.protocol.split(number, **choice.protocol)
    model = run.method(name, number).model.set_params(**choice.model)
    found = fit(model, split.X, split.y)
    G, y_g = (split.Q, None) if choice.gallery == "test" else (split.X, split.y)
    values = figures(model.transform_query(split.Q), model.transform(G), split.y_q, y_g)
    return Done([Cell(EXPERIMENT, name, number, choice.name, values, {}, found.seconds)])


def section(run: PaperRun) -> list[Block]:
    """A table with one row per choice and one column per method."""
    scores: dict[str, dict[str, list[float]]] = {}
    for cell in run.journal.cells(EXPERIMENT):
        scores.setdefault(str(cell.at), {}).setdefault(cell.method, []).append(100 * cell.values["mAP"])
    shown = [(choice.name, scores[choice.name]) for choice in choices(run) if choice.name in scores]
    if not shown:
        return []
    rows = [[name, *(mean_and_deviation(of[m]) if m in of else "" for m in METHODS)] for name, of in shown]
    table = TableBlock(["changed", *(f"{name}, mAP %" for name in METHODS)], rows)
    return [Heading("What the paper leaves open"), Text(_LEAD), table]


_LEAD = (
    "One choice is changed at a time, everything else is as in the tables. The paper does not say whether rows are "
    "scaled, or whether PCA saw the test rows; it uses rank 100 and no ridge. Ranking the training rows for each test "
    "row is the protocol of the authors of FRML. A ridge is in units of the mean eigenvalue of XᵀX."
)
