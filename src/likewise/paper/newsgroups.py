"""The documents experiment, on sparse rows: cosine of tf-idf, LSA, LSA + LDA, and the methods that learn."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import lru_cache, partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.preprocessing import normalize

from likewise import baselines
from likewise.core.truncated_whitening import AUTOMATIC_WIDTH, leading_directions
from likewise.paper.cells import Cell, Done
from likewise.paper.markdown import Block, Heading, TableBlock, Text
from likewise.paper.methods import fit, method
from likewise.paper.run import PaperRun, Task
from likewise.paper.tables import figures
from likewise.paper.words import duration, mean_and_deviation

__all__ = ["order_of", "scores", "seconds", "section", "tasks"]

EXPERIMENT = "documents"
RAW = "tf-idf cosine"
WIDTHS = (100, 300, AUTOMATIC_WIDTH)
LEARNED = ("SLR-Fixed", "SLR", "AnchoredSLR")


def methods(run: PaperRun) -> list[str]:
    """The methods of the table, for rows of this width."""
    widths = [p for p in WIDTHS if p < min(run.protocol.n_train, run.data.X.shape[1])]
    lsa = [f"LSA {p} {what}" for what in ("cosine", "+ LDA cosine") for p in widths]
    return [RAW, *lsa, *LEARNED]


def tasks(run: PaperRun) -> Iterator[Task]:
    """One task per method and split, if the rows are sparse."""
    if not sp.issparse(run.data.X):
        return
    split = lru_cache(maxsize=1)(partial(_split, run))
    for number in range(run.n_splits):
        for name in methods(run):
            yield Task((EXPERIMENT, name, number), partial(_work, run, split, name, number))


class _SparseSplit:
    """Sparse training and test rows of unit length, and their leading directions, computed once."""

    def __init__(self, X: Any, y: np.ndarray, Q: Any, y_q: np.ndarray) -> None:
        self.X, self.y, self.Q, self.y_q = X, y, Q, y_q
        self.lsa = lru_cache(maxsize=1)(self._lsa)

    def _lsa(self, width: int) -> tuple[np.ndarray, float]:
        began = time.perf_counter()
        return leading_directions(self.X, None, width)[1], time.perf_counter() - began


def _split(run: PaperRun, number: int) -> _SparseSplit:
    train, test = run.protocol.rows(number)
    scaled = normalize if run.settings.normalise else lambda X: X
    X, y = run.data.X, run.data.y
    return _SparseSplit(scaled(X[train]), y[train], scaled(X[test]), y[test])


def _work(run: PaperRun, split_of: Any, name: str, number: int) -> Done:
    split = split_of(number)
    values, setting, seconds = _measured(run, split, name, number)
    cell = Cell(EXPERIMENT, name, number, "", values, setting, seconds)
    return Done((EXPERIMENT, name, number), [cell], {})


def _measured(
    run: PaperRun, split: _SparseSplit, name: str, number: int
) -> tuple[dict[str, float], dict[str, Any], dict[str, float]]:
    """Metrics on the test rows, the chosen setting, and the training time."""
    if name == RAW:
        Q = normalize(split.Q)
        return figures(Q, Q, split.y_q), {}, {}
    if not name.startswith("LSA"):
        found = fit(method(name, run.settings, run.budget, run.settings.seed + number).model, split.X, split.y)
        sides = found.model.transform_query(split.Q), found.model.transform(split.Q)
        return figures(*sides, split.y_q), found.setting, found.seconds
    V, began = split.lsa(max(p for p in WIDTHS if f"LSA {p} cosine" in methods(run)))
    V = V[:, : int(name.split()[1])]
    model = baselines.LDA(random_state=run.settings.seed + number) if "LDA" in name else baselines.Cosine()
    found = fit(model, split.X @ V, split.y)
    sides = found.model.transform_query(split.Q @ V), found.model.transform(split.Q @ V)
    return figures(*sides, split.y_q), found.setting, {k: v + began for k, v in found.seconds.items()}


# ---------------------------------------------------------------------------------------------------------------------
# The page


def order_of(run: PaperRun) -> list[str]:
    """The methods with results, in the order of the table."""
    return run.journal.methods(EXPERIMENT, methods(run))


def scores(run: PaperRun, name: str, measure: str = "mAP") -> dict[int, float]:
    """A metric of a method by split, in per cent."""
    return {cell.split: 100 * cell.values[measure] for cell in run.journal.cells(EXPERIMENT, name)}


def seconds(run: PaperRun, name: str) -> float | None:
    """Mean training time over the splits, in seconds."""
    found = [cell.seconds["fit_seconds"] for cell in run.journal.cells(EXPERIMENT, name) if cell.seconds]
    return float(np.mean(found)) if found else None


def section(run: PaperRun) -> list[Block]:
    """The table; empty for dense rows."""
    names = order_of(run)
    if not names:
        return []
    rows = [
        [
            name,
            *(mean_and_deviation(list(scores(run, name, measure).values())) for measure in ("mAP", "P@1", "P@10")),
            str(len(scores(run, name))),
            "" if seconds(run, name) is None else duration(seconds(run, name) or 0.0),
        ]
        for name in names
    ]
    best = int(np.argmax([np.mean(list(scores(run, name).values())) for name in names]))
    columns = ["method", "mAP %", "P@1 %", "P@10 %", "splits", "learning"]
    return [Heading("Documents as sparse rows"), Text(_LEAD), TableBlock(columns, rows, best)]


_LEAD = (
    "Rows are sparse, scaled to unit length, and never converted to dense: SLR and AnchoredSLR learn in their "
    f"{AUTOMATIC_WIDTH:,} leading directions (whitening_width). LSA p is the cosine in the p leading directions of the "
    "same training rows; LSA p + LDA is a discriminant analysis there, with its shrinkage chosen on held-out training "
    "rows. Every test row is a query that ranks all other test rows."
)
