"""Similarities on an RBF kernel: linear baselines on its landmarks, and ridge regression on all training rows."""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import scipy.linalg
from sklearn.utils import gen_batches

from likewise.errors import LikewiseError
from likewise.learn.base import project
from likewise.learn.choose.search import Params, Sides
from likewise.learn.maths.engine import MemoryEngine
from likewise.learn.maths.kernels import Features, Scaling, UnitRows, scaling_of
from likewise.learn.maths.labels import generator, sample_by_class
from likewise.learn.maths.regressions import ExactKernel
from likewise.learn.maths.setting import LearnedMap, OutputHead, Setting
from likewise.rivals.closed_forms import LDA, RidgeOneHot
from likewise.rivals.common import Baseline, drawn_kernel, estimator, remembering
from likewise.rivals.posteriors import LogisticPosterior
from likewise.utils.onnx_graph import Graph
from likewise.utils.validation import StrOptions

KERNEL_LIMIT = 2 * 2**30
"""Bytes of the n × n kernel matrix, at most; a fit holds two of them."""

_BASES: dict[str, type[Baseline]] = {"lda": LDA, "ridge": RidgeOneHot, "logistic": LogisticPosterior}
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
    grid : sequence or None, default=None
        The settings that the baseline tries; None is a grid made for kernel features.

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

    def _learn(self, rows: np.ndarray, codes: np.ndarray, **setting: Any) -> None:
        features, whitener = self._kernel(rows, setting.pop("width"))
        self.whitener_ = np.ascontiguousarray(whitener)  # as it is read from a file: products agree to the last bit
        self.landmarks_, self.gamma_ = features.landmarks, features.gamma
        self.base_ = self._base(**setting).fit(features(rows) @ self.whitener_, codes)

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
class KernelRidge(Baseline):
    """Regress balanced one-hot labels on exp(−γ‖x − x_i‖²) for all training rows x_i; compare predictions by cosine.

    The kernel matrix K is centred on both sides, targets are one-hot / √n_c with centred columns, and the coefficients
    are (K + λI)⁻¹P by one Cholesky factor. Cost grows with n³, memory with n².

    Parameters
    ----------
    output : {"cosine", "posterior"}, default="cosine"
        "posterior" is √softmax(score / τ), score_k = z·μ_k − ½|μ_k|², with z the image of unit length and μ_k the mean
        of the leave-one-out images of class k: for galleries whose classes were all seen in training.
    alpha, width, scaling, temperature : "auto", or a value
        λ in units of the mean diagonal of K; γ in units of 1 / mean squared distance; how rows are brought to length
        one: "unit" as they are, "roots" from the signed roots of their columns, "standard" from standardised columns;
        and τ. "auto" searches `grid`, `widths`, `scalings` and `temperatures` together on held-out training rows.
    max_rows : int or None, default=3000
        Training rows for the search, at most, drawn by class; None is all of them. The model learns from all.

    Attributes
    ----------
    landmarks_, gamma_, components_, offset_ : the training rows, γ, and the coefficients with their offset.
    """

    _grids: ClassVar[dict[str, str]] = {
        "scaling": "scalings",
        "width": "widths",
        "alpha": "grid",
        "temperature": "temperatures",
    }
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "output": [StrOptions({"cosine", "posterior"})],
        "scaling": [StrOptions({"unit", "roots", "standard"}), StrOptions({"auto"})],
    }

    normalize = False  # the scaling brings rows to length one

    output: str = "cosine"
    alpha: float | str = "auto"
    width: float | str = "auto"
    scaling: str = "auto"
    temperature: float | str = "auto"
    grid: tuple[float, ...] = (0.01, 0.003, 0.03, 0.1, 0.3)
    widths: tuple[float, ...] = (2.0, 1.0, 4.0)
    scalings: tuple[str, ...] = ("unit", "roots", "standard")
    temperatures: tuple[float, ...] = (0.05, 0.01, 0.02, 0.03, 0.1, 0.2)
    max_rows: int | None = 3000
    random_state: Any = None

    def _search_rows(self, rows: np.ndarray, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        n, size = len(rows), 8 * len(rows) ** 2
        if size > KERNEL_LIMIT:
            raise LikewiseError(
                f"X has {n:,} rows, and KernelRidge needs their {n:,} × {n:,} kernel matrix of {size / 2**30:.1f} GiB: "
                f"expected at most {KERNEL_LIMIT / 2**30:.1f} GiB; Kernelised makes do with some rows as landmarks"
            )
        sample = sample_by_class(codes, self.max_rows, generator(self.random_state), least=4)
        return rows[sample], codes[sample]

    def _learn(self, rows: np.ndarray, codes: np.ndarray, **setting: Any) -> None:
        kernel = _kernel(rows, codes, setting["scaling"], setting["width"])
        learned = kernel.learn(Setting(ridge=setting["alpha"]), last=True)
        scaling, head = kernel.unit.scaling, self._head_of(learned)
        self.shift_, self.factor_ = scaling.shift, scaling.factor
        self.landmarks_, self.gamma_ = kernel.features.landmarks, kernel.features.gamma
        projection, self.offset_ = kernel.unfolded(learned.L)
        self.components_ = np.ascontiguousarray(projection.T)
        self.length_, self.constant_, self.means_ = head.scale, head.bias, head.means

    def _candidates(self, X: np.ndarray, y: np.ndarray) -> Callable[[Params], Sides]:
        """What settings share is computed once: they vary in the order of `_grids`, temperatures fastest."""

        @lru_cache(maxsize=1)
        def prepared(scaling: str, width: float) -> tuple[ExactKernel, Callable[[Any], np.ndarray]]:
            kernel = _kernel(X, y, scaling, width)
            return kernel, remembering(lambda rows: kernel.encode(kernel.unit.scaling(rows)))

        @lru_cache(maxsize=1)
        def learned(scaling: str, width: float, alpha: float) -> tuple[np.ndarray, OutputHead]:
            fitted = prepared(scaling, width)[0].learn(Setting(ridge=alpha))
            return fitted.L, self._head_of(fitted)

        def candidate(params: Params) -> Sides:
            setting = [params[name] for name in ("scaling", "width", "alpha")]
            K, (projection, head) = prepared(*setting[:2])[1], learned(*setting)
            head = replace(head, temperature=params.get("temperature", 0.0))
            return lambda rows: 2 * (head(K(rows) @ projection),)

        return candidate

    def _head_of(self, learned: LearnedMap) -> OutputHead:
        """Two classes get a constant coordinate; a posterior the class means of images left out."""
        two = len(self.classes_) == 2
        head = OutputHead(learned.rms or 1.0, bias=1.0) if two else OutputHead()
        return replace(head, means=learned.class_means(head)) if self.output == "posterior" else head

    def _scaling(self) -> Scaling:
        return Scaling(self.shift_, self.factor_, roots=self.scaling_ == "roots")

    def _head(self) -> OutputHead:
        temperature = getattr(self, "temperature_", 0.0)
        return OutputHead(self.length_, bias=self.constant_, means=self.means_, temperature=temperature)

    def _gallery_side(self, X: Any) -> np.ndarray:
        features, scaling = Features(self.landmarks_, self.gamma_), self._scaling()
        parts = (X[part] for part in gen_batches(X.shape[0], 2048))
        Z = np.vstack([project(features(scaling(rows)), self.components_) for rows in parts])
        return self._head()(Z - self.offset_.astype(Z.dtype))

    def _write_onnx(self, graph: Graph, rows: str) -> tuple[str, str]:
        features = graph.kernel(self._scaling().write_onnx(graph, rows), self.landmarks_, self.gamma_)
        z = graph.plus(graph.mapped(features, self.components_.T), -self.offset_)
        return 2 * (self._head().write_onnx(graph, z),)


def _kernel(X: np.ndarray, y: np.ndarray, scaling: str, width: float) -> ExactKernel:
    """The regression of class codes 0 … k − 1 on the kernel of scaled rows, in double precision."""
    engine = MemoryEngine(X, y, int(y.max()) + 1)
    return ExactKernel(UnitRows(engine, scaling_of(engine, scaling)), width, np.float64)
