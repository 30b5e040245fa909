"""Linear discriminant analysis with shrinkage, compared by cosine: the strongest of the simple methods."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from likewise.baselines.common import AUTO, COUNT, HOLDOUT, SHARE
from likewise.baselines.scatter import Scatter, Spectrum, scatter, within
from likewise.baselines.searched import SearchedLinear, Solver

__all__ = ["LDA"]

GRID = (0.1, 0.001, 0.01, 0.03, 0.2, 0.3, 0.5, 0.7, 0.9)


class LDA(SearchedLinear):
    """The k − 1 discriminant directions of (unit) rows, whitened within classes, compared by cosine.

    Two classes leave one direction, where a cosine is only a sign; there the Euclidean distance is used.

    Parameters
    ----------
    shrinkage : float or "auto", default="auto"
        a in (1 − a)S_w + a·mean(S_w)·I. "auto" takes the best of `grid` on held-out training rows.
    n_components : int or None, default=None
        Directions kept, at most the number of classes minus one; None keeps all of them.
    normalize : bool, default=True
        Scale rows to unit length first.
    grid : sequence of float
        Shrinkages to try.
    random_state : int, RandomState or None, default=None
        Seed of the holdout.
    holdout : {"rows", "classes"}, default="rows"
        What is held out for the search; "classes" for galleries of classes that are not in training.

    Attributes
    ----------
    shrinkage_ : float
        Shrinkage used.
    cv_results_ : dict
        Settings tried and their scores, in scikit-learn's schema.
    """

    _grids: ClassVar[dict[str, str]] = {"shrinkage": "grid"}
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "shrinkage": [SHARE, AUTO],
        "n_components": [COUNT, None],
        "normalize": ["boolean"],
        "grid": ["array-like"],
        "random_state": ["random_state"],
        "holdout": [HOLDOUT],
    }

    def __init__(
        self,
        shrinkage: float | str = "auto",
        n_components: int | None = None,
        normalize: bool = True,
        grid: tuple[float, ...] = GRID,
        random_state: Any = None,
        holdout: str = "rows",
    ) -> None:
        self.shrinkage = shrinkage
        self.n_components = n_components
        self.normalize = normalize
        self.grid = grid
        self.random_state = random_state
        self.holdout = holdout

    def _metric(self) -> str:
        return "cosine" if len(self.classes_) > 2 else "distance"

    def _solver(self, X: np.ndarray, y: np.ndarray) -> Solver:
        classes = scatter(X, y)
        covariance = within(X, y, classes)

        def solve(shrinkage: float) -> tuple[np.ndarray, np.ndarray]:
            directions = discriminants(classes, covariance, shrinkage, self.n_components)
            return directions, directions @ classes.mean

        return solve


def discriminants(classes: Scatter, covariance: Spectrum, shrinkage: float, r: int | None = None) -> np.ndarray:
    """Directions (r, d): whiten by the shrunk within-class covariance, then the leading ones between classes."""
    T = covariance.whitener(shrinkage)
    between = np.sqrt(classes.sizes)[:, None] * ((classes.centres - classes.mean) @ T.T)
    _, _, Qt = np.linalg.svd(between, full_matrices=False)
    most = min(len(classes.sizes) - 1, len(Qt))
    return Qt[: most if r is None else min(r, most)] @ T
