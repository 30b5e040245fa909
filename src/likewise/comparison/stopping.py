"""The paper's SLR with its number of iterations, the setting that matters most, chosen on training rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from likewise.selection.grid import Params, Sides, search_grid
from likewise.slr import SLR

__all__ = ["StoppedSLR"]

ITERATIONS = (1, 2, 5, 10)  # ten are the paper's


class StoppedSLR:
    """SLR after the number of iterations that ranks held-out training rows best.

    Attributes
    ----------
    setting_ : the number of iterations, by name.
    model_ : SLR, learned from all rows.
    """

    def __init__(self, random_state: Any = None) -> None:
        self.random_state = random_state

    def fit(self, X: Any, y: np.ndarray) -> Self:
        """Choose on 30 % of each class, then learn from all rows."""
        grid = [{"n_iter": T} for T in ITERATIONS]
        self.setting_ = search_grid(grid, self._candidates, X, y, self.random_state).best_params
        self.model_ = self._model(self.setting_).fit(X, y)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """The gallery side of rows."""
        return self.model_.transform(X)

    def transform_query(self, X: Any) -> np.ndarray:
        """The query side of rows."""
        return self.model_.transform_query(X)

    def _candidates(self, X: Any, y: np.ndarray) -> Callable[[Params], Sides]:
        def sides(params: Params) -> Sides:
            model = self._model(params).fit(X, y)
            return lambda rows: (model.transform_query(rows), model.transform(rows))

        return sides

    def _model(self, params: Params) -> SLR:
        return SLR(**params, random_state=self.random_state)
