"""What is held out to choose the strength of a prior: classes, items or queries, each with a score of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from likewise.data.relevance import Relevance
from likewise.data.shared_labels import SharedLabels
from likewise.metrics import mean_average_precision
from likewise.metrics.evaluation import graded_ndcg
from likewise.selection.holdout import class_splits
from likewise.supervision.learning import Learned
from likewise.supervision.lessons import Given

__all__ = ["Fold", "holdouts"]

MOST_HELD, MOST_SEEN = 1_000, 2_000  # more rows cost time and change no choice
REPEATS = 2

# What to learn from, and how well what was learned ranks the rest.
Fold = tuple[Given, Callable[[Learned], float]]


def holdouts(given: Given, rng: np.random.Generator) -> list[Fold]:
    """Parts to learn from, each with a function that scores what was learned on the rest."""
    if isinstance(given.known, Relevance):
        return _query_folds(given, given.known, rng)
    if isinstance(given.known, SharedLabels):
        return _item_folds(given, given.known, rng)
    return _class_folds(given, given.known, rng)


def _class_folds(given: Given, codes: np.ndarray, rng: np.random.Generator) -> list[Fold]:
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


def _ranks_classes(X: Any, codes: np.ndarray) -> Callable[[Learned], float]:
    def score(learned: Learned) -> float:
        return float(mean_average_precision(_moved(X, learned), _dense(X), codes))

    return score


def _item_folds(given: Given, shared: SharedLabels, rng: np.random.Generator) -> list[Fold]:
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


def _query_folds(given: Given, relevance: Relevance, rng: np.random.Generator) -> list[Fold]:
    """A half of the queries held out, both ways, each to rank the items whose relevance to it is known.

    Where nothing is known to be irrelevant, as with clicks alone, everything unknown counts as that.
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
) -> Callable[[Learned], float]:
    def score(learned: Learned) -> float:
        return graded_ndcg(_moved(Q, learned), _dense(G), R, itself=itself, only_known=only_known)

    return score


def _some(rows: np.ndarray, most: int, rng: np.random.Generator) -> np.ndarray:
    return np.sort(rng.permutation(rows)[:most])


def _moved(Q: Any, learned: Learned) -> np.ndarray:
    return np.asarray(_dense(Q) @ learned.matrix().astype(Q.dtype))


def _dense(X: Any) -> np.ndarray:
    return np.asarray(X.toarray() if hasattr(X, "toarray") else X)
