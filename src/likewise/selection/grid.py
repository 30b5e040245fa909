"""A search over a few settings on held-out training rows, scored by mean average precision."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from likewise.core.sampling import generator
from likewise.metrics import mean_average_precision
from likewise.selection.holdout import Split, inner_splits
from likewise.selection.results import CVResults

__all__ = ["Params", "Prepare", "Sides", "search_grid"]

Params = dict[str, Any]
Sides = Callable[[Any], tuple[np.ndarray, np.ndarray]]
"""Rows to their query and gallery sides."""
Prepare = Callable[[Any, np.ndarray], Callable[[Params], Sides]]
"""Training rows and class codes to a function that fits a setting; what all settings share is computed once."""


class _Timed(NamedTuple):
    score: float
    seconds: float


def search_grid(
    grid: Sequence[Params], prepare: Prepare, X: Any, y: np.ndarray, random_state: Any = None, holdout: str = "rows"
) -> CVResults:
    """Score every setting of a grid by the mAP of held-out rows among themselves.

    `holdout="classes"` holds out classes instead of rows: for galleries whose classes are not those of training. A
    grid of one setting is not searched; where nothing can be held out no setting has a score, and the first is best.
    """
    splits = inner_splits(y, generator(random_state), holdout) if len(grid) > 1 else []
    folds = [_fold(grid, prepare, X, y, split) for split in splits]
    results = CVResults()
    for i, params in enumerate(grid):
        tried = [fold[i] for fold in folds]
        seconds = sum(one.seconds for one in tried) if tried else None
        results.add(params, [one.score for one in tried], seconds)
    return results


def _fold(grid: Sequence[Params], prepare: Prepare, X: Any, y: np.ndarray, split: Split) -> list[_Timed]:
    """Every setting on one split."""
    codes = np.unique(y[split.train], return_inverse=True)[1]  # without gaps where classes are held out
    fit = prepare(X[split.train], codes)
    return [_timed(fit, params, X[split.held], y[split.held]) for params in grid]


def _timed(fit: Callable[[Params], Sides], params: Params, X: Any, y: np.ndarray) -> _Timed:
    began = time.perf_counter()
    score = float(mean_average_precision(*fit(params)(X), y))
    return _Timed(score, time.perf_counter() - began)
