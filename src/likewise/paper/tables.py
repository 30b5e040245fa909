"""Tables 1 to 3 of the paper, and a table of what it leaves open: mAP of every method, training times, choices."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from likewise import rivals
from likewise.evaluate import evaluate
from likewise.paper.cells import Cell, Done
from likewise.paper.methods import at_setting, default_methods, warm_up
from likewise.paper.run import PaperRun, Task
from likewise.rivals.compare.methods import chosen_setting, timed_fit
from likewise.utils.reporting.pictures import nearest
from likewise.utils.reporting.report import Block, Heading, TableBlock, Text
from likewise.utils.wording import duration, mean_and_deviation, short

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
    model = run.model(name, number)
    seconds = timed_fit(model, split.X, split.y)
    cell = Cell(EXPERIMENT, name, number, "", measured(model, split), chosen_setting(model), seconds)
    if number:
        return Done([cell])
    Q, G = model.transform_query(split.Q), model.transform(split.Q)
    first = nearest(Q, G, min(SHOWN, len(Q) - 1), exclude=np.arange(len(Q)))  # as numbers of test rows
    return Done([cell], {"found": first.tolist()})


def measured(model: Any, split: Any) -> dict[str, float]:
    """Metrics of the rankings of all other test rows by each test row."""
    return figures(model.transform_query(split.Q), model.transform(split.Q), split.y_q)


def figures(Q: np.ndarray, G: np.ndarray, y_q: np.ndarray, y_g: np.ndarray | None = None) -> dict[str, float]:
    summary = evaluate(Q, G, y_q, y_g).summary()
    return {name: float(summary[name]) for name in ("mAP", "macro_mAP", "P@1", "P@10", "MAP@R", "nDCG")}


def section(run: PaperRun) -> list[Block]:
    """Means and deviations by method, with those of the paper, and the lead of SLR over each other method."""
    journal = run.journal
    names, theirs = journal.methods(EXPERIMENT, default_methods(run.protocol.n_train)), PUBLISHED.get(run.data.name, {})
    if not names:
        return []
    rows, slr = [], journal.scores(EXPERIMENT, "SLR")
    for name in names:
        scores = journal.scores(EXPERIMENT, name)
        values = [[*journal.scores(EXPERIMENT, name, measure).values()] for measure in _SHOWN_MEASURES]
        leads = [slr[split] - scores[split] for split in slr.keys() & scores.keys()]  # on the splits of both
        lead = f"{np.mean(leads):+.1f}" if leads and name != "SLR" else ""
        published = ["{} ± {}".format(*theirs[name]) if name in theirs else ""] if theirs else []
        rows.append([name, *map(mean_and_deviation, values), str(len(scores)), lead, *published])
    best = int(np.argmax([np.mean([*journal.scores(EXPERIMENT, name).values()]) for name in names]))
    columns = ["method", *(f"{measure.replace('_', ' ')} %" for measure in _SHOWN_MEASURES), "splits", "lead of SLR"]
    columns += ["mAP % in the paper"] if theirs else []
    number = {"caltech101": "Table 1", "imagenet50": "Table 2"}.get(run.data.name, "Tables 1 and 2")
    return [Heading(f"{number}: mean average precision"), TableBlock(columns, rows, best), Text(_HOW_TO_READ)]


_SHOWN_MEASURES = ("mAP", "macro_mAP", "P@1", "P@10")
_HOW_TO_READ = (
    "Mean and standard deviation over the splits. Every test row is a query that ranks all other test rows; macro mAP "
    "is the mean over classes, so that a rare class counts as much as a common one. The lead of SLR is in points of "
    "mAP, on the splits of both methods."
)


# -- Table 3: training time of each method on the first split, at the setting it chose --------------------------------

TIMES = "times"
# Table 3 as published: minutes on twelve cores of 2.4 GHz.
PUBLISHED_MINUTES: dict[str, dict[str, float]] = {
    "caltech101": {"LMNN": 725.5, "FRML": 766.8, "OASIS": 249.5, "SLR": 3.2},
    "imagenet50": {"LMNN": 521.0, "FRML": 609.3, "OASIS": 614.6, "SLR": 30.0},
}


def times_tasks(run: PaperRun) -> Iterator[Task]:
    for name in run.methods:
        if name not in ("Euclid", "Cosine"):
            yield Task((TIMES, name, 0), partial(_times_work, run, name))


def _times_work(run: PaperRun, name: str) -> Done:
    """A fit without search, after a warm-up."""
    split, model, first = run.protocol.split(0), run.model(name), _first(run, name)
    warm_up(name, model, split.X, split.y)
    setting = {} if first is None else first.setting
    seconds = timed_fit(at_setting(name, model, setting), split.X, split.y)
    return Done([Cell(TIMES, name, 0, "", {}, setting, seconds)])


def _first(run: PaperRun, name: str) -> Cell | None:
    """The cell of the tables on the first split."""
    return next((cell for cell in run.journal.cells("tables", name) if cell.split == 0), None)


def times_section(run: PaperRun) -> list[Block]:
    names = run.journal.methods(TIMES, default_methods(run.protocol.n_train))
    if not names:
        return []
    theirs, slr, rows = PUBLISHED_MINUTES.get(run.data.name, {}), run.journal.seconds(TIMES, "SLR"), []
    for name in names:
        cell, first = run.journal.cells(TIMES, name)[0], _first(run, name)
        trained, tuned, setting, searched = cell.seconds["fit_seconds"], hasattr(rivals, name), "", ""
        if tuned:
            setting = ", ".join(f"{key} = {short(value)}" for key, value in cell.setting.items())
        if cell.setting:  # the first fit of a rival searched before it trained
            searched = duration(max(0.0, first.seconds["fit_seconds"] - trained)) if tuned and first else "within"
        times, processor = f"{trained / slr:.3g}" if slr else "", duration(cell.seconds["fit_cpu_seconds"])
        published = [f"{theirs[name]:g}", f"{theirs[name] / theirs['SLR']:.3g}"] if name in theirs else ["", ""]
        rows.append([name, duration(trained), times, processor, searched, setting, *(published if theirs else [])])
    columns = ["method", "training", "times SLR", "processor time", "search before", "setting"]
    columns += ["paper, minutes", "paper, times SLR"] if theirs else []
    text = (
        "One fit per method on the first split, one after the other in this run, at the setting chosen on the training "
        "rows; compilation is not timed. The search of a rival is listed separately; our methods choose their settings "
        "within their training time. If the load while running, below, exceeds the cores, the ratios are rough."
    )
    return [Heading("Table 3: training time"), TableBlock(columns, rows), Text(text)]


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
    seconds = timed_fit(model, split.X, split.y)
    G, y_g = (split.Q, None) if choice.gallery == "test" else (split.X, split.y)
    values = figures(model.transform_query(split.Q), model.transform(G), split.y_q, y_g)
    return Done([Cell(CHOICES, name, number, choice.name, values, {}, seconds)])


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
