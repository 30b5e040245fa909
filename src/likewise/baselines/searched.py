"""Linear baselines with one setting that matters, such as a shrinkage or a ridge."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from likewise.baselines.common import LinearBaseline, linear_sides
from likewise.selection.grid import Params, Sides

__all__ = ["SearchedLinear", "Solver"]

Solver = Callable[[float], tuple[np.ndarray, np.ndarray]]
"""From the setting to components (r, d) and their offset (r,)."""


class SearchedLinear(LinearBaseline):
    """`fit` for all of them: a subclass names its setting in `_grids` and solves for it.

    The parameter of that name is a number, or "auto" for the best of `grid`; the value used ends in an underscore.
    """

    grid: tuple[float, ...]
    holdout: str

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from rows X and labels y; "auto" is chosen on held-out training rows."""
        X, codes = self._training_data(X, y)
        rows = self._rows(X)
        self.metric_ = self._metric()
        (name,) = self._grids
        chosen = float(self._best(self._candidates, rows, codes, self.holdout)[name])
        setattr(self, f"{name}_", chosen)
        components, offset = self._solver(rows, codes)(chosen)
        self.components_, self.offset_ = components.astype(X.dtype), offset.astype(X.dtype)
        return self

    def _candidates(self, X: np.ndarray, y: np.ndarray) -> Callable[[Params], Sides]:
        solve = self._solver(X, y)
        (name,) = self._grids
        return lambda params: linear_sides(*solve(params[name]), self.metric_)

    def _metric(self) -> str:
        return "cosine"

    def _solver(self, X: np.ndarray, y: np.ndarray) -> Solver:
        """Solve for any setting; what all settings share is computed here, once."""
        raise NotImplementedError
