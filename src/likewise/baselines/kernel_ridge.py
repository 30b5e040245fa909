"""Ridge regression on the exact RBF kernel of all training rows: its images, or their posterior, as the embedding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar, Self

import numpy as np
from scipy.linalg import cho_solve, cholesky
from scipy.linalg.lapack import dtrtri
from sklearn.utils import gen_batches

from likewise.base import project
from likewise.baselines.common import Baseline, drawn_kernel, estimator, remembering
from likewise.core.kernels import Features, Scaling
from likewise.core.labels import class_sums, generator, indicator, sample_by_class
from likewise.core.setting import Head
from likewise.errors import LikewiseError
from likewise.selection.holdout import Params, Sides
from likewise.utils.onnx_graph import Graph
from likewise.utils.validation import StrOptions

KERNEL_LIMIT = 2 * 2**30
"""Bytes of the n × n kernel matrix, at most; a fit holds two of them."""


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
    grid, widths, scalings, temperatures : sequences
        Values to try.
    max_rows : int or None, default=3000
        Training rows for the search, at most, drawn by class; None is all of them. The model learns from all.
    random_state : int, RandomState or None, default=None
        Seed of the sample and of the holdout.

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

    def fit(self, X: Any, y: Any) -> Self:
        """Choose the settings, and learn from all rows X and labels y."""
        X, codes = self._training_data(X, y)
        _check_size(len(X))
        some = sample_by_class(codes, self.max_rows, generator(self.random_state), least=4)
        self._keep(self._best(self._candidates, X[some], codes[some]))
        problem = _KernelProblem.of(X, codes, self.scaling_, self.width_)
        self.shift_, self.factor_ = problem.scaling.shift, problem.scaling.factor
        self.landmarks_, self.gamma_ = problem.features.landmarks, problem.features.gamma
        dual, self.offset_, head = problem.solved(self.alpha_, self.output == "posterior", last=True)
        self.components_ = np.ascontiguousarray(dual.T, X.dtype)
        self.length_, self.constant_, self.means_ = head.scale, head.constant, head.means
        return self

    def _candidates(self, X: np.ndarray, y: np.ndarray) -> Callable[[Params], Sides]:
        """What settings share is computed once: they vary in the order of `_grids`, temperatures fastest."""

        @lru_cache(maxsize=1)
        def prepared(scaling: str, width: float) -> tuple[_KernelProblem, Callable[[Any], np.ndarray]]:
            problem = _KernelProblem.of(X, y, scaling, width)
            return problem, remembering(lambda rows: problem.features(problem.scaling(rows)))

        @lru_cache(maxsize=1)
        def solved(scaling: str, width: float, alpha: float) -> _Solution:
            return prepared(scaling, width)[0].solved(alpha, self.output == "posterior")

        def candidate(params: Params) -> Sides:
            setting = [params[name] for name in ("scaling", "width", "alpha")]
            K, (dual, offset, head) = prepared(*setting[:2])[1], solved(*setting)
            head = replace(head, temperature=params.get("temperature", 0.0))
            return lambda rows: 2 * (head(K(rows) @ dual - offset, _no_rows),)

        return candidate

    def _scaling(self) -> Scaling:
        return Scaling(self.shift_, self.factor_, roots=self.scaling_ == "roots")

    def _head(self) -> Head:
        temperature = getattr(self, "temperature_", 0.0)
        return Head(self.length_, constant=self.constant_, means=self.means_, temperature=temperature)

    def _gallery_side(self, X: Any) -> np.ndarray:
        features, scaling = Features(self.landmarks_, self.gamma_), self._scaling()
        parts = (X[part] for part in gen_batches(X.shape[0], 2048))
        Z = np.vstack([project(features(scaling(rows)), self.components_) for rows in parts])
        return self._head()(Z - self.offset_.astype(Z.dtype), _no_rows)

    def _write_onnx(self, graph: Graph, rows: str) -> tuple[str, str]:
        features = graph.kernel(self._scaling().write_onnx(graph, rows), self.landmarks_, self.gamma_)
        z = graph.plus(graph.mapped(features, self.components_.T), -self.offset_)
        return 2 * (self._head().write_onnx(graph, z, str),)


def _no_rows() -> Any:
    raise NotImplementedError("the input row is no part of these images")


def _check_size(n: int) -> None:
    if 8 * n**2 > KERNEL_LIMIT:
        raise LikewiseError(
            f"X has {n:,} rows, and KernelRidge needs their {n:,} × {n:,} kernel matrix of {8 * n**2 / 2**30:.1f} GiB: "
            f"expected at most {KERNEL_LIMIT / 2**30:.1f} GiB; Kernelised makes do with some of the rows as landmarks"
        )


_Solution = tuple[np.ndarray, np.ndarray, Head]
"""Coefficients (n, k) of a row's kernel values, the offset (k,) of the images, and their head."""


@dataclass(frozen=True)
class _KernelProblem:
    """The regression for any ridge: the centred kernel matrix K of scaled rows, the mean of its rows, the targets P."""

    scaling: Scaling
    features: Features
    K: np.ndarray
    mean: np.ndarray
    P: np.ndarray
    codes: np.ndarray

    @classmethod
    def of(cls, X: np.ndarray, y: np.ndarray, scaling: str, width: float) -> _KernelProblem:
        moments = X.mean(axis=0), X.var(axis=0)
        scale = Scaling.standard(*moments) if scaling == "standard" else Scaling(roots=scaling == "roots")
        rows = scale(X)
        features = drawn_kernel(rows, width, None, None)
        K = features(rows).astype(np.float64)
        mean = K.mean(axis=0)
        K -= mean - mean.mean()
        K -= mean[:, None]
        P = indicator(y, None, int(y.max()) + 1).toarray()
        P /= np.sqrt(P.sum(axis=0))
        return cls(scale, features, K, mean, P - P.mean(axis=0), y)

    def solved(self, alpha: float, posterior: bool, last: bool = False) -> _Solution:
        """The coefficients for a ridge; `last` may overwrite K. Two classes get a constant coordinate.

        The images that the model would make of each training row without it are P - dual / diag(A⁻¹), A = K + λI; their
        class means are those of rows to come.
        """
        A = self.K if last else self.K.copy()
        ridge = max(alpha, 1e-5) * max(np.trace(A) / len(A), 1e-12)  # float32 kernels: below is only rounding
        A.flat[:: len(A) + 1] += ridge
        L = cholesky(A.T, lower=True, overwrite_a=True, check_finite=False)
        dual = cho_solve((L, True), self.P, check_finite=False)
        fitted = self.P - ridge * dual
        scale = float(np.sqrt(np.mean(np.einsum("ij,ij->i", fitted, fitted)))) or 1.0
        head = Head(scale, constant=1.0 if self.P.shape[1] == 2 else 0.0)
        if posterior:
            inverse = dtrtri(L, lower=1, overwrite_c=1)[0]
            apart = head(self.P - dual / np.einsum("ij,ij->j", inverse, inverse)[:, None], _no_rows)
            sums = class_sums(apart, self.codes, None, self.P.shape[1])
            head = replace(head, means=sums / np.bincount(self.codes)[:, None])
        return dual, self.mean @ dual, head
