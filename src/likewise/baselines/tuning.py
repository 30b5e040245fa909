"""The small search of every baseline: an inner stratified holdout of the training data, scored by mAP."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from likewise.metrics import mean_average_precision

__all__ = ["Setting", "Sides", "choose", "stratified_holdout", "stratified_subset"]

Setting = dict[str, Any]
Sides = Callable[[Any], tuple[np.ndarray, np.ndarray]]
"""Rows to their query and gallery sides."""

HELD_SHARE = 0.3
HELD_LIMIT = 5_000
"""More held-out rows than this cost time in scoring and change no choice."""


def choose(
    settings: Sequence[Setting],
    fit: Callable[[Any, np.ndarray], Callable[[Setting], Sides]],
    X: Any,
    y: np.ndarray,
    random_state: Any = None,
) -> tuple[Setting, dict[str, list[Any]]]:
    """The setting with the best mAP of held-out rows among themselves, and what every setting reached.

    `fit` takes the training part once and returns a function from a setting to its two sides, so that what all
    settings have in common is computed once. The first setting is taken when nothing can be held out.
    """
    parts = stratified_holdout(y, random_state) if len(settings) > 1 else None
    if parts is None:
        return settings[0], {"settings": [settings[0]], "score": []}
    train, held = parts
    candidate = fit(X[train], y[train])
    scores = [_score(candidate(setting), X[held], y[held]) for setting in settings]
    return settings[int(np.argmax(scores))], {"settings": list(settings), "score": scores}


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


def generator(random_state: Any) -> np.random.Generator:
    """A generator from scikit-learn's kind of seed; None means seed 0, so that a fit can be repeated."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if random_state is None:
        return np.random.default_rng(0)
    return np.random.default_rng(check_random_state(random_state).randint(2**31))
