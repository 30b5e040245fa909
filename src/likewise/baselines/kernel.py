"""A baseline on an RBF kernel: Nyström features of unit rows, then the linear method."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
import scipy.linalg
from sklearn.preprocessing import normalize

from likewise.baselines.common import AUTO, COUNT, POSITIVE, Baseline
from likewise.baselines.lda import LDA
from likewise.baselines.logistic import LogisticPosterior
from likewise.baselines.ridge import RidgeOneHot
from likewise.core.kernels import Features, mean_square_distance
from likewise.core.sampling import generator, sample_rows
from likewise.selection.results import CVResults
from likewise.utils.onnx_graph import Graph
from likewise.utils.validation import StrOptions

__all__ = ["BASES", "Kernelised", "drawn_kernel"]

BASES: dict[str, type[Baseline]] = {"lda": LDA, "ridge": RidgeOneHot, "logistic": LogisticPosterior}
# The spectrum of kernel features falls off fast: their best penalties are weaker than those of the rows themselves.
GRIDS: dict[str, tuple[float, ...]] = {
    "lda": (0.01, 0.0001, 0.001, 0.03, 0.1, 0.3),
    "ridge": (0.01, 1e-5, 1e-4, 0.001, 0.03, 0.1, 0.3, 1.0),
    "logistic": (1.0, 0.01, 0.1, 10.0),
}


class Kernelised(Baseline):
    """Unit rows, exp(−γ‖x − l‖²) for landmarks l, made orthonormal (Nyström), then a linear baseline.

    Parameters
    ----------
    base : {"lda", "ridge", "logistic"}, default="lda"
        The baseline on the kernel features: `LDA`, `RidgeOneHot` or `LogisticPosterior`, with its own settings tuned.
    width : float or "auto", default="auto"
        γ in units of 1 / mean squared distance. "auto" takes the one of `widths` whose baseline, at its best setting,
        ranks held-out training rows best.
    n_landmarks : int, default=1500
        Training rows, drawn at random, that span the features; all rows if there are fewer.
    widths : sequence of float
        Widths to try.
    grid : sequence or None, default=None
        The settings that the baseline tries; None is a grid made for kernel features.
    random_state : int, RandomState or None, default=None
        Seed of the landmarks and of the holdout.

    Attributes
    ----------
    base_ : the fitted baseline.
    width_ : float
        Width used.
    landmarks_, gamma_, whitener_ : the kernel features.
    cv_results_ : dict
        Settings tried and their scores, in scikit-learn's schema.
    """

    base_: Baseline

    _grids: ClassVar[dict[str, str]] = {"width": "widths"}
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
        rows = normalize(X)
        tried, best = CVResults(), -np.inf
        for width in map(float, self._values("width")):
            features = drawn_kernel(rows, width, self.n_landmarks, self.random_state)
            whitener = _whitener(features).astype(rows.dtype)
            base = self._unfitted().fit(features(rows) @ whitener, codes)
            score = float(np.nan_to_num(tried.extend(base.cv_results_, width=width)))  # nothing held out: the first
            if score > best:
                best, self.width_, self.base_ = score, width, base
                self.landmarks_, self.gamma_, self.whitener_ = features.landmarks, features.gamma, whitener
        self.cv_results_ = tried.as_dict()
        return self

    def _unfitted(self) -> Any:
        grid = GRIDS[self.base] if self.grid is None else self.grid
        return BASES[self.base](normalize=False, grid=grid, random_state=self.random_state)

    @property
    def symmetric(self) -> bool:
        """Whether the query side of a row equals its gallery side."""
        return self.base_.symmetric

    def _features(self, X: Any) -> np.ndarray:
        X = normalize(X)
        return Features(self.landmarks_, self.gamma_)(X) @ self.whitener_.astype(X.dtype, copy=False)

    def _gallery_side(self, X: Any) -> np.ndarray:
        return self.base_._gallery_side(self._features(X))

    def _query_side(self, X: Any) -> np.ndarray:
        return self.base_._query_side(self._features(X))

    def _write_onnx(self, graph: Graph, rows: str) -> tuple[str, str]:
        features = graph.kernel(graph.unit(rows), self.landmarks_, self.gamma_)
        return self.base_._write_onnx(graph, graph.mapped(features, self.whitener_))


def drawn_kernel(rows: np.ndarray, width: float, size: int | None, random_state: Any) -> Features:
    """An RBF kernel on landmarks drawn from unit rows (all if size is None); γ = width / mean squared distance."""
    gamma = width / max(mean_square_distance(rows, None), 1e-12)
    return Features(rows[sample_rows(len(rows), size, generator(random_state))], gamma)


def _whitener(features: Features) -> np.ndarray:
    """K^(−½) in the eigenbasis of the landmarks' kernel matrix K, so that features @ it has K's inner products."""
    values, vectors = scipy.linalg.eigh(features.metric(), driver="evd", overwrite_a=True, check_finite=False)
    kept = values > 1e-5  # the metric has 1e-6 on its diagonal against rounding
    return vectors[:, kept] / np.sqrt(values[kept])
