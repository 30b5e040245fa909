"""Baselines made of another: on the features of an RBF kernel, or with the input appended to the embedding."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, ClassVar, Self

import numpy as np
import scipy.linalg
from sklearn.preprocessing import normalize

from likewise.learn.base import finite_fit
from likewise.learn.choose.search import Params, Sides
from likewise.learn.maths.kernels import Features
from likewise.rivals.closed_forms import LDA, RidgeOneHot, SearchedLinear
from likewise.rivals.common import Baseline, drawn_kernel, estimator, linear_sides, remembering
from likewise.rivals.posteriors import LogisticPosterior
from likewise.utils.arrays import dense
from likewise.utils.onnx_graph import Graph
from likewise.utils.validation import StrOptions

_LINEAR: dict[str, type[SearchedLinear]] = {"lda": LDA, "ridge": RidgeOneHot}
_BASES: dict[str, type[Baseline]] = {**_LINEAR, "logistic": LogisticPosterior}
# The spectrum of kernel features falls off fast: their best penalties are weaker than those of the rows themselves.
_KERNEL_GRIDS: dict[str, tuple[float, ...]] = {
    "lda": (0.01, 0.0001, 0.001, 0.03, 0.1, 0.3),
    "ridge": (0.01, 1e-5, 1e-4, 0.001, 0.03, 0.1, 0.3, 1.0),
    "logistic": (1.0, 0.01, 0.1, 10.0),
}


@estimator
class Kernelised(Baseline):
    """Unit rows, exp(−γ‖x − l‖²) for landmarks l, made orthonormal (Nyström), then a linear baseline.

    Parameters
    ----------
    base : {"lda", "ridge", "logistic"}, default="lda"
        The baseline on the kernel features: `LDA`, `RidgeOneHot` or `LogisticPosterior`, with its own settings tuned.
    width : float or "auto", default="auto"
        γ in units of 1 / mean squared distance. "auto" takes the one of `widths` whose baseline, at its best setting,
        ranks held-out training rows best; landmarks are then drawn from the other training rows alone.
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
    landmarks_, gamma_, whitener_ : the kernel features.
    """

    _grids: ClassVar[dict[str, str]] = {"width": "widths"}
    _parameter_constraints: ClassVar[dict[str, Any]] = {"base": [StrOptions(set(_BASES))], "grid": ["array-like", None]}

    base: str = "lda"
    width: float | str = "auto"
    n_landmarks: int = 1500
    widths: tuple[float, ...] = (1.0, 0.5, 2.0, 4.0)
    grid: tuple[float, ...] | None = None
    random_state: Any = None

    @finite_fit
    def fit(self, X: Any, y: Any) -> Self:
        """Choose the width and the baseline's settings together, and learn from all rows."""
        X, codes = self._training_data(X, y)
        rows = self._rows(X)
        chosen = self._best(self._candidates, rows, codes)
        self.width_ = float(chosen.pop("width"))
        features, whitener = self._kernel(rows, self.width_)
        self.whitener_ = np.ascontiguousarray(whitener)  # as it is read from a file: products agree to the last bit
        self.landmarks_, self.gamma_ = features.landmarks, features.gamma
        self.base_ = self._base(**chosen).fit(features(rows) @ self.whitener_, codes)
        return self

    def _kernel(self, rows: np.ndarray, width: float) -> tuple[Features, np.ndarray]:
        """Kernel features and a whitener K^(−½) of the landmarks' kernel matrix K, in its eigenbasis."""
        features = drawn_kernel(rows, width, self.n_landmarks, self.random_state)
        values, vectors = scipy.linalg.eigh(features.metric(), driver="evd", overwrite_a=True, check_finite=False)
        large = values > 1e-5  # the metric has 1e-6 on its diagonal against rounding
        return features, (vectors[:, large] / np.sqrt(values[large])).astype(rows.dtype)

    def _settings(self) -> list[Params]:
        settings = self._base()._settings()
        return [{"width": width, **setting} for width in self._values("width") for setting in settings]

    def _candidates(self, X: np.ndarray, y: np.ndarray) -> Callable[[Params], Sides]:
        """Landmarks and whitening come from the rows to learn from alone; widths vary slowest and share them."""

        @lru_cache(maxsize=1)
        def prepared(width: float) -> tuple[Callable[[Any], np.ndarray], Callable[[Params], Sides]]:
            features, whitener = self._kernel(X, width)
            mapped = remembering(lambda rows: features(rows) @ whitener)
            return mapped, self._base()._candidates(mapped(X), y)

        def candidate(params: Params) -> Sides:
            features, fit = prepared(params["width"])
            sides = fit({name: value for name, value in params.items() if name != "width"})
            return lambda rows: sides(features(rows))

        return candidate

    def _base(self, **settings: Any) -> Any:
        grid = _KERNEL_GRIDS[self.base] if self.grid is None else self.grid
        return _BASES[self.base](**settings, normalize=False, grid=grid, random_state=self.random_state)

    @property
    def symmetric(self) -> bool:
        """Whether the query side of a row equals its gallery side."""
        return self.base_.symmetric

    def _features(self, X: Any) -> np.ndarray:
        X = self._rows(X)
        return Features(self.landmarks_, self.gamma_)(X) @ self.whitener_.astype(X.dtype, copy=False)

    def _gallery_side(self, X: Any) -> np.ndarray:
        return self.base_._gallery_side(self._features(X))

    def _query_side(self, X: Any) -> np.ndarray:
        return self.base_._query_side(self._features(X))

    def _write_onnx(self, graph: Graph, rows: str) -> tuple[str, str]:
        features = graph.kernel(self._onnx_rows(graph, rows), self.landmarks_, self.gamma_)
        return self.base_._write_onnx(graph, graph.mapped(features, self.whitener_))


