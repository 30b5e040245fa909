"""The demo: learn on some rows, compare with the usual methods on the others, show results before and after."""

import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL.Image import Image

from likewise.evaluate import evaluate
from likewise.utils.files import atomic_write
from likewise.utils.reporting import report
from likewise.utils.reporting.pictures import encode_png
from likewise.utils.reporting.strips import Panel, choose_queries, nearest, retrieval_strips
from likewise.utils.wording import listed

BEFORE, AFTER = "cosine", "SimilarityLearner"
COLUMNS = ("method", "mAP", "P@1", "fit seconds")
_SHOWN = 6  # queries in the picture


@dataclass(frozen=True)
class DemoData:
    """Training rows, held-out rows that rank each other, what they are called, and how to show one."""

    noun: str
    X: np.ndarray
    y: np.ndarray
    Q: np.ndarray
    y_q: np.ndarray
    image: Callable[[int], Any]
    places: tuple[int, ...]
    about: str


@dataclass(frozen=True)
class DemoResult:
    """A fitted method: its embeddings of the held-out rows as queries and as gallery, its scores, its fit time."""

    name: str
    model: Any
    sides: tuple[np.ndarray, np.ndarray]
    figures: dict[str, Any]
    seconds: float


@dataclass(frozen=True)
class Demonstration:
    """The methods compared, and the picture with its caption."""

    data: DemoData
    runs: list[DemoResult]
    picture: Image
    caption: str
    seed: int

    @property
    def learned(self) -> DemoResult:
        return _named(self.runs, AFTER)

    def rows(self) -> list[list[Any]]:
        """A row of figures per method, under `COLUMNS`."""
        return [[run.name, run.figures["mAP"], run.figures["P@1"], run.seconds] for run in self.runs]

    def write(self, folder: Path, command: str, others: Sequence["Demonstration"] = ()) -> dict[str, Path]:
        """Write `strips.png`, `report.html` and `demo.likewise`; the report shows `command` and the others' tables."""
        files = {name: folder / name for name in ("strips.png", "report.html", "demo.likewise")}
        png = encode_png(self.picture)
        atomic_write(files["strips.png"], png)
        atomic_write(files["report.html"], _report(self, others, png, command).encode("utf-8", "backslashreplace"))
        self.learned.model.save(files["demo.likewise"], {"mAP": self.learned.figures["mAP"]})
        return files


def demonstrate(data: DemoData, models: dict[str, Any], seed: int = 0) -> Demonstration:
    """Fit each method to the training rows and compare them on the others."""
    runs = [_run(name, model, data) for name, model in models.items()]
    picture, caption = _picture(data, runs, seed)
    return Demonstration(data, runs, picture, caption, seed)


def _run(name: str, model: Any, data: DemoData) -> DemoResult:
    began = time.perf_counter()
    model.fit(data.X, data.y)
    seconds = time.perf_counter() - began
    sides = model.transform_query(data.Q), model.transform(data.Q)
    return DemoResult(name, model, sides, evaluate(*sides, data.y_q).summary(), seconds)


def _named(runs: list[DemoResult], name: str) -> DemoResult:
    return next(run for run in runs if run.name == name)


# -- The picture ------------------------------------------------------------------------------------------------------


def _picture(data: DemoData, runs: list[DemoResult], seed: int) -> tuple[Image, str]:
    """Strips before and after learning, and a caption that says how the queries were chosen."""
    before, after = _named(runs, BEFORE), _named(runs, AFTER)
    places = [place for place in data.places if place < len(data.Q)]
    everyone, shown = np.arange(len(data.Q)), np.array(places) - 1
    found = [nearest(*run.sides, places[-1], own=everyone)[:, shown] for run in (before, after)]
    hits = [(data.y_q[rows] == data.y_q[:, None]).sum(axis=1) for rows in found]
    chosen, differing = choose_queries(hits, data.y_q, _SHOWN, seed)
    panels = [
        Panel(f"{when}: {run.name}", rows[chosen], f"mAP {run.figures['mAP']:.3f}", [f"#{p}" for p in places])
        for when, run, rows in zip(("before", "after"), (before, after), found, strict=True)
    ]
    queries = [data.image(i) for i in chosen]
    gallery: Any = {j: data.image(j) for panel in panels for j in np.unique(panel.found)}
    picture = retrieval_strips(queries, gallery, panels, data.y_q[chosen], data.y_q)
    firsts = (before.figures["P@1"], after.figures["P@1"])
    return picture, _caption(data.noun, places, len(chosen), hits, differing, firsts)


