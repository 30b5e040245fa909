"""Linear discriminant analysis with shrinkage, compared by cosine: the strongest of the simple methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np

from likewise.baselines.common import AUTO, COUNT, SHARE, LinearBaseline, linear_sides, unit_rows
from likewise.baselines.scatter import Scatter, Spectrum, scatter, within
from likewise.baselines.tuning import Setting, Sides, choose

__all__ = ["LDA"]

GRID = (0.1, 0.001, 0.01, 0.03, 0.2, 0.3, 0.5, 0.7, 0.9)


class LDA(LinearBaseline):
    """The k − 1 discriminant directions of (unit) rows, whitened within classes, compared by cosine.

    Two classes leave one direction, where a cosine is only a sign; there the Euclidean distance is used.

    Parameters
    ----------
    shrinkage : float or "auto"
        a in (1 − a)S_w + a·mean(S_w)·I. "auto" takes the best of `grid` on held-out training rows.
    n_components : int or None
        Directions kept; at most, and by default, the number of classes less one.
    normalize : bool
        Scale rows to length 1 first.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "shrinkage": [SHARE, AUTO],
        "n_components": [COUNT, None],
        "normalize": ["boolean"],
        "grid": ["array-like"],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        shrinkage: float | str = "auto",
        n_components: int | None = None,
        normalize: bool = True,
        grid: tuple[float, ...] = GRID,
        random_state: Any = None,
    ) -> None:
        self.shrinkage = shrinkage
        self.n_components = n_components
        self.normalize = normalize
        self.grid = grid
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Learn the directions from rows X and labels y."""
        X, codes = self._training_data(X, y)
        rows = unit_rows(X) if self.normalize else X
        self.metric_ = "cosine" if len(self.classes_) > 2 else "distance"
        settings = [{"shrinkage": a} for a in (self.grid if self.shrinkage == "auto" else [self.shrinkage])]
        best, self.cv_results_ = choose(settings, self._candidates, rows, codes, self.random_state)
        self.shrinkage_ = float(best["shrinkage"])
        classes = scatter(rows, codes)
        directions = discriminants(classes, within(rows, codes, classes), self.shrinkage_, self.n_components)
        self.components_ = directions.astype(X.dtype)
        self.offset_ = (directions @ classes.mean).astype(X.dtype)
        return self

    def _candidates(self, X: np.ndarray, y: np.ndarray) -> Callable[[Setting], Sides]:
        classes = scatter(X, y)
        covariance = within(X, y, classes)

        def candidate(setting: Setting) -> Sides:
            directions = discriminants(classes, covariance, setting["shrinkage"], self.n_components)
            return linear_sides(directions, directions @ classes.mean, self.metric_)

        return candidate


def discriminants(classes: Scatter, covariance: Spectrum, shrinkage: float, r: int | None = None) -> np.ndarray:
    """Directions (r, d): whiten by the shrunk within-class covariance, then the leading ones between classes."""
    T = covariance.whitener(shrinkage)
    between = np.sqrt(classes.sizes)[:, None] * ((classes.centres - classes.mean) @ T.T)
    _, _, Qt = np.linalg.svd(between, full_matrices=False)
    most = min(len(classes.sizes) - 1, len(Qt))
    return Qt[: most if r is None else min(r, most)] @ T
