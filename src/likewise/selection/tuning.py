"""The small search of every baseline: an inner holdout of the training data, by rows or by classes, scored by mAP."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from likewise.metrics import mean_average_precision
from likewise.selection.holdout import class_splits
from likewise.utils.random import generator

__all__ = ["Setting", "Sides", "choose", "class_holdouts", "stratified_holdout", "stratified_subset"]

Setting = dict[str, Any]
Sides = Callable[[Any], tuple[np.ndarray, np.ndarray]]
"""Rows to their query and gallery sides."""

HELD_SHARE = 0.3
HELD_LIMIT = 5_000
"""More held-out rows than this cost time in scoring and change no choice."""
CLASS_HELD_LIMIT = 2_000
"""The same for each of several splits by class."""


def choose(
    settings: Sequence[Setting],
    fit: Callable[[Any, np.ndarray], Callable[[Setting], Sides]],
    X: Any,
    y: np.ndarray,
    random_state: Any = None,
    holdout: str = "rows",
) -> tuple[Setting, dict[str, list[Any]]]:
    """The setting with the best mAP of held-out rows among themselves, and what every setting reached.

    `fit` takes the training part once and returns a function from a setting to its two sides, so that what all
    settings have in common is computed once. `holdout="classes"` holds out classes in place of rows: for galleries
    whose classes are not those of training. The first setting is taken when nothing can be held out.
    """
    parts = _parts(y, random_state, holdout) if len(settings) > 1 else []
    if not parts:
        return settings[0], {"settings": [settings[0]], "score": []}
    scores = np.mean([_scores(settings, fit, X, y, *part) for part in parts], axis=0).tolist()
    return settings[int(np.argmax(scores))], {"settings": list(settings), "score": scores}


def _parts(y: np.ndarray, random_state: Any, holdout: str) -> list[tuple[np.ndarray, np.ndarray]]:
    """Training and held-out row numbers, as often as is needed."""
    if holdout == "classes" and len(np.unique(y)) >= 4:
        return class_holdouts(y, random_state)
    rows = stratified_holdout(y, random_state)
    return [] if rows is None else [rows]


def _scores(
    settings: Sequence[Setting],
    fit: Callable[[Any, np.ndarray], Callable[[Setting], Sides]],
    X: Any,
    y: np.ndarray,
    train: np.ndarray,
    held: np.ndarray,
) -> list[float]:
    codes = np.unique(y[train], return_inverse=True)[1]  # numbered anew: a class held out leaves no gap
    candidate = fit(X[train], codes)
    return [_score(candidate(setting), X[held], y[held]) for setting in settings]


def _score(sides: Sides, X: Any, y: np.ndarray) -> float:
    Q, G = sides(X)
    return float(mean_average_precision(Q, G, y))


def stratified_holdout(y: np.ndarray, random_state: Any = None) -> tuple[np.ndarray, np.ndarray] | None:
    """Row numbers of a training and a held-out part; None where no class has the four members it takes.

    At least two of a class are held out, so that each held-out query has something to find, and two stay.
    """
    rng = generator(random_state)
    share = min(HELD_SHARE, HELD_LIMIT / len(y))
    held = [rng.permutation(rows)[: max(2, round(share * len(rows)))] for rows in _rows_by_class(y) if len(rows) >= 4]
    if not held:
        return None
    chosen = np.sort(np.concatenate(held))
    return np.setdiff1d(np.arange(len(y)), chosen), chosen


def class_holdouts(y: np.ndarray, random_state: Any = None) -> list[tuple[np.ndarray, np.ndarray]]:
    """Half of the classes held out, both ways; oftener where classes are few and one draw says little."""
    rng = generator(random_state)
    splits = class_splits(y, rng, repeats=2 if len(np.unique(y)) > 20 else 4)
    parts = [(split.train, np.sort(rng.permutation(split.held)[:CLASS_HELD_LIMIT])) for split in splits]
    return [(train, held) for train, held in parts if np.unique(y[held], return_counts=True)[1].max() > 1]


def stratified_subset(y: np.ndarray, size: int | None, random_state: Any = None) -> np.ndarray:
    """About `size` row numbers, each class in its share but never below two members; all rows if they are fewer."""
    if size is None or len(y) <= size:
        return np.arange(len(y))
    rng = generator(random_state)
    share = size / len(y)
    return np.sort(
        np.concatenate([rng.permutation(rows)[: max(2, round(share * len(rows)))] for rows in _rows_by_class(y)])
    )


def _rows_by_class(y: np.ndarray) -> list[np.ndarray]:
    order = np.argsort(y, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(y[order])) + 1)
