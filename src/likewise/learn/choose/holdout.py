"""Held-out rows or classes to choose on, and their scores."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import check_cv

from likewise.evaluate import average_precisions
from likewise.learn.maths.labels import sample_rows, stratified_holdout

HELD_SHARE = 0.3
MOST_HELD = 5_000  # more held-out rows cost time and change no choice
MOST_HELD_PER_SPLIT = 2_000  # the same for each of several splits by class
FEW_HELD, MOST_DRAWS = 300, 4  # a choice on fewer held-out rows is noisy: draw several times


@dataclass(frozen=True)
class Split:
    """Row numbers to learn from, and held-out ones to rank."""

    train: np.ndarray
    held: np.ndarray


def given_splits(cv: Any, codes: np.ndarray, rows: np.ndarray) -> list[Split]:
    """The splits of scikit-learn's `cv` for rows with these class codes, in terms of some of the rows, numbered from 0.

    Such splits may depend on the order in which rows were given, as in scikit-learn.
    """
    number = np.full(len(codes), -1)
    number[rows] = np.arange(len(rows))
    splits = check_cv(cv, codes, classifier=True).split(np.zeros((len(codes), 1)), codes)
    return [Split(*(np.sort(part[part >= 0]) for part in (number[train], number[held]))) for train, held in splits]


def row_splits(codes: np.ndarray, rng: np.random.Generator) -> list[Split]:
    """30 % of each class, at least one row held out and one kept; up to four draws where they are few."""
    first = Split(*stratified_holdout(codes, _share(codes), rng))
    if not len(first.held):
        return []
    draws = min(-(-FEW_HELD // len(first.held)), MOST_DRAWS)
    return [first, *(Split(*stratified_holdout(codes, _share(codes), rng)) for _ in range(draws - 1))]


def inner_splits(codes: np.ndarray, rng: np.random.Generator, by: str = "rows") -> list[Split]:
    """Splits whose held-out rows rank each other: one by rows, or several by classes where there are at least four.

    By rows, at least two of a class are held out, so that each has something to find, and two stay. No split if no
    class has four rows.
    """
    if by == "classes" and len(np.unique(codes)) >= 4:
        return _limited_class_splits(codes, rng)
    train, held = stratified_holdout(codes, _share(codes), rng, least=2, spare=2)
    return [Split(train, held)] if len(held) else []


def _share(codes: np.ndarray) -> float:
    return min(HELD_SHARE, MOST_HELD / len(codes))


def _limited_class_splits(codes: np.ndarray, rng: np.random.Generator) -> list[Split]:
    """Splits by class with at most 2,000 held-out rows; drawn more often where classes are few."""
    splits = []
    for split in class_splits(codes, rng, repeats=2 if len(np.unique(codes)) > 20 else 4):
        held = split.held[sample_rows(len(split.held), MOST_HELD_PER_SPLIT, rng)]
        if np.unique(codes[held], return_counts=True)[1].max() > 1:
            splits.append(Split(split.train, held))
    return splits


def class_splits(codes: np.ndarray, rng: np.random.Generator, repeats: int) -> list[Split]:
    """Half of the classes held out, both ways, `repeats` times."""
    splits = []
    for _ in range(repeats):
        half = np.isin(codes, rng.permutation(np.unique(codes))[::2])
        one, other = np.flatnonzero(half), np.flatnonzero(~half)
        splits += [Split(one, other), Split(other, one)]
    return splits


def mean_of_found(values: np.ndarray) -> float:
    """Mean over the queries that have something to find; nan if none has."""
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if len(finite) else float("nan")


def each_score(Z: np.ndarray, codes: np.ndarray, Z_train: np.ndarray, codes_train: np.ndarray) -> np.ndarray:
    """Average precision of held-out rows Z among themselves; those alone in their class rank the training rows.

    nan where there is nothing to find.
    """
    together = np.bincount(codes)[codes] > 1
    alone = ~together & np.isin(codes, codes_train)
    values = np.full(len(codes), np.nan)
    if together.any():
        values[together] = average_precisions(Z, Z, codes)[together]
    if alone.any():
        values[alone] = average_precisions(Z[alone], Z_train, codes[alone], codes_train)
    return values
