"""The documents experiment, on sparse rows: cosine of tf-idf, LSA, LSA + LDA, and the methods that learn."""

import time
from collections.abc import Callable, Iterator
from functools import lru_cache, partial

import numpy as np
import scipy.sparse as sp
from sklearn.preprocessing import normalize

from likewise import rivals
from likewise.learn.maths.scatter import AUTOMATIC_WIDTH, leading_directions
from likewise.paper.cells import Cell, Done
from likewise.paper.run import PaperRun, Task
from likewise.paper.tables import figures, measured, score_table
from likewise.rivals.compare.methods import timed_fit
from likewise.utils.reporting.report import Block, Heading, TableBlock, Text
from likewise.utils.wording import duration

EXPERIMENT = "documents"
RAW = "tf-idf cosine"
WIDTHS = (100, 300, AUTOMATIC_WIDTH)
LEARNED = ("SLR-Fixed", "SLR", "SimilarityLearner")


def methods(run: PaperRun) -> list[str]:
    """The methods of the table, for rows of this width."""
    widths = [p for p in WIDTHS if p < min(run.protocol.n_train, run.data.X.shape[1])]
    lsa = [f"LSA {p} {what}" for what in ("cosine", "+ LDA cosine") for p in widths]
    return [RAW, *lsa, *LEARNED]


def tasks(run: PaperRun) -> Iterator[Task]:
    """One task per method and split, if the rows are sparse."""
    if not sp.issparse(run.data.X):
        return
    split = lru_cache(maxsize=1)(partial(_SparseSplit, run))
    for number in range(run.n_splits):
        for name in methods(run):
            yield Task((EXPERIMENT, name, number), partial(_work, run, split, name, number))


class _SparseSplit:
    """Sparse training and test rows of unit length, and their leading directions, computed once."""

    def __init__(self, run: PaperRun, number: int) -> None:
        train, test = run.protocol.rows(number)
        scaled = normalize if run.settings.normalize else lambda X: X
        self.X, self.Q = (scaled(run.data.X[rows]) for rows in (train, test))
        self.y, self.y_q = run.data.y[train], run.data.y[test]
        self.lsa = lru_cache(maxsize=1)(self._lsa)

    def _lsa(self, width: int) -> tuple[np.ndarray, float]:
        began = time.perf_counter()
        return leading_directions(self.X, None, width)[1], time.perf_counter() - began


def _work(run: PaperRun, split_of: Callable[[int], _SparseSplit], name: str, number: int) -> Done:
    split = split_of(number)
    if name == RAW:
        Q = normalize(split.Q)
        return Done([Cell(EXPERIMENT, name, number, "", figures(Q, Q, split.y_q))])
    if name.startswith("LSA"):
        return Done([_lsa_cell(run, split, name, number)])
    fitted = timed_fit(run.model(name, number), split.X, split.y)
    return Done([Cell(EXPERIMENT, name, number, "", measured(fitted.model, split), fitted.setting, fitted.seconds)])


def _lsa_cell(run: PaperRun, split: _SparseSplit, name: str, number: int) -> Cell:
    """A cosine in the leading directions, whose time counts as training."""
    V, taken = split.lsa(max(p for p in WIDTHS if f"LSA {p} cosine" in methods(run)))
    V = V[:, : int(name.split()[1])]
    model = rivals.LDA(random_state=run.settings.seed + number) if "LDA" in name else rivals.Cosine()
    fitted = timed_fit(model, split.X @ V, split.y)
    Q = split.Q @ V
    values = figures(model.transform_query(Q), model.transform(Q), split.y_q)
    seconds = {clock: value + taken for clock, value in fitted.seconds.items()}
    return Cell(EXPERIMENT, name, number, "", values, fitted.setting, seconds)


def order_of(run: PaperRun) -> list[str]:
    """The methods with results, in the order of the table."""
    return run.journal.methods(EXPERIMENT, methods(run))


def section(run: PaperRun) -> list[Block]:
    """The table; empty for dense rows."""
    names = order_of(run)
    if not names:
        return []
    columns, rows, best = score_table(run, EXPERIMENT, names, ("mAP", "P@1", "P@10"))
    for name, row in zip(names, rows, strict=True):
        taken = run.journal.seconds(EXPERIMENT, name)
        row.append("" if taken is None else duration(taken))
    return [Heading("Documents as sparse rows"), Text(_LEAD), TableBlock([*columns, "learning"], rows, best)]


_LEAD = (
    "Rows are sparse, scaled to unit length, and never converted to dense: SLR and SimilarityLearner learn in their "
    f"{AUTOMATIC_WIDTH:,} leading directions (whitening_width). LSA p is the cosine in the p leading directions of the "
    "same training rows; LSA p + LDA is a discriminant analysis there, with its shrinkage chosen on held-out training "
    "rows. Every test row is a query that ranks all other test rows."
)
