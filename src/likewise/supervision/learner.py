"""What is asked of the estimator that is taught."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np

from likewise.core.initialization import Start
from likewise.core.solvers import Iterate

__all__ = ["Learner"]


class Learner(Protocol):
    """`SLR`, as this room sees it: its parameters, its loop, and where what was learned is kept."""

    rank: int | None
    alpha: float
    prior: str | None
    prior_strength: float | None
    sides: str
    rows: dict[str, Any] | None
    random_state: Any
    history_: list[dict[str, float]]
    n_iter_: int
    classes_: np.ndarray
    rank_: int
    condition_: float
    n_samples_: int
    n_gallery_features_: int
    unit_rows_: bool
    strength_: float
    strengths_: list[dict[str, float]]

    def _run(self, engine: Any, iterations: Iterator[Iterate], start: Start, *, pairs: float | None = None) -> Start:
        """Take the iterations that are left."""

    def _set_factors(self, L: np.ndarray, R: np.ndarray, dtype: Any) -> None:
        """Keep the factors of both sides."""

    def _set_one_side(self, M: np.ndarray, dtype: Any) -> None:
        """Keep the map of the side that is learned."""
