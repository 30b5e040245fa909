"""Do probabilities, cut-offs and "unlike anything known" keep what they say? The figures of docs/confidence.md.

usage: python -m benchmarks.confidence calibration [-o CURVES.png] DATA ...   expected calibration error, and its curves
       python -m benchmarks.confidence promise [-n SPLITS] DATA ...   share wrong under a cut-off, and recall
       python -m benchmarks.confidence unknown DATA ...       AUROC of unknown classes, half of the classes held out

`promise` keeps what each split gave in promise.jsonl, so that a run that was stopped goes on.
DATA are labelled tables or feature stores (`python -m benchmarks.comparisons prepare DIR` writes some).
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from benchmarks.__main__ import show
from likewise import SimilarityLearner
from likewise.evaluate.calibration import Calibration, Reliability, balanced, reliability
from likewise.rows import read_table
from likewise.search import Index
from likewise.teach import Teacher
from likewise.utils.reporting.charts import Line, chart

CUTS = (0.05, 0.1, 0.2)
SPLITS, LEARNED, ASKED = 200, 1_000, 1_000  # rows of a split of the promise
TAUGHT, LABELS = 3, 10  # unknown classes that are taught, and labels of each


def read(source: str) -> tuple[np.ndarray, np.ndarray]:
    """Rows and class codes."""
    table = read_table(source).labelled()
    return np.asarray(table.X, np.float32), np.unique(table.y, return_inverse=True)[1]


# -- Calibration ------------------------------------------------------------------------------------------------------


def calibration(sources: list[str], picture: str | None = None) -> None:
    """70 % of each class are learned from; the others rank each other, and the rows learned from."""
    grid = Table("data", "gallery", "rows", "base rate", "all pairs", "even odds", "first 20 results")
    lines = [Line("as stated", (0.0, 1.0), (0.0, 1.0), style="--", markers=False)]
    for source in sources:
        X, y = read(source)
        learned, queries = train_test_split(np.arange(len(X)), test_size=0.3, stratify=y, random_state=0)
        model = SimilarityLearner(random_state=0).fit(X[learned], y[learned])
        for rows, name in ((queries, "new"), (learned, "learned")):
            S, same = ranked(model, X, y, queries, rows)
            curves = _curves(model.calibration, S, same, int(rows is learned))
            figures = [f"{curve.error:.3f}" for curve in curves]
            grid.add_row(Path(source).stem, name, f"{len(rows):,}", f"{same.mean():.3f}", *figures)
            if rows is queries:
                lines.append(Line(Path(source).stem, curves[1].stated, curves[1].observed))
    show("expected calibration error, 15 bins", grid)
    if picture is not None:
        print(chart(Path(picture), lines, "stated probability of a new pair, at even odds", "share that match"))


def ranked(model: Any, X: np.ndarray, y: np.ndarray, queries: np.ndarray, gallery: np.ndarray) -> tuple[Any, Any]:
    """Scores of queries with a gallery, best first and themselves left out, and whether they match."""
    S, same = model.similarity(X[queries], X[gallery]), y[queries][:, None] == y[gallery]
    is_gallery = queries is gallery
    if is_gallery:
        np.fill_diagonal(S, -np.inf)
    order = np.argsort(-S, axis=1, kind="stable")[:, : len(gallery) - is_gallery]
    return np.take_along_axis(S, order, axis=1), np.take_along_axis(same, order, axis=1)


def _curves(calibration: Calibration, S: np.ndarray, same: np.ndarray, n_learned: int) -> tuple[Reliability, ...]:
    """Of all pairs; of pairs at even odds; of the first 20 of each query."""
    P, even = calibration.probability(S, n_learned), calibration.probability(S, n_learned, base_rate=0.5)
    first = reliability(P[:, :20], same[:, :20])
    return reliability(P, same), reliability(even, same, sample_weight=balanced(same)), first


# -- The promise ------------------------------------------------------------------------------------------------------


def promise(sources: list[str], splits: int) -> None:
    """Learn from some rows of all classes, or of half of them; ask by others."""
    grid = Table("data", "classes", "gallery", "allowed", "wrong", "recall", "nothing returned")
    cache = _Kept(Path("promise.jsonl"))
    for source in sources:
        X, y = read(source)
        for kind, n in (("seen", splits), ("unseen", max(1, splits // 10))):
            outcomes = np.array([cache.of(source, kind, seed, X, y) for seed in range(n)])
            for place, name in enumerate(("new", "learned")[: outcomes.shape[1]]):
                for cut, values in zip(CUTS, outcomes[:, place].mean(axis=0), strict=True):
                    grid.add_row(Path(source).stem, kind, name, f"{cut:.0%}", *(f"{value:.3f}" for value in values))
            print(f"{source}: {n} splits of {kind} classes", file=sys.stderr)
    show(f"mean over {splits} splits of {LEARNED:,} rows learned from and {ASKED:,} others", grid)


class _Kept:
    """Outcomes of splits, computed or read from a file, which grows by one line each."""

    def __init__(self, path: Path) -> None:
        lines = path.read_text().splitlines() if path.exists() else []
        self._path, self._known = path, {tuple(key): value for key, value in map(json.loads, lines)}

    def of(self, source: str, kind: str, seed: int, X: np.ndarray, y: np.ndarray) -> Any:
        key = (Path(source).stem, kind, seed)
        if key not in self._known:
            self._known[key] = [*_outcomes(X, y, seed, kind == "unseen")]
            with self._path.open("a") as file:
                file.write(json.dumps([key, self._known[key]]) + "\n")
        return self._known[key]


def _outcomes(X: np.ndarray, y: np.ndarray, seed: int, unseen: bool) -> Iterator[list[tuple[float, float, float]]]:
    rng = np.random.default_rng(seed)
    is_known = np.isin(y, rng.permutation(np.unique(y))[::2]) if unseen else np.ones(len(y), bool)
    order = rng.permutation(np.flatnonzero(is_known))
    learned, rest = order[:LEARNED], np.flatnonzero(~is_known) if unseen else order[LEARNED:]
    queries = rng.permutation(rest)[:ASKED]
    model = SimilarityLearner(random_state=seed).fit(X[learned], y[learned])
    for rows in (queries,) if unseen else (queries, learned):
        S, same = ranked(model, X, y, queries, rows)
        yield [_cut(model.calibration, S, same, int(rows is learned), cut) for cut in CUTS]


def _cut(
    calibration: Calibration, S: np.ndarray, same: np.ndarray, n_learned: int, cut: float
) -> tuple[float, float, float]:
    """Mean share of wrong results, recall, and share of queries without a result; queries have something to find."""
    S, same = S[same.any(axis=1)], same[same.any(axis=1)]
    n = calibration.n_results(calibration.probability(S, n_learned), cut, n_learned)
    right = (same & (np.arange(same.shape[1]) < n[:, None])).sum(axis=1)
    wrong, recall = (n - right) / np.maximum(n, 1), right / same.sum(axis=1)
    return float(wrong.mean()), float(recall.mean()), float((n == 0).mean())


# -- Unknown ----------------------------------------------------------------------------------------------------------


def unknown(sources: list[str], draws: int = 5) -> None:
    """Half of the classes are unknown; of the known ones 30 % of the rows are held out."""
    heads = ("AUROC", "lowest", "known marked", "unknown marked", "mAP of the known", "AUROC by similarity")
    grid = Table("data", *heads, f"{TAUGHT} taught: AUROC", "lowest", "of them marked before", "after")
    for source in sources:
        X, y = read(source)
        shares = np.array([_separation(X, y, seed) for seed in range(draws)])
        (auroc, *others, after), (lowest, lowest_after) = shares.mean(axis=0), shares[:, [0, 5]].min(axis=0)
        figures = (auroc, lowest, *others[:4], others[4], lowest_after, others[5], after)
        grid.add_row(Path(source).stem, *(f"{figure:.3f}" for figure in figures))
    show(f"known against unknown classes, the mean of {draws} draws of half of the classes", grid)


def _separation(X: np.ndarray, y: np.ndarray, seed: int) -> tuple[float, ...]:
    rng = np.random.default_rng(seed)
    is_known = np.isin(y, rng.permutation(np.unique(y))[::2])
    learned, held = train_test_split(np.flatnonzero(is_known), test_size=0.3, stratify=y[is_known], random_state=seed)
    model = SimilarityLearner(random_state=seed).fit(X[learned], y[learned])
    strange = rng.permutation(np.flatnonzero(~is_known))[: len(held)]
    queries = np.concatenate([held, strange])
    novelty, nearest = model.novelty(X[queries]), model.similarity(X[queries], X[learned]).max(axis=1)
    marked, is_strange = novelty > 1, np.arange(len(queries)) >= len(held)
    return (
        roc_auc_score(is_strange, novelty),
        marked[~is_strange].mean(),
        marked[is_strange].mean(),
        model.score(X[held], y[held]),
        roc_auc_score(is_strange, -nearest),
        *_taught(model, X[queries], y[queries], is_strange, rng),
    )


def _taught(
    model: SimilarityLearner, X: np.ndarray, y: np.ndarray, is_strange: np.ndarray, rng: np.random.Generator
) -> tuple[float, ...]:
    """Some unknown classes are taught by ten labels each, and their other rows are known from then on."""
    classes, counts = np.unique(y[is_strange], return_counts=True)
    chosen = rng.permutation(classes[counts >= 2 * LABELS])[:TAUGHT]
    teacher, taught_rows = Teacher(Index.build(model, X)), np.zeros(len(y), bool)
    for name in chosen:
        rows = rng.permutation(np.flatnonzero(is_strange & (y == name)))[:LABELS]
        teacher.label(rows, f"set {name}")
        taught_rows[rows] = True
    taught, others = is_strange & np.isin(y, chosen), ~taught_rows
    novelty = teacher.taught_by(teacher.state())[0].model.novelty(X)
    before, after = ((values[taught & others] > 1).mean() for values in (model.novelty(X), novelty))
    return roc_auc_score((is_strange & ~taught)[others], novelty[others]), before, after


def main() -> None:
    warnings.simplefilter("ignore")  # classes of one row
    match sys.argv[1:]:
        case ["calibration", "-o", picture, *sources]:
            calibration(sources, picture)
        case ["calibration", *sources]:
            calibration(sources)
        case ["promise", "-n", splits, *sources]:
            promise(sources, int(splits))
        case ["promise", *sources]:
            promise(sources, SPLITS)
        case ["unknown", *sources]:
            unknown(sources)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
