"""Figure 3: SLR-G-m and SLR-C-m against m."""

import warnings
from collections.abc import Iterator
from functools import partial

import numpy as np

from likewise.paper.cells import Cell, Curve, Done
from likewise.paper.figure2 import shown_splits
from likewise.paper.methods import fit
from likewise.paper.run import PaperRun, Task
from likewise.paper.tables import measured
from likewise.utils.reporting.charts import Line, chart
from likewise.utils.reporting.report import Block, Heading, Picture, Text
from likewise.utils.wording import points, side

EXPERIMENT = "figure3"
KINDS = ("SLR-G", "SLR-C")
ROOM = 2 * 10**9
"""Largest size of a Gaussian n × m matrix in bytes: larger m are left out."""


def sizes(n: int, rank: int, width: int, points: int) -> list[int]:
    """m from just above the rank of M to n, in equal ratios, rounded to two digits."""
    least = max(rank, min(width, n // 4)) * 1.2
    grid = np.geomspace(min(least, n / 2), n, points)
    return sorted({*(int(float(f"{m:.2g}")) for m in grid[:-1]), n})


def tasks(run: PaperRun) -> Iterator[Task]:
    n = run.protocol.n_train
    rank = min(run.settings.rank, run.protocol.width)
    for split in range(run.curve_splits):
        for m in sizes(n, rank, run.protocol.width, run.budget.curve_points):
            for kind in KINDS:
                if kind == "SLR-C" or 8 * n * m <= ROOM:
                    name = f"{kind}-{m}"
                    yield Task((EXPERIMENT, name, split), partial(_work, run, name, split))


def _work(run: PaperRun, name: str, number: int) -> Done:
    split = run.protocol.split(number)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the figure shows that a small m interpolates
        found = fit(run.method(name, number).model, split.X, split.y)
    kind, _, m = name.rpartition("-")
    return Done([Cell(EXPERIMENT, kind, number, float(m), measured(found.model, split), {}, found.seconds)])


def section(run: PaperRun) -> list[Block]:
    """The chart, and how close the sketches come to SLR."""
    curves = {kind: run.journal.curve(EXPERIMENT, kind) for kind in KINDS if run.journal.cells(EXPERIMENT, kind)}
    if not curves:
        return []
    lines = [Line(f"{kind}-m", *curve) for kind, curve in curves.items()]
    slr = run.journal.curve("figure2", "SLR")[1]  # on all pairs of the same splits
    whole = float(slr[-1]) if len(slr) else None
    if whole is not None:
        ends = [min(c[0][0] for c in curves.values()), max(c[0][-1] for c in curves.values())]
        lines.append(Line("SLR, all pairs", ends, [whole, whole], style="--", markers=False))
    path = chart(run.folder / "figure3.png", lines, "m", "mAP %", log_x=True)
    caption = f"mAP against m, the size that the data is compressed to. {shown_splits(run, EXPERIMENT)}"
    return [Heading("Figure 3: compression"), Picture(path, caption, 720), Text(_words(run, curves, whole))]


def _words(run: PaperRun, curves: dict[str, Curve], whole: float | None) -> str:
    said = []
    for kind, (places, mean, _) in curves.items():
        gap = "" if whole is None else f", {points(abs(mean[-1] - whole))} points {side(mean[-1] - whole)} SLR"
        said.append(
            f"{kind} goes from {mean[0]:.1f} % at m = {places[0]:,.0f} to {mean[-1]:.1f} % at {places[-1]:,.0f}{gap}"
        )
    rank = min(run.protocol.width, run.protocol.n_train)
    return (
        f"{'; '.join(said)}. A sample smaller than the rank of X, at most {rank:,} here, is interpolated at each step. "
        "Sampling with replacement leaves some rows out even at m = n, so SLR-C ends near SLR but not on it. A "
        "Gaussian sketch clamps all pairs before it mixes them: it saves no time, only sampling does."
    )
