"""A linear baseline with its input appended: what it learned and the row itself, in one cosine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.preprocessing import normalize

from likewise.baselines.common import AUTO, HOLDOUT, SHARE, Baseline, linear_sides
from likewise.baselines.lda import LDA
from likewise.baselines.ridge import RidgeOneHot
from likewise.baselines.searched import SearchedLinear
from likewise.selection.grid import Params, Sides
from likewise.utils.arrays import dense
from likewise.utils.onnx_graph import Graph
from likewise.utils.validation import StrOptions

__all__ = ["WithInput"]

_BASES: dict[str, type[SearchedLinear]] = {"lda": LDA, "ridge": RidgeOneHot}


class WithInput(Baseline):
    """Cosine of [√(1 − a) z, √a x]: z is the embedding of a row and x the centred row itself, both of unit length.

    Directions that a linear map drops, because they separate no classes of training, may separate other classes.

    Parameters
    ----------
    base : {"ridge", "lda"}, default="ridge"
        The baseline that makes z: `RidgeOneHot` or `LDA`.
    weight : float or "auto", default="auto"
        a above, from 0 to 1. "auto" searches `weights` together with the baseline's own setting.
    weights : sequence of float
        Weights to try.
    holdout : {"classes", "rows"}, default="classes"
        What is held out of the training data for the search.
    random_state : int, RandomState or None, default=None
        Seed of the holdout.

    Attributes
    ----------
    weight_ : float
        Weight used.
    cv_results_ : dict
        Settings tried and their scores, in scikit-learn's schema.
    """

    _grids: ClassVar[dict[str, str]] = {"weight": "weights"}
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
        rows = normalize(X)
        best = self._best(self._candidates, rows, codes, self.holdout)
        self.weight_ = float(best.pop("weight"))
        model = _BASES[self.base](**best).fit(X, codes)
        self.components_, self.offset_ = model.components_, model.offset_
        self.mean_ = rows.mean(axis=0)
        return self

    def _settings(self) -> list[Params]:
        base = _BASES[self.base]()._settings()
        return [{**setting, "weight": weight} for setting in base for weight in self._values("weight")]

    def _candidates(self, X: np.ndarray, y: np.ndarray) -> Callable[[Params], Sides]:
        base = _BASES[self.base]()
        base.metric_ = "cosine"
        embed = base._candidates(X, y)
        mean = X.mean(axis=0)

        def candidate(params: Params) -> Sides:
            sides = embed(params)
            return lambda rows: 2 * (_beside(sides(rows)[1], rows - mean, params["weight"]),)

        return candidate

    def _gallery_side(self, X: Any) -> np.ndarray:
        rows = dense(normalize(X))
        Z = linear_sides(self.components_, self.offset_, "cosine")(rows)[1]
        return _beside(Z, rows - self.mean_.astype(rows.dtype, copy=False), self.weight_)

    def _write_onnx(self, graph: Graph, rows: str) -> tuple[str, str]:
        x = graph.unit(rows)
        z = graph.unit(graph.plus(graph.mapped(x, self.components_.T), -self.offset_))
        x = graph.unit(graph.plus(x, -self.mean_))
        return 2 * (graph.beside([graph.times(z, np.sqrt(1 - self.weight_)), graph.times(x, np.sqrt(self.weight_))]),)


def _beside(Z: np.ndarray, rows: np.ndarray, weight: float) -> np.ndarray:
    kind = Z.dtype.type
    return np.hstack([Z * kind(np.sqrt(1 - weight)), normalize(rows) * kind(np.sqrt(weight))])
