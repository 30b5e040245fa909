"""A baseline behind an RBF kernel: Nyström features of unit rows, then the linear method."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
import scipy.linalg
from sklearn.utils._param_validation import StrOptions

from likewise.baselines.common import AUTO, COUNT, POSITIVE, Baseline, unit_rows
from likewise.baselines.lda import LDA
from likewise.baselines.logistic import LogisticPosterior
from likewise.baselines.ridge import RidgeOneHot
from likewise.core.kernels import Features, mean_square_distance
from likewise.utils.random import generator

__all__ = ["BASES", "Kernelised", "drawn_kernel"]

BASES: dict[str, type[Baseline]] = {"lda": LDA, "ridge": RidgeOneHot, "logistic": LogisticPosterior}
# Kernel features fall off fast, so that their best penalties are weaker than those of the rows themselves.
GRIDS: dict[str, tuple[float, ...]] = {
    "lda": (0.01, 0.0001, 0.001, 0.03, 0.1, 0.3),
    "ridge": (0.01, 1e-5, 1e-4, 0.001, 0.03, 0.1, 0.3, 1.0),
    "logistic": (1.0, 0.01, 0.1, 10.0),
}
_PREFIX = "base_"


class Kernelised(Baseline):
    """Rows at length 1, exp(−γ‖x − l‖²) for landmarks l, made orthonormal (Nyström), then a linear baseline.

    Parameters
    ----------
    base : "lda", "ridge" or "logistic"
        The baseline behind the kernel: `LDA`, `RidgeOneHot` or `LogisticPosterior`, its own settings tuned as ever.
    width : float or "auto"
        γ in units of 1 / mean squared distance. "auto" takes the one of `widths` whose baseline, at its best, does best
        on held-out training rows.
    n_landmarks : int
        Training rows, drawn at random, that span the features; all rows if they are fewer.
    grid : sequence or None
        The settings that the baseline tries; None is a grid made for kernel features.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "base": [StrOptions(set(BASES))],
        "width": [POSITIVE, AUTO],
        "n_landmarks": [COUNT],
        "widths": ["array-like"],
        "grid": ["array-like", None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        base: str = "lda",
        width: float | str = "auto",
        n_landmarks: int = 1500,
        widths: tuple[float, ...] = (0.5, 1.0),
        grid: tuple[float, ...] | None = None,
        random_state: Any = None,
    ) -> None:
        self.base = base
        self.width = width
        self.n_landmarks = n_landmarks
        self.widths = widths
        self.grid = grid
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Choose the width and the baseline's settings, and learn from all rows."""
        X, codes = self._training_data(X, y)
        rows = unit_rows(X)
        score = -np.inf
        self.cv_results_: dict[str, list[Any]] = {"settings": [], "score": []}
        for width in self.widths if self.width == "auto" else (self.width,):
            features = drawn_kernel(rows, float(width), self.n_landmarks, self.random_state)
            whitener = _whitener(features).astype(rows.dtype)
            model = self._unfitted().fit(features(rows) @ whitener, codes)
            reached = max(model.cv_results_["score"], default=0.0)
            self._note(float(width), model)
            if reached > score:
                score = reached
                self._keep(float(width), features, whitener, model)
        return self

    def _unfitted(self) -> Baseline:
        grid = GRIDS[self.base] if self.grid is None else self.grid
        return BASES[self.base](normalize=False, grid=grid, random_state=self.random_state)

    def _note(self, width: float, model: Any) -> None:
        tried = model.cv_results_
        self.cv_results_["settings"] += [{"width": width, **setting} for setting in tried["settings"]]
        self.cv_results_["score"] += tried["score"]

    def _keep(self, width: float, features: Features, whitener: np.ndarray, model: Baseline) -> None:
        """What the sides need, as arrays and plain values: the file of a model holds nothing else."""
        self.width_, self.landmarks_, self.gamma_, self.whitener_ = width, features.landmarks, features.gamma, whitener
        for name, value in vars(model).items():
            if name.endswith("_") and name != "cv_results_":
                setattr(self, _PREFIX + name, value)

    def _fitted(self) -> Baseline:
        model = self._unfitted()
        for name, value in vars(self).items():
            if name.startswith(_PREFIX) and name.endswith("_"):
                setattr(model, name.removeprefix(_PREFIX), value)
        return model

    def _features(self, X: Any) -> np.ndarray:
        X = unit_rows(X)
        return Features(self.landmarks_, self.gamma_)(X) @ self.whitener_.astype(X.dtype, copy=False)

    def _gallery_side(self, X: Any) -> np.ndarray:
        return self._fitted()._gallery_side(self._features(X))

    def _query_side(self, X: Any) -> np.ndarray:
        return self._fitted()._query_side(self._features(X))


def drawn_kernel(rows: np.ndarray, width: float, size: int | None, random_state: Any) -> Features:
    """An RBF kernel on landmarks drawn from unit rows (all if size is None); γ = width / mean squared distance."""
    gamma = width / max(mean_square_distance(rows, None), 1e-12)
    return Features(rows[np.sort(generator(random_state).permutation(len(rows))[:size])], gamma)


def _whitener(features: Features) -> np.ndarray:
    """K^(−½) in the eigenbasis of the landmarks' kernel matrix K, so that features @ it has K's inner products."""
    values, vectors = scipy.linalg.eigh(features.metric(), driver="evd", overwrite_a=True, check_finite=False)
    kept = values > 1e-5  # the metric has 1e-6 on its diagonal against rounding
    return vectors[:, kept] / np.sqrt(values[kept])
