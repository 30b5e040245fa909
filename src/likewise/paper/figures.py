"""Figures 1 to 3 of the paper: retrieved images, mAP after each iteration, and mAP against the size of a sketch."""

import warnings
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from PIL import Image
from sklearn.base import clone

from likewise.learn.slr import SLR
from likewise.paper.cells import Cell, Done
from likewise.paper.run import PaperRun, Task
from likewise.paper.tables import measured
from likewise.rivals.compare.methods import timed_fit
from likewise.utils.reporting.charts import Line, chart
from likewise.utils.reporting.pictures import Panel, choose_queries, retrieval_strips, square_of_text, write_png
from likewise.utils.reporting.report import Block, Heading, Picture, TableBlock, Text
from likewise.utils.wording import listed

# -- Figure 1: the first three results of the same queries under FRML, OASIS and SLR; the tables store them ------------

STRIPS = ("FRML", "OASIS", "SLR")
QUERIES = 8
CELL = 72  # pixels per picture


def figure1_section(run: PaperRun) -> list[Block]:
    """The picture, with a caption that says how its queries were chosen."""
    stored = {name: run.journal.extra("tables", name).get("found") for name in STRIPS}
    there = {name: np.array(places) for name, places in stored.items() if places}
    if not there:
        return []
    y = run.data.y[run.protocol.rows(0)[1]]
    hits = [(y[places] == y[:, None]).sum(axis=1) for places in there.values()]
    chosen, differing = choose_queries(hits, y, QUERIES, run.settings.seed)
    path = write_png(run.folder / "figure1.png", _strips(run, there, chosen))
    picture = Picture(path, _strips_caption(list(there), differing, len(chosen)), 900 if len(there) == 3 else None)
    means = zip(there, (100 * float(np.mean(y[places] == y[:, None])) for places in there.values()), strict=True)
    shares = listed([f"{name} {mean:.1f} %" for name, mean in means])
    text = f"Share of the first three results that have the query's class, over all test queries: {shares}."
    return [Heading("Figure 1: retrieved images"), picture, Text(text)]


def _strips(run: PaperRun, places_of: dict[str, np.ndarray], chosen: np.ndarray) -> Image.Image:
    """One row per query and one panel per method; only the pictures shown are read."""
    _, test = run.protocol.rows(0)
    shown = np.unique(np.concatenate([chosen, *(places[chosen].ravel() for places in places_of.values())]))
    images = [_picture(run, int(row)) for row in test[shown]]
    panels = []
    for name, places in places_of.items():
        score = run.journal.scores("tables", name)[0]
        panels.append(Panel(name, np.searchsorted(shown, places[chosen]), f"mAP {score:.1f} %"))
    queries = [images[i] for i in np.searchsorted(shown, chosen)]
    y = run.data.y[test]
    return retrieval_strips(queries, images, panels, y[chosen], y[shown], cell=CELL)


def _picture(run: PaperRun, row: int) -> Any:
    """The picture of a row, or its label as text."""
    if run.data.picture is not None:
        return run.data.picture(row)
    return square_of_text(run.data.classes[run.data.y[row]].split(".")[-1][:10], CELL)


def _strips_caption(names: list[str], differing: int, n: int) -> str:
    return (
        f"The first three results under {listed(names)}, first split. Queries are framed green, results of the query's "
        f"class red, others blue, as in the paper. The {n} queries are a seeded random draw, {differing} of them among "
        "those where the methods differ in hits, whichever is better."
    )


# -- Figure 2: mAP after each iteration of SLR and SLR-Fixed, and of SLR-Whole, which has no iterations ---------------

FIGURE2 = "figure2"
ITERATED = ("SLR", "SLR-Fixed", "SLR-Whole")


def iterates(model: SLR, X: np.ndarray, y: np.ndarray) -> Iterator[SLR]:
    """The model after 1, 2, … iterations, each fitted by itself; they differ in nothing else, since the seed is one."""
    for t in range(1, model.max_iter + 1):
        yield clone(model).set_params(max_iter=t).fit(X, y)


def figure2_tasks(run: PaperRun) -> Iterator[Task]:
    for split in range(run.curve_splits):
        for name in ITERATED:
            yield Task((FIGURE2, name, split), partial(_figure2_work, run, name, split))


def _figure2_work(run: PaperRun, name: str, number: int) -> Done:
    split, model = run.protocol.split(number), run.model(name, number)
    if name == "SLR-Whole":  # a closed form
        return Done([Cell(FIGURE2, name, number, 0.0, measured(model.fit(split.X, split.y), split))])
    steps = enumerate(iterates(model, split.X, split.y), start=1)
    return Done([Cell(FIGURE2, name, number, float(t), measured(step, split)) for t, step in steps])


