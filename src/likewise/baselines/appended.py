"""A linear baseline with its input beside it: what it learned, and what one had before, in one cosine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils._param_validation import StrOptions

from likewise.baselines.common import AUTO, HOLDOUT, SHARE, Baseline, LinearBaseline, linear_sides, unit_rows
from likewise.baselines.lda import GRID as SHRINKAGES
from likewise.baselines.lda import LDA
from likewise.baselines.ridge import GRID as ALPHAS
from likewise.baselines.ridge import RidgeOneHot
from likewise.selection.tuning import Setting, Sides, choose

__all__ = ["WithInput"]

_BASES: dict[str, tuple[type[LinearBaseline], str, tuple[float, ...]]] = {
    "lda": (LDA, "shrinkage", SHRINKAGES),
    "ridge": (RidgeOneHot, "alpha", ALPHAS),
}


class WithInput(Baseline):
    """Cosine of [√(1 − a) z, √a x]: z the image of a row at length 1, x the row itself, centred, at length 1.

    What a linear map throws away, because it told no two classes of training apart, may tell others apart.

    Parameters
    ----------
    base : "ridge" or "lda"
        The baseline that makes z.
    weight : float or "auto"
        a above, from 0 to 1. "auto" searches `weights` together with the baseline's own setting.
    holdout : "classes" or "rows"
        What is held out of the training data to choose by.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "base": [StrOptions(set(_BASES))],
        "weight": [SHARE, AUTO],
        "weights": ["array-like"],
        "holdout": [HOLDOUT],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        base: str = "ridge",
        weight: float | str = "auto",
        weights: tuple[float, ...] = (0.5, 0.1, 0.25, 0.75, 0.9),
        holdout: str = "classes",
        random_state: Any = None,
    ) -> None:
        self.base = base
        self.weight = weight
        self.weights = weights
        self.holdout = holdout
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Choose both settings together, and learn from all rows."""
        X, codes = self._training_data(X, y)
        rows = unit_rows(X)
        kind, name, grid = _BASES[self.base]
        weights = self.weights if self.weight == "auto" else (self.weight,)
        settings = [{name: value, "weight": weight} for value in grid for weight in weights]
        best, self.cv_results_ = choose(settings, self._candidates, rows, codes, self.random_state, self.holdout)
        model = kind(**{name: best[name]}).fit(X, codes)
        self.weight_, self.components_, self.offset_ = float(best["weight"]), model.components_, model.offset_
        self.mean_ = rows.mean(axis=0)
        return self

    def _candidates(self, X: np.ndarray, y: np.ndarray) -> Callable[[Setting], Sides]:
        kind, name, _ = _BASES[self.base]
        base: Any = kind()
        base.metric_ = "cosine"
        images = base._candidates(X, y)
        mean = X.mean(axis=0)

        def candidate(setting: Setting) -> Sides:
            sides = images({name: setting[name]})
            return lambda rows: 2 * (_beside(sides(rows)[1], rows - mean, setting["weight"]),)

        return candidate

    def _gallery_side(self, X: Any) -> np.ndarray:
        rows = unit_rows(X)
        image = linear_sides(self.components_, self.offset_, "cosine")(rows)[1]
        rows = np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows)
        return _beside(image, rows - self.mean_.astype(rows.dtype, copy=False), self.weight_)


def _beside(Z: np.ndarray, rows: np.ndarray, weight: float) -> np.ndarray:
    kind = Z.dtype.type
    return np.hstack([Z * kind(np.sqrt(1 - weight)), unit_rows(rows) * kind(np.sqrt(weight))])
