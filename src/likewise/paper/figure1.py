"""Figure 1: the first three results of the same queries under FRML, OASIS and SLR."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from PIL import Image

from likewise.paper.run import PaperRun, Task
from likewise.utils.reporting.pictures import Panel, choose_queries, retrieval_strips, square_of_text, write_png
from likewise.utils.reporting.report import Block, Heading, Picture, Text
from likewise.utils.wording import listed

METHODS = ("FRML", "OASIS", "SLR")
QUERIES = 8
CELL = 72  # pixels per picture


def tasks(run: PaperRun) -> Iterator[Task]:
    """None: the tables store the first results of the first split."""
    yield from ()


def section(run: PaperRun) -> list[Block]:
    """The picture, with a caption that says how its queries were chosen."""
    found = {name: run.journal.extra("tables", name).get("found") for name in METHODS}
    there = {name: np.array(places) for name, places in found.items() if places}
    if not there:
        return []
    y = run.data.y[run.protocol.rows(0)[1]]
    hits = [(y[places] == y[:, None]).sum(axis=1) for places in there.values()]
    chosen, differing = choose_queries(hits, y, QUERIES, run.settings.seed)
    path = write_png(run.folder / "figure1.png", _strips(run, there, chosen))
    picture = Picture(path, _caption(list(there), differing, len(chosen)), 900 if len(there) == 3 else None)
    means = zip(there, (100 * float(np.mean(y[places] == y[:, None])) for places in there.values()), strict=True)
    shares = listed([f"{name} {mean:.1f} %" for name, mean in means])
    said = f"Share of the first three results that have the query's class, over all test queries: {shares}."
    return [Heading("Figure 1: retrieved images"), picture, Text(said)]


def _strips(run: PaperRun, found: dict[str, np.ndarray], chosen: np.ndarray) -> Image.Image:
    """One row per query and one panel per method; only the pictures shown are read."""
    _, test = run.protocol.rows(0)
    shown = np.unique(np.concatenate([chosen, *(places[chosen].ravel() for places in found.values())]))
    images = [_picture(run, int(row)) for row in test[shown]]
    panels = []
    for name, places in found.items():
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


def _caption(names: list[str], differing: int, n: int) -> str:
    return (
        f"The first three results under {listed(names)}, first split. Queries are framed green, results of the query's "
        f"class red, others blue, as in the paper. The {n} queries are a seeded random draw, {differing} of them among "
        "those where the methods differ in hits, whichever is better."
    )
