"""A linear baseline with one setting that matters, taken from a grid by held-out training rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np

from likewise.baselines.common import LinearBaseline, linear_sides, unit_rows
from likewise.selection.tuning import Setting, Sides, choose

__all__ = ["SearchedLinear", "Solver"]

Solver = Callable[[float], tuple[np.ndarray, np.ndarray]]
"""From the setting to components (r, d) and their offset (r,)."""


class SearchedLinear(LinearBaseline):
    """`fit` for all of them: a subclass names its setting and solves for it.

    The parameter of that name is a number, or "auto" for the best of `grid`; what was taken ends in an underscore.
    """

    _searched: ClassVar[str]
    normalize: bool
    grid: tuple[float, ...]
    random_state: Any
    holdout: str

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from rows X and labels y; "auto" is settled on held-out training rows."""
        X, codes = self._training_data(X, y)
        rows = unit_rows(X) if self.normalize else X
        self.metric_ = self._metric()
        given = getattr(self, self._searched)
        settings = [{self._searched: a} for a in (self.grid if given == "auto" else [given])]
        best, self.cv_results_ = choose(settings, self._candidates, rows, codes, self.random_state, self.holdout)
        taken = float(best[self._searched])
        setattr(self, f"{self._searched}_", taken)
        components, offset = self._solver(rows, codes)(taken)
        self.components_, self.offset_ = components.astype(X.dtype), offset.astype(X.dtype)
        return self

    def _candidates(self, X: np.ndarray, y: np.ndarray) -> Callable[[Setting], Sides]:
        solve = self._solver(X, y)
        return lambda setting: linear_sides(*solve(setting[self._searched]), self.metric_)

    def _metric(self) -> str:
        return "cosine"

    def _solver(self, X: np.ndarray, y: np.ndarray) -> Solver:
        """What all settings have in common is computed here, once."""
        raise NotImplementedError