@estimator
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
    """

    _grids: ClassVar[dict[str, str]] = {"weight": "weights"}
    _parameter_constraints: ClassVar[dict[str, Any]] = {"base": [StrOptions(set(_LINEAR))]}

    base: str = "ridge"
    weight: float | str = "auto"
    weights: tuple[float, ...] = (0.5, 0.1, 0.25, 0.75, 0.9)
    holdout: str = "classes"
    random_state: Any = None

    @finite_fit
    def fit(self, X: Any, y: Any) -> Self:
        """Choose both settings together, and learn from all rows."""
        X, codes = self._training_data(X, y)
        rows = self._rows(X)
        best = self._best(self._candidates, rows, codes, self.holdout)
        self.weight_ = float(best.pop("weight"))
        model = _LINEAR[self.base](**best).fit(X, codes)
        self.components_, self.offset_ = model.components_, model.offset_
        self.mean_ = rows.mean(axis=0)
        return self

    def _settings(self) -> list[Params]:
        base = _LINEAR[self.base]()._settings()
        return [{**setting, "weight": weight} for setting in base for weight in self._values("weight")]

    def _candidates(self, X: np.ndarray, y: np.ndarray) -> Callable[[Params], Sides]:
        base = _LINEAR[self.base]()
        solve, mean = base._solver(X, y), X.mean(axis=0)
        (name,) = base._grids

        def candidate(params: Params) -> Sides:
            sides = linear_sides(*solve(params[name]), "cosine")
            return lambda rows: 2 * (_appended(sides(rows)[1], rows - mean, params["weight"]),)

        return candidate

    def _gallery_side(self, X: Any) -> np.ndarray:
        rows = dense(self._rows(X))
        Z = linear_sides(self.components_, self.offset_, "cosine")(rows)[1]
        return _appended(Z, rows - self.mean_.astype(rows.dtype, copy=False), self.weight_)

    def _write_onnx(self, graph: Graph, rows: str) -> tuple[str, str]:
        x = self._onnx_rows(graph, rows)
        z = graph.unit(graph.plus(graph.mapped(x, self.components_.T), -self.offset_))
        x = graph.unit(graph.plus(x, -self.mean_))
        return 2 * (
            graph.concatenated([graph.times(z, np.sqrt(1 - self.weight_)), graph.times(x, np.sqrt(self.weight_))]),
        )


def _appended(Z: np.ndarray, rows: np.ndarray, weight: float) -> np.ndarray:
    kind = Z.dtype.type
    return np.hstack([Z * kind(np.sqrt(1 - weight)), normalize(rows) * kind(np.sqrt(weight))])