def figure2_section(run: PaperRun) -> list[Block]:
    """The chart, and a table for the claims that two iterations suffice and that adaptive targets are better."""
    curves = {name: run.journal.curve(FIGURE2, name) for name in ITERATED}
    slr, fixed, whole = (curves[name][1] for name in ITERATED)
    if not (len(slr) and len(fixed) and len(whole)):
        return []
    lines = [Line(name, *curves[name]) for name in ITERATED[:2]]
    lines.append(Line("SLR-Whole", [1, len(slr)], [whole[0]] * 2, style="--", markers=False))
    path = chart(run.folder / "figure2.png", lines, "iteration T", "mAP %")
    caption = f"mAP after each iteration. {shown_splits(run, FIGURE2)}"
    rows = [
        [name, *(f"{m[t]:.2f}" for t in (0, min(2, len(m)) - 1, -1)), f"{m.max():.2f} (T = {np.argmax(m) + 1})"]
        for name, m in (("SLR", slr), ("SLR-Fixed", fixed), ("SLR-Whole, closed form", whole))
    ]
    table = TableBlock(["mAP %", "T = 1", "T = 2", f"T = {len(slr)}", "best"], rows)
    return [Heading("Figure 2: adaptive and fixed targets"), Picture(path, caption, 720), table]


def shown_splits(run: PaperRun, experiment: str) -> str:
    """A sentence for the caption of a curve."""
    n = len({cell.split for cell in run.journal.cells(experiment)})
    return f"Mean of {n} splits; bands are one standard deviation." if n > 1 else "The first split."


# -- Figure 3: SLR-G-m and SLR-C-m against m -------------------------------------------------------------------------

FIGURE3 = "figure3"
KINDS = ("SLR-G", "SLR-C")
ROOM = 2 * 10**9
"""Largest size of a Gaussian n × m matrix in bytes: larger m are left out."""


def sizes(n: int, rank: int, width: int, points: int) -> list[int]:
    """m from just above the rank of M to n, in equal ratios, rounded to two digits."""
    least = max(rank, min(width, n // 4)) * 1.2
    grid = np.geomspace(min(least, n / 2), n, points)
    return sorted({*(int(float(f"{m:.2g}")) for m in grid[:-1]), n})


def figure3_tasks(run: PaperRun) -> Iterator[Task]:
    n = run.protocol.n_train
    rank = min(run.settings.rank, run.protocol.width)
    for split in range(run.curve_splits):
        for m in sizes(n, rank, run.protocol.width, run.budget.curve_points):
            for kind in KINDS:
                if kind == "SLR-C" or 8 * n * m <= ROOM:
                    name = f"{kind}-{m}"
                    yield Task((FIGURE3, name, split), partial(_figure3_work, run, name, split))


def _figure3_work(run: PaperRun, name: str, number: int) -> Done:
    split, model = run.protocol.split(number), run.model(name, number)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the figure shows that a small m interpolates
        seconds = timed_fit(model, split.X, split.y)
    kind, _, m = name.rpartition("-")
    return Done([Cell(FIGURE3, kind, number, float(m), measured(model, split), {}, seconds)])


def figure3_section(run: PaperRun) -> list[Block]:
    """The chart, and how close the sketches come to SLR."""
    curves = {kind: run.journal.curve(FIGURE3, kind) for kind in KINDS if run.journal.cells(FIGURE3, kind)}
    if not curves:
        return []
    lines = [Line(f"{kind}-m", *curve) for kind, curve in curves.items()]
    slr = run.journal.curve("figure2", "SLR")[1]  # on all pairs of the same splits
    whole = float(slr[-1]) if len(slr) else None
    if whole is not None:
        ends = [min(c[0][0] for c in curves.values()), max(c[0][-1] for c in curves.values())]
        lines.append(Line("SLR, all pairs", ends, [whole, whole], style="--", markers=False))
    path = chart(run.folder / "figure3.png", lines, "m", "mAP %", log_x=True)
    caption = f"mAP against m, the size that the data is compressed to. {shown_splits(run, FIGURE3)}"
    rank = min(run.protocol.width, run.protocol.n_train)
    text = (
        f"A sample smaller than the rank of X, at most {rank:,} here, is interpolated at each step. Sampling with "
        "replacement leaves some rows out even at m = n, so SLR-C ends near SLR but not on it. A Gaussian sketch "
        "clamps all pairs before it mixes them: it saves no time, only sampling does."
    )
    return [Heading("Figure 3: compression"), Picture(path, caption, 720), Text(text)]