def _caption(
    noun: str, places: list[int], n: int, hits: list[np.ndarray], differing: int, firsts: tuple[float, float]
) -> str:
    better, worse = int((hits[1] > hits[0]).sum()), int((hits[1] < hits[0]).sum())
    return (
        f"All {noun} shown are held out: no method has learned from them. Queries are framed green, results with the "
        f"query's label red, others blue. Results are shown at ranks {_ranks(places)}. The {n} queries "
        f"are a seeded random draw, {differing} of them among those where the number of hits at these ranks differs, "
        f"whichever method is better. Of all {len(hits[0])} held-out {noun}, learning gives more hits for {better}, "
        f"fewer for {worse} and as many for {len(hits[0]) - better - worse}. mAP judges the whole ranking; at rank 1 "
        f"alone, {BEFORE} is right for {firsts[0]:.1%} of the {noun} and {AFTER} for {firsts[1]:.1%}."
    )


def _ranks(places: list[int]) -> str:
    without_gap = places == list(range(places[0], places[-1] + 1))
    return f"{places[0]} to {places[-1]}" if without_gap else listed([*map(str, places)])


# -- The page ---------------------------------------------------------------------------------------------------------


def _report(main: Demonstration, others: Sequence[Demonstration], png: bytes, command: str) -> str:
    low, high = main.learned.figures["mAP_interval"]
    machine = f"{platform.system()} {platform.machine()}"
    facts = {**report.versions("numpy", "scipy", "scikit-learn"), "machine": machine}
    parts = [
        report.heading("Before and after"),
        report.figure(png, main.caption, f"Retrieval strips for {_SHOWN} {main.data.noun}, before and after learning"),
        report.heading("Ranking quality by method"),
        _table(main),
        report.paragraph(f"The 95 % bootstrap interval of {AFTER}'s mAP is {low:.3f} to {high:.3f}."),
        report.heading("Method"),
        report.paragraph(f"{main.data.about} {_MEASURED} {_METHODS}"),
        *(part for other in others for part in _second(other)),
        report.heading("Reproduce"),
        report.code(command),
        report.definitions(facts),
    ]
    return report.page("likewise demo", _lead(main), parts)


def _lead(shown: Demonstration) -> str:
    before, after = (_named(shown.runs, name).figures["mAP"] for name in (BEFORE, AFTER))
    return (
        f"{AFTER} learned a similarity from {len(shown.data.X):,} labelled {shown.data.noun}. On "
        f"{len(shown.data.Q):,} others that it has never seen, its mean average precision is {after:.3f}; the cosine "
        f"of the raw features reaches {before:.3f}."
    )


def _table(shown: Demonstration) -> str:
    best = int(np.argmax([run.figures["mAP"] for run in shown.runs]))
    return report.table(COLUMNS, shown.rows(), bar="mAP", best=best, digits=dict.fromkeys(COLUMNS[1:], 3))


def _second(shown: Demonstration) -> list[str]:
    """A shorter section for data that the page is not mainly about."""
    heading = report.heading(f"The same on {shown.data.noun}")
    return [heading, _table(shown), report.paragraph(shown.data.about)]


_MEASURED = (
    "Every held-out row is a query that ranks all other held-out rows. mAP is the mean average precision of these "
    "rankings and P@1 the share of queries whose first result has their label."
)
_METHODS = (
    "Euclid and cosine learn nothing. LDA and ridge regression choose their settings on held-out training rows. "
    "SLR-Fixed is one regression on the fixed label target; SLR adapts the target ten times, over all pairs; both are "
    "as in the paper: no centring, no scaling, no ridge, and scored by the inner product. SimilarityLearner regresses "
    "the labels on a kernel with every training row, or adapts a linear map by clamping cosines, whichever ranks "
    "held-out training rows better; the raw row is appended with a small weight and puts near-duplicates first."
)
