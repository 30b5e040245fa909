"""The paper's SLR with its iterations, the setting it is sensitive to, chosen on training rows, as its rivals' are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from likewise.selection.tuning import Setting, Sides, choose
from likewise.slr import SLR

__all__ = ["StoppedSLR"]

ITERATIONS = (1, 2, 5, 10)  # ten are the paper's


class StoppedSLR:
    """SLR after as many iterations as rank held-out training rows best.

    Attributes
    ----------
    setting_ : the iterations taken.
    model_ : SLR, learned from all rows.
    """

    def __init__(self, random_state: Any = None) -> None:
        self.random_state = random_state

    def fit(self, X: Any, y: np.ndarray) -> Self:
        """Choose on 30 % of each class, then learn from all rows."""
        settings = [{"n_iter": T} for T in ITERATIONS]
        self.setting_, _ = choose(settings, self._candidates, X, y, self.random_state)
        self.model_ = self._model(self.setting_).fit(X, y)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """The gallery side of rows."""
        return self.model_.transform(X)

    def transform_query(self, X: Any) -> np.ndarray:
        """The query side of rows."""
        return self.model_.transform_query(X)

    def _candidates(self, X: Any, y: np.ndarray) -> Callable[[Setting], Sides]:
        def sides(setting: Setting) -> Sides:
            model = self._model(setting).fit(X, y)
            return lambda rows: (model.transform_query(rows), model.transform(rows))

        return sides

    def _model(self, setting: Setting) -> SLR:
        return SLR(**setting, random_state=self.random_state)
