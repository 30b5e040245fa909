"""Holdouts on which the strength of a prior is chosen: classes, items or queries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from likewise.core.solvers import Solution
from likewise.data.relevance import Relevance
from likewise.data.shared_labels import SharedLabels
from likewise.metrics import mean_average_precision
from likewise.metrics.evaluation import graded_ndcg
from likewise.selection.holdout import class_splits
from likewise.supervision.reading import Supervision
from likewise.utils.arrays import dense

__all__ = ["Fold", "holdouts"]

MOST_HELD, MOST_SEEN = 1_000, 2_000  # more rows take time and hardly change the choice
REPEATS = 2

# What to learn from, and a score of how well the solution ranks the rest.
Fold = tuple[Supervision, Callable[[Solution], float]]


def holdouts(given: Supervision, rng: np.random.Generator) -> list[Fold]:
    """Parts to learn from, each with a function that scores a solution on the rest."""
    if isinstance(given.known, Relevance):
        return _query_folds(given, given.known, rng)
    if isinstance(given.known, SharedLabels):
        return _item_folds(given, given.known, rng)
    return _class_folds(given, given.known, rng)


def _class_folds(given: Supervision, codes: np.ndarray, rng: np.random.Generator) -> list[Fold]:
    """Half of the classes held out, both ways, a few times."""
    labelled = np.flatnonzero(codes >= 0)
    folds: list[Fold] = []
    for split in class_splits(codes[labelled], rng, REPEATS):
        seen, held = _some(labelled[split.train], MOST_SEEN, rng), _some(labelled[split.held], MOST_HELD, rng)
        if min(len(np.unique(codes[rows])) for rows in (seen, held)) < 2 or _all_differ(codes[held]):
            continue
        folds.append((given.part(seen), _ranks_classes(given.X[held], codes[held])))
    return folds


def _all_differ(codes: np.ndarray) -> bool:
    return len(np.unique(codes)) == len(codes)


def _ranks_classes(X: Any, codes: np.ndarray) -> Callable[[Solution], float]:
    def score(solution: Solution) -> float:
        return float(mean_average_precision(_moved(X, solution), dense(X), codes))

    return score


def _item_folds(given: Supervision, shared: SharedLabels, rng: np.random.Generator) -> list[Fold]:
    """Half of the items held out, both ways, a few times."""
    labelled = np.flatnonzero(shared.n_labels)
    folds: list[Fold] = []
    for _ in range(REPEATS):
        order = rng.permutation(labelled)
        for seen, held in ((order[::2], order[1::2]), (order[1::2], order[::2])):
            seen, held = _some(seen, MOST_SEEN, rng), _some(held, MOST_HELD, rng)
            part = shared.take(held)
            R = part.tile(slice(None), slice(None))
            R.setdiag(0.0)
            folds.append((given.part(seen), _ranks_relevant(given.X[held], given.X[held], R, itself=True)))
    return folds


def _query_folds(given: Supervision, relevance: Relevance, rng: np.random.Generator) -> list[Fold]:
    """Half of the queries held out, both ways, each ranking the items of known relevance to it.

    Where no item is known to be irrelevant, as with clicks alone, all unknown ones count as that.
    """
    told = np.flatnonzero(np.asarray(abs(relevance.R).sum(axis=1)).ravel() > 0)
    if len(told) < 4:
        return []
    order, folds = rng.permutation(told), list[Fold]()
    only_known = relevance.unstored == "unknown" and bool((relevance.R.data <= 0).any())
    for seen, held in ((order[::2], order[1::2]), (order[1::2], order[::2])):
        seen, held = _some(seen, MOST_SEEN // 2, rng), _some(held, MOST_HELD // 2, rng)
        score = _ranks_relevant(given.X[held], given.gallery, relevance.R[held], only_known=only_known)
        folds.append((given.part(seen), score))
    return folds


def _ranks_relevant(
    Q: Any, G: Any, R: Any, itself: bool = False, only_known: bool = False
) -> Callable[[Solution], float]:
    def score(solution: Solution) -> float:
        return graded_ndcg(_moved(Q, solution), dense(G), R, itself=itself, only_known=only_known)

    return score


def _some(rows: np.ndarray, most: int, rng: np.random.Generator) -> np.ndarray:
    return np.sort(rng.permutation(rows)[:most])


def _moved(Q: Any, solution: Solution) -> np.ndarray:
    return np.asarray(dense(Q) @ solution.matrix().astype(Q.dtype))
