"""Figure 3: SLR-G-m and SLR-C-m against m."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import partial

import numpy as np

from likewise.paper.cells import Cell, Done
from likewise.paper.figure2 import curve as curve_of_figure2
from likewise.paper.markdown import Block, Heading, Picture, Text
from likewise.paper.methods import fit, method
from likewise.paper.plots import Line, chart
from likewise.paper.run import PaperRun, Task
from likewise.paper.tables import measured
from likewise.paper.words import points, side

__all__ = ["section", "sizes", "tasks"]

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
    """One task per kind, size and split."""
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
        found = fit(method(name, run.settings, run.budget, run.settings.seed + number).model, split.X, split.y)
    kind, _, m = name.rpartition("-")
    cell = Cell(EXPERIMENT, kind, number, float(m), measured(found.model, split), {}, found.seconds)
    return Done((EXPERIMENT, name, number), [cell])


# ---------------------------------------------------------------------------------------------------------------------
# The page


def curve(run: PaperRun, kind: str) -> tuple[list[float], np.ndarray, np.ndarray]:
    """Sizes, and mean and standard deviation of mAP in per cent at each."""
    cells = run.journal.cells(EXPERIMENT, kind)
    by_size: dict[float, list[float]] = {}
    for cell in cells:
        by_size.setdefault(float(cell.at), []).append(100 * cell.values["mAP"])
    places = sorted(by_size)
    spread = [float(np.std(by_size[m], ddof=1)) if len(by_size[m]) > 1 else 0.0 for m in places]
    return places, np.array([np.mean(by_size[m]) for m in places]), np.array(spread)


def section(run: PaperRun) -> list[Block]:
    """The chart, and how close the sketches come to SLR."""
    curves = {kind: curve(run, kind) for kind in KINDS if run.journal.cells(EXPERIMENT, kind)}
    if not curves:
        return []
    whole = _plain(run)
    lines = [
        Line(f"{kind}-m", places, mean.tolist(), spread.tolist()) for kind, (places, mean, spread) in curves.items()
    ]
    if whole is not None:
        ends = [min(c[0][0] for c in curves.values()), max(c[0][-1] for c in curves.values())]
        lines.append(Line("SLR, all pairs", ends, [whole, whole], style="--", markers=False))
    path = chart(run.folder / "figure3.png", lines, "m", "mAP %", log_x=True)
    n = len({cell.split for cell in run.journal.cells(EXPERIMENT)})
    drawn = f"Mean of {n} splits; bands are one standard deviation." if n > 1 else "The first split."
    caption = f"mAP against m, the size that the data is compressed to. {drawn}"
    return [Heading("Figure 3: compression"), Picture(path, caption, 720), Text(_words(run, curves, whole))]


def _plain(run: PaperRun) -> float | None:
    """SLR on all pairs of the same splits: the last point of its curve in Figure 2."""
    if not run.journal.cells("figure2", "SLR"):
        return None
    return float(curve_of_figure2(run, "SLR")[1][:, -1].mean())


def _words(run: PaperRun, curves: dict[str, tuple[list[float], np.ndarray, np.ndarray]], whole: float | None) -> str:
    said = []
    for kind, (places, mean, _) in curves.items():
        gap = "" if whole is None else f", {points(abs(mean[-1] - whole))} points {side(mean[-1] - whole)} SLR"
        said.append(
            f"{kind} goes from {mean[0]:.1f} % at m = {places[0]:,.0f} to {mean[-1]:.1f} % at {places[-1]:,.0f}{gap}"
        )
    text = "; ".join(said) + ". "
    rank = min(run.protocol.width, run.protocol.n_train)
    text += (
        f"A sample smaller than the rank of X, at most {rank:,} here, is interpolated at each step. "
        "Sampling with replacement leaves some rows out even at m = n, so SLR-C ends near SLR but not on it. A "
        "Gaussian sketch clamps all pairs before it mixes them: it saves no time, only sampling does."
    )
    return text
