"""Choosing by what was held out: splits of rows or of classes, scored by mean average precision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import check_cv

from likewise.metrics import average_precisions

__all__ = ["Split", "class_splits", "each_score", "mean_of_found", "row_splits", "score"]

HELD_SHARE = 0.3
MOST_HELD = 5_000  # more held-out rows cost time and change no choice
FEW_HELD, MOST_DRAWS = 300, 4  # fewer of them choose by luck: they are drawn again


@dataclass(frozen=True)
class Split:
    """Row numbers to learn from, and held-out ones to rank by."""

    train: np.ndarray
    held: np.ndarray


def row_splits(codes: np.ndarray, cv: Any, rng: np.random.Generator, there: Any = None) -> list[Split]:
    """A stratified holdout if cv is None, several if it would be small; else what scikit-learn makes of cv.

    `there` tells which rows count; the splits are over those, numbered anew.
    """
    there = np.arange(len(codes)) if there is None else np.arange(len(codes))[there]
    if cv is None:
        return _stratified(codes[there], rng)
    number = np.full(len(codes), -1)
    number[there] = np.arange(len(there))
    splits = check_cv(cv, codes, classifier=True).split(np.zeros((len(codes), 1)), codes)
    return [Split(*(part[part >= 0] for part in (number[train], number[held]))) for train, held in splits]


def _stratified(codes: np.ndarray, rng: np.random.Generator) -> list[Split]:
    """30 % of each class; at least one, and one at least stays. Up to four draws where they are few."""
    share = min(HELD_SHARE, MOST_HELD / len(codes))
    sizes = [(rows, max(1, round(share * len(rows)))) for rows in _by_class(codes) if len(rows) > 1]
    if not sizes:
        return []
    draws = -(-FEW_HELD // sum(size for _, size in sizes))
    return [_holdout(sizes, len(codes), rng) for _ in range(min(draws, MOST_DRAWS))]


def _holdout(sizes: list[tuple[np.ndarray, int]], n: int, rng: np.random.Generator) -> Split:
    """So many of the rows of each class, drawn."""
    held = np.sort(np.concatenate([rng.permutation(rows)[:size] for rows, size in sizes]))
    return Split(np.setdiff1d(np.arange(n), held), held)


def class_splits(codes: np.ndarray, rng: np.random.Generator, repeats: int) -> list[Split]:
    """Half of the classes held out, both ways, a few times."""
    splits = []
    for _ in range(repeats):
        half = np.isin(codes, rng.permutation(np.unique(codes))[::2])
        one, other = np.flatnonzero(half), np.flatnonzero(~half)
        splits += [Split(one, other), Split(other, one)]
    return splits


def score(Z: np.ndarray, codes: np.ndarray, Z_train: np.ndarray, codes_train: np.ndarray) -> float:
    """mAP of held-out rows Z among themselves; those alone in their class rank the training rows instead.

    nan if no query has anything to find.
    """
    return mean_of_found(each_score(Z, codes, Z_train, codes_train))


def mean_of_found(values: np.ndarray) -> float:
    """Mean over the queries that have something to find; nan if none has."""
    found = values[np.isfinite(values)]
    return float(found.mean()) if len(found) else float("nan")


def each_score(Z: np.ndarray, codes: np.ndarray, Z_train: np.ndarray, codes_train: np.ndarray) -> np.ndarray:
    """What `score` is the mean of: the average precision of each held-out row, nan where there is nothing to find."""
    together = np.bincount(codes)[codes] > 1
    alone = ~together & np.isin(codes, codes_train)
    values = np.full(len(codes), np.nan)
    if together.any():
        values[together] = average_precisions(Z, Z, codes)[together]
    if alone.any():
        values[alone] = average_precisions(Z[alone], Z_train, codes[alone], codes_train)
    return values


def _by_class(codes: np.ndarray) -> list[np.ndarray]:
    order = np.argsort(codes, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)
