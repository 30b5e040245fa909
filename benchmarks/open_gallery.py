"""Ranking a gallery that holds classes that were taught and others that were not.

usage: python -m benchmarks open_gallery               shares of new classes from 0 to 1; 5, 20 and all rows labelled
       python -m benchmarks open_gallery --few-shot    8, 16 and 32 labelled rows per class
       python -m benchmarks open_gallery --shifts      labelled rows and gallery from different sources
options: [--sets NAMES] [--draws 5] [--rows 2400] [--labelled 5,20,0] [--again METHODS] [--store NAME]

Each draw takes at most 40 classes and some rows of each: one half is the gallery, and of the other half some rows of
the classes that are taught are labelled. Labelled rows are outside of the gallery or inside, ranked and queried like
all its items: every item is a query and ranks all others. Of a gallery that is all new, half of the classes are learned
from, and the gallery holds the other half. All methods have the same rows; "default" and "unseen" are the two modes of
SimilarityLearner without a gallery, "Index.build" is what a user gets from `Index.build(model, gallery)`.

The last column says whether what is expected is met, and else what is not, with the distance in points: taught queries
are at most .3 points of mAP below "default", new ones at most .3 below the raw cosine, and the mean of both at least
one point above the better of "default" and "unseen" where there are both. With few shots: P@1 of taught queries at most
.3 below the raw cosine, mAP not below kernel ridge. From another source: at most .5 below "default", taught and mean.

NAMES, separated by ";", may be paths of labelled tables. Figures are kept in build/open-gallery, so that a run that was
stopped goes on; --again measures some METHODS, separated by ";", once more. LIKEWISE_DATA is the folder of
caltech101.tar and newsgroups20.npz.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.preprocessing import normalize
from sklearn.semi_supervised import LabelPropagation, LabelSpreading

from benchmarks.open_sets import SETS, SHIFTS, WORK, Source, load
from benchmarks.results import show_table
from likewise import SimilarityLearner
from likewise.errors import LikewiseError
from likewise.evaluate import evaluate
from likewise.rivals import LDA, KernelRidge
from likewise.search import Index
from likewise.search.neighbors import smoothed
from likewise.utils.files import make_folder
from likewise.utils.journal import Journal

CLASSES = 40  # at most, of a draw
METRICS = ("mAP", "P@1", "nDCG@10")
Embedded = tuple[np.ndarray, np.ndarray]  # query and gallery side of the gallery's rows


@dataclass(frozen=True)
class Task:
    """Labelled rows and a gallery, which ends with as many of the labelled rows as it has `inside`: none or all."""

    X: np.ndarray
    y: np.ndarray
    gallery: np.ndarray
    codes: np.ndarray
    inside: int


class Fits:
    """Models of the same labelled rows, each fitted on first use."""

    def __init__(self, X: np.ndarray, y: np.ndarray) -> None:
        self.X, self.y = X, y

    @cached_property
    def default(self) -> Any:
        return SimilarityLearner(random_state=0).fit(self.X, self.y)

    @cached_property
    def unseen(self) -> Any:
        return SimilarityLearner(settings={"share": 0.0}, random_state=0).fit(self.X, self.y)

    @cached_property
    def kernel_ridge(self) -> Any:
        return KernelRidge(random_state=0).fit(self.X, self.y)

    @cached_property
    def lda(self) -> Any:
        return LDA(random_state=0).fit(self.X, self.y)


def _twice(V: np.ndarray) -> Embedded:
    return V, V


def _propagated(kind: type) -> Callable[[Task, Fits], Embedded]:
    """Square roots of the probabilities of scikit-learn's propagation, over labelled rows and the gallery's."""

    def embedded(task: Task, fits: Fits) -> Embedded:
        others = task.gallery[: len(task.gallery) - task.inside]
        rows = normalize(np.concatenate([others, task.X]))
        y = np.concatenate([np.full(len(others), -1), task.y])
        model = kind(kernel="knn", n_neighbors=10, max_iter=200).fit(rows, y)
        P = np.sqrt(np.nan_to_num(model.label_distributions_))
        return _twice(P[: len(task.gallery)].astype(np.float32))

    return embedded


def _indexed(n_neighbors: Any) -> Callable[[Task, Fits], Embedded]:
    """What a user gets, with default arguments otherwise."""

    def embedded(task: Task, fits: Fits) -> Embedded:
        space = Index.build(fits.default, task.gallery, n_neighbors=n_neighbors).space()
        return space.queries(np.arange(len(space))), space.gallery(slice(None))

    return embedded


METHODS: dict[str, Callable[[Task, Fits], Embedded]] = {
    "raw": lambda task, fits: _twice(normalize(task.gallery)),
    "default": lambda task, fits: _twice(fits.default.transform(task.gallery)),
    "unseen": lambda task, fits: _twice(fits.unseen.transform(task.gallery)),
    "kernel ridge": lambda task, fits: _twice(fits.kernel_ridge.transform(task.gallery)),
    "LDA": lambda task, fits: _twice(fits.lda.transform(task.gallery)),
    "LabelPropagation": _propagated(LabelPropagation),
    "LabelSpreading": _propagated(LabelSpreading),
    "Index.build": _indexed(0),
}
OURS = "Index.build"
SMOOTHED = "; neighbours"  # of the same methods, each row with its 10 nearest
WITH_NEIGHBOURS = ("raw", "default", "unseen", "kernel ridge", OURS)


# -- Experiments ------------------------------------------------------------------------------------------------------


Pair = tuple[float | None, float | None]  # of taught queries and of new ones
Mean = Callable[[str, str], Pair]  # by method and metric, over the draws


class Check(NamedTuple):
    """An expectation: ours, what it is compared with, and the least difference in points."""

    what: str
    ours: float | None
    other: float | None
    least: float


def middle(pair: Pair) -> float:
    return float(np.mean([value for value in pair if value is not None]))


def open_checks(cell: Cell, mean: Mean) -> Iterator[Check]:
    ours, default, unseen = (mean(name, "mAP") for name in (OURS, "default", "unseen"))
    yield Check("taught", ours[0], default[0], -0.3)
    yield Check("new", ours[1], mean("raw", "mAP")[1], -0.3)
    if 0 < cell.new < 1:
        yield Check("mean", middle(ours), max(middle(default), middle(unseen)), 1.0)


def few_shot_checks(cell: Cell, mean: Mean) -> Iterator[Check]:
    yield Check("P@1", mean(OURS, "P@1")[0], mean("raw", "P@1")[0], -0.3)
    yield Check("mAP", mean(OURS, "mAP")[0], mean("kernel ridge", "mAP")[0], 0.0)


def shift_checks(cell: Cell, mean: Mean) -> Iterator[Check]:
    ours, default = mean(OURS, "mAP"), mean("default", "mAP")
    yield Check("taught", ours[0], default[0], -0.5)
    yield Check("mean", middle(ours), middle(default), -0.5)


class Experiment(NamedTuple):
    """Shares of new classes, labelled rows per class (0 is all), whether they are in the gallery, what is expected."""

    about: str
    sets: tuple[str, ...]
    new: tuple[float, ...]
    labelled: tuple[int, ...]
    inside: tuple[bool, ...]
    checks: Callable[[Cell, Mean], Iterator[Check]]
    learned: float = 0.5  # the share of the rows of each class that may be labelled
    stored: tuple[str, ...] = ("mAP",)  # metrics whose tables are kept


EXPERIMENTS = {
    "open-gallery": Experiment(
        "A gallery of taught and new classes",
        tuple(SETS), (0.0, 0.25, 0.5, 0.75, 1.0), (5, 20, 0), (False, True), open_checks,
    ),
    "few-shot": Experiment(
        "Few labelled rows per class",
        ("Caltech101, EfficientNet", "newsgroups"), (0.0, 0.5), (8, 16, 32), (False,), few_shot_checks, 0.6,
        ("mAP", "P@1"),
    ),
    "shifts": Experiment(
        "Labelled rows and gallery from different sources", tuple(SHIFTS), (0.0, 0.5), (0,), (False,), shift_checks
    ),
}  # fmt: skip

# -- Tasks ------------------------------------------------------------------------------------------------------------


class Cell(NamedTuple):
    """Where a figure belongs: `new` is a share of classes, `labelled` rows per class, `inside` the gallery or not."""

    name: str
    new: float
    labelled: int
    inside: bool
    draw: int


def tasks(
    name: str, source: Source, draw: int, rows: int, experiment: Experiment
) -> Iterator[tuple[list[tuple[Cell, Task]], Fits]]:
    """All tasks of a draw, those together that need the same models."""
    y, rng = source.y, np.random.default_rng([draw, 33])
    classes = rng.permutation(int(y.max()) + 1)[:CLASSES]
    of_class = [rng.permutation(np.flatnonzero(y == c))[: max(4, rows // len(classes))] for c in classes]
    of_class = [np.sort(part) for part in of_class] if source.in_order else of_class
    learned = [part[: int(experiment.learned * len(part))] for part in of_class]
    searched = [part[int(experiment.learned * len(part)) :] for part in of_class]
    groups: dict[int, list[float]] = {}
    for share in experiment.new:
        n_taught = len(classes) - round((0.5 if share == 1 else share) * len(classes))
        groups.setdefault(n_taught, []).append(share)
    for (n_taught, group), count in product(groups.items(), experiment.labelled):
        some = np.concatenate([part[: count or None] for part in learned[:n_taught]])
        cells = []
        for share, inside in product(group, experiment.inside):
            if inside and share == 1:  # of a gallery that is all new no row is labelled
                continue
            others, own = np.concatenate(searched[n_taught if share == 1 else 0 :]), some[: len(some) * inside]
            G = np.concatenate([source.searched[others], source.X[own]])
            task = Task(source.X[some], y[some], G, y[np.concatenate([others, own])], len(own))
            cells.append((Cell(name, share, count, inside, draw), task))
        yield cells, Fits(source.X[some], y[some])


def scored(task: Task, sides: Embedded) -> dict[str, list[float | None]]:
    """Each metric × 100 of taught and of new queries; None if there are none."""
    evaluation = evaluate(*sides, task.codes, ks=(1, 10))
    is_taught = np.isin(task.codes[evaluation.queries], task.y)
    parts = (is_taught, ~is_taught)
    return {
        metric: [100 * float(evaluation.per_query[metric][part].mean()) if part.any() else None for part in parts]
        for metric in METRICS
    }


def measured(task: Task, fits: Fits, method: str) -> dict[str, Any]:
    """The figures of a method, and of its vectors with neighbours where that is compared."""
    began = time.process_time()
    sides = METHODS[method](task, fits)
    figures: dict[str, Any] = {method: {**scored(task, sides), "seconds": time.process_time() - began}}
    if method == OURS:
        sides = _indexed("auto")(task, fits)
    elif method in WITH_NEIGHBOURS:
        sides = _twice(smoothed(sides[1], 10))
    if method in WITH_NEIGHBOURS:
        figures[method + SMOOTHED] = scored(task, sides)
    return figures


class Figures:
    """What was measured, by cell and method; on disk at once."""

    def __init__(self, name: str) -> None:
        make_folder(WORK)
        self._journal = Journal(WORK / f"{name}.sqlite")
        self.by_cell: dict[Cell, dict[str, Any]] = {}
        for record in self._journal.read():
            if record.value is not None:
                self._take(*record.value)

    def _take(self, cell: list[Any], figures: dict[str, Any]) -> None:
        self.by_cell.setdefault(Cell(*cell), {}).update(figures)

    def add(self, cell: Cell, figures: dict[str, Any]) -> None:
        self._journal.append([[list(cell), figures]])
        self._take(list(cell), figures)

    def measure(self, cells: list[tuple[Cell, Task]], fits: Fits, again: list[str]) -> None:
        """All methods that are not there yet, and some of them again."""
        for cell, task in cells:
            for method in METHODS:
                if method not in self.by_cell.get(cell, {}) or method in again:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        self.add(cell, measured(task, fits, method))

    def restrict(self, names: Iterable[str], draws: int) -> None:
        """Forget all but some sets and the first draws, so that methods are compared on the same ones."""
        some = {cell: value for cell, value in self.by_cell.items() if cell.name in names and cell.draw < draws}
        self.by_cell = some

    def mean(self, cell: Cell, method: str, metric: str) -> Pair:
        """Over the draws."""
        draws = [
            figures[method][metric]
            for other, figures in self.by_cell.items()
            if other._replace(draw=0) == cell and method in figures
        ]
        values = ([one[i] for one in draws if one[i] is not None] for i in (0, 1))
        taught, new = (float(np.mean(each)) if each else None for each in values)
        return taught, new

    def cells(self) -> list[Cell]:
        """Without draws, in order."""
        order = {name: place for place, name in enumerate((*SETS, *SHIFTS))}
        cells = {cell._replace(draw=0) for cell in self.by_cell}
        return sorted(cells, key=lambda c: (order.get(c.name, 99), c.name, c.inside, c.new, c.labelled or 10**6))


# -- Tables -----------------------------------------------------------------------------------------------------------


def verdict(checks: Iterable[Check]) -> str:
    """The expectations that are not met, with their distance; "yes" if all are."""
    failed = [
        f"{check.what} {check.ours - check.other:+.1f}".replace("-", "−")
        for check in checks
        if check.ours is not None and check.other is not None and check.ours < check.other + check.least - 1e-9
    ]
    return f"**{', '.join(failed)}**" if failed else "yes"


def shown(pair: Pair) -> str:
    return " / ".join("–" if value is None else f"{value:.1f}" for value in pair)


def table(figures: Figures, experiment: Experiment, metric: str, suffix: str) -> tuple[list[str], list[list[str]]]:
    """Taught / new of each method, and whether the expectations are met."""
    names = [name for name in METHODS if not suffix or name in WITH_NEIGHBOURS]
    rows = []
    for cell in figures.cells():
        where = f"{cell.name}, {cell.new:g} new, {cell.labelled or 'all'} labelled{', inside' if cell.inside else ''}"
        cells = [shown(figures.mean(cell, name + suffix, metric)) for name in names]
        checks = experiment.checks(cell, lambda name, metric, cell=cell: figures.mean(cell, name + suffix, metric))
        rows.append([where, *cells, verdict(checks)])
    return ["taught / new", *names, "met"], rows


def write(figures: Figures, experiment: Experiment, name: str | None) -> None:
    """Every table on the terminal; with a name, in docs/results those that are kept."""
    command = "python -m benchmarks " + shlex.join([Path(sys.argv[0]).stem, *sys.argv[1:]]).partition(" --store")[0]
    for metric, suffix in (("mAP", ""), ("mAP", SMOOTHED), ("P@1", ""), ("nDCG@10", "")):
        title = f"{experiment.about}{suffix}: {metric} × 100 of taught / new queries"
        file = f"{name}{'' if metric == 'mAP' else '-' + metric.replace('@', '')}{'-neighbours' if suffix else ''}"
        columns, rows = table(figures, experiment, metric, suffix)
        is_stored = name and (name.startswith("open-gallery") or (metric in experiment.stored and not suffix))
        show_table(title, command, columns, rows, file if is_stored else None)
        if metric == "mAP":
            print(f"met: {sum(row[-1] == 'yes' for row in rows)} of {len(rows)}")


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=lambda text: tuple(map(str.strip, text.split(";"))))
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--rows", type=int, default=2_400, help="of a draw, labelled rows and gallery together")
    parser.add_argument("--labelled", type=lambda text: tuple(map(int, text.split(","))), help="per class; 0 is all")
    parser.add_argument("--again", type=lambda text: text.split(";"), default=[])
    for name in ("--shifts", "--few-shot"):
        parser.add_argument(name, dest="experiment", action="store_const", const=name[2:], default="open-gallery")
    parser.add_argument("--store", metavar="NAME", help="write the tables to docs/results, as NAME and NAME-…")
    return parser.parse_args()


def main() -> None:
    words = options()
    experiment, figures = EXPERIMENTS[words.experiment], Figures(f"{words.experiment}-{words.rows}")
    experiment = experiment._replace(labelled=words.labelled or experiment.labelled)
    names = words.sets or experiment.sets
    for name in names:
        try:
            source = load(name)
        except LikewiseError as error:
            print(f"{name} is left out: {error}")
            continue
        for draw in range(words.draws):
            for cells, fits in tasks(name, source, draw, words.rows, experiment):
                figures.measure(cells, fits, words.again)
            print(f"{name}, draw {draw + 1}: {time.process_time():.0f} s", flush=True)
    figures.restrict(names, words.draws)
    write(figures, experiment, words.store)


if __name__ == "__main__":
    main()
