"""Similarities in closed form: Euclid and cosine, whitening, RCA, LDA and ridge regression."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from scipy.linalg import eigh

from likewise.learn.base import finite_fit
from likewise.learn.choose.search import Params, Sides
from likewise.learn.cosine import Unlearned
from likewise.learn.maths.labels import class_sums
from likewise.learn.maths.scatter import fixed_signs, leading_directions, shrunk
from likewise.rivals.common import LinearBaseline, distance_sides, estimator, linear_sides
from likewise.utils.onnx_graph import Graph
from likewise.utils.validation import StrOptions

# ---------------------------------------------------------------------------------------------------------------------
# Without learning


class Euclid(Unlearned):
    """Minus the squared Euclidean distance.

    Rows are centred first: distances do not change, and float32 loses fewer digits.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {}

    def _gallery_side(self, X: Any) -> np.ndarray:
        return distance_sides(self._centred(X))[1]

    def _query_side(self, X: Any) -> np.ndarray:
        return distance_sides(self._centred(X))[0]

    def _write_onnx(self, graph: Graph, rows: str) -> tuple[str, str]:
        return graph.compared(graph.plus(rows, -self.mean_), "distance")


# ---------------------------------------------------------------------------------------------------------------------
# Class means and covariances, by their spectra


@dataclass(frozen=True)
class Scatter:
    """The mean of all rows (d,), of each class (k, d), and the class sizes (k,)."""

    mean: np.ndarray
    centres: np.ndarray
    sizes: np.ndarray


@dataclass(frozen=True)
class Spectrum:
    """A covariance as eigenvalues (q,), ascending, and eigenvectors (d, q); q < d if rows are fewer than columns."""

    values: np.ndarray
    vectors: np.ndarray

    def whitener(self, shrinkage: float) -> np.ndarray:
        """((1 − a)S + a·mean(S)·I)^(−½) as rows in the eigenbasis, shape (q, d)."""
        values, _ = shrunk(self.values, len(self.values), shrinkage)
        floor = np.finfo(np.float64).eps * len(values) * values.max(initial=np.finfo(np.float64).tiny)
        return self.vectors.T / np.sqrt(np.maximum(values, floor))[:, None]


def scatter(X: np.ndarray, y: np.ndarray) -> Scatter:
    """Means in float64, whatever the precision of X."""
    sizes = np.bincount(y)
    sums = class_sums(X, y, None, len(sizes))
    return Scatter(sums.sum(axis=0) / len(y), sums / sizes[:, None], sizes)


def within(X: np.ndarray, y: np.ndarray, classes: Scatter) -> Spectrum:
    """Spectrum of the covariance of rows about the mean of their class, divided by n."""
    return spectrum(X - classes.centres.astype(X.dtype)[y], extra=classes.centres - classes.mean)


def spectrum(R: np.ndarray, extra: np.ndarray | None = None) -> Spectrum:
    """Spectrum of RᵀR/n for residual rows R.

    With fewer rows than columns only the span of R and of the `extra` rows is kept: no d×d matrix is formed.
    """
    n, d = R.shape
    basis = None
    if n < d:
        rows = R if extra is None else np.vstack([R, extra])
        _, s, Vt = np.linalg.svd(rows.astype(np.float64), full_matrices=False)
        basis = Vt[s > s[0] * np.finfo(np.float32).eps].T if s[0] > 0 else Vt[:1].T
        R = R @ basis
    values, vectors = eigh((R.T @ R).astype(np.float64) / n, driver="evd")  # twice as fast as the default
    vectors = vectors if basis is None else basis @ vectors
    return Spectrum(np.maximum(values, 0), vectors)


def principal_directions(X: np.ndarray, r: int) -> np.ndarray:
    """The r leading principal directions of centred rows, (r, d), or as many as the rows span; signs are fixed."""
    values, V = leading_directions(X, None, r)
    V = V[:, : max(1, int(np.sum(values > values[0] * np.finfo(np.float32).eps)))]
    return np.ascontiguousarray((V * fixed_signs(V)).T, dtype=X.dtype)


# ---------------------------------------------------------------------------------------------------------------------
# Linear maps with one setting that matters, a shrinkage or a ridge

Solver = Callable[[float], tuple[np.ndarray, np.ndarray]]
"""From the setting to components (r, d) and their offset (r,)."""


class SearchedLinear(LinearBaseline):
    """`fit` for all of them: a subclass names its setting in `_grids` and solves for it.

    The parameter of that name is a number, or "auto" for the best of `grid`; the value used ends in an underscore.
    """

    holdout: str

    @finite_fit
    def fit(self, X: Any, y: Any) -> Self:
        """Learn from rows X and labels y; "auto" is chosen on held-out training rows."""
        X, codes = self._training_data(X, y)
        rows = self._rows(X)
        self.metric_ = self._metric(len(self.classes_))
        (chosen,) = self._keep(self._best(self._candidates, rows, codes, self.holdout)).values()
        components, offset = self._solver(rows, codes)(chosen)
        self.components_, self.offset_ = components.astype(X.dtype), offset.astype(X.dtype)
        return self

    def _candidates(self, X: np.ndarray, y: np.ndarray) -> Callable[[Params], Sides]:
        solve, metric = self._solver(X, y), self._metric(int(y.max()) + 1)
        (name,) = self._grids
        return lambda params: linear_sides(*solve(params[name]), metric)

    def _metric(self, n_classes: int) -> str:
        return "cosine"

    def _solver(self, X: np.ndarray, y: np.ndarray) -> Solver:
        """Solve for any setting; what all settings share is computed here, once."""
        raise NotImplementedError


@estimator
class _Whitener(SearchedLinear):
    """Map rows through a shrunk inverse square root of a covariance."""

    _grids: ClassVar[dict[str, str]] = {"shrinkage": "grid"}
    _parameter_constraints: ClassVar[dict[str, Any]] = {"metric": [StrOptions({"cosine", "distance"})]}

    shrinkage: float | str = "auto"
    normalize: bool = True
    metric: str = "cosine"
    grid: tuple[float, ...] = (0.1, 0.001, 0.01, 0.03, 0.3, 0.5, 0.7, 0.9, 1.0)
    random_state: Any = None
    holdout: str = "rows"

    def _metric(self, n_classes: int) -> str:
        return self.metric

    def _solver(self, X: np.ndarray, y: np.ndarray) -> Solver:
        mean, covariance = self._covariance(X, y)

        def solve(shrinkage: float) -> tuple[np.ndarray, np.ndarray]:
            T = covariance.whitener(shrinkage)
            return T, T @ mean

        return solve

    def _covariance(self, X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, Spectrum]:
        raise NotImplementedError


class Whitening(_Whitener):
    """PCA-whitening of (unit) rows, compared by cosine.

    Parameters
    ----------
    shrinkage : float or "auto", default="auto"
        a in (1 − a)S + a·mean(S)·I, where S are the eigenvalues of the covariance. "auto" takes the best of `grid` on
        held-out training rows.
    normalize : bool, default=True
        Scale rows to unit length first.
    metric : {"cosine", "distance"}, default="cosine"
        How whitened rows are compared.
    grid : sequence of float
        Shrinkages to try.
    random_state : int, RandomState or None, default=None
        Seed of the holdout.
    holdout : {"rows", "classes"}, default="rows"
        What is held out for the search; "classes" for galleries of classes that are not in training.
    """

    def _covariance(self, X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, Spectrum]:
        mean = X.mean(axis=0, dtype=np.float64)
        return mean, spectrum(X - mean.astype(X.dtype))


class RCA(_Whitener):
    """Relevant component analysis: whitening by the covariance within classes.

    With the cosine, the default here, it is known as within-class covariance normalisation (WCCN); with
    `metric="distance"` it is the Mahalanobis distance of Bar-Hillel et al. 2003. Its parameters are those of
    `Whitening`.
    """

    def _covariance(self, X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, Spectrum]:
        classes = scatter(X, y)
        return classes.mean, within(X, y, classes)


@estimator
class LDA(SearchedLinear):
    """The k − 1 discriminant directions of (unit) rows, whitened within classes, compared by cosine.

    The strongest of the simple methods. Two classes leave one direction, where a cosine is only a sign; there the
    Euclidean distance is used.

    Parameters
    ----------
    shrinkage : float or "auto", default="auto"
        a in (1 − a)S_w + a·mean(S_w)·I. "auto" takes the best of `grid` on held-out training rows.
    n_components : int or None, default=None
        Directions kept, at most the number of classes minus one; None keeps all of them.
    normalize, grid, random_state, holdout : as in `Whitening`.
    """

    _grids: ClassVar[dict[str, str]] = {"shrinkage": "grid"}

    shrinkage: float | str = "auto"
    n_components: int | None = None
    normalize: bool = True
    grid: tuple[float, ...] = (0.1, 0.001, 0.01, 0.03, 0.2, 0.3, 0.5, 0.7, 0.9)
    random_state: Any = None
    holdout: str = "rows"

    def _metric(self, n_classes: int) -> str:
        return "cosine" if n_classes > 2 else "distance"

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


@estimator
class RidgeOneHot(SearchedLinear):
    """Regress one-hot labels on (unit) rows with a ridge; the predictions, compared by cosine, are the embedding.

    Parameters
    ----------
    alpha : float or "auto", default="auto"
        Ridge in units of the mean eigenvalue of the covariance. "auto" takes the best of `grid` on held-out training
        rows.
    normalize, grid, random_state, holdout : as in `Whitening`.
    """

    _grids: ClassVar[dict[str, str]] = {"alpha": "grid"}

    alpha: float | str = "auto"
    normalize: bool = True
    grid: tuple[float, ...] = (0.1, 0.001, 0.01, 0.03, 0.3, 1.0, 3.0, 10.0)
    random_state: Any = None
    holdout: str = "rows"

    def _solver(self, X: np.ndarray, y: np.ndarray) -> Solver:
        return _RidgeProblem.of(X, y).solve


@dataclass(frozen=True)
class _RidgeProblem:
    """Sums over the data that solve the regression for any ridge."""

    mean: np.ndarray
    priors: np.ndarray
    covariance: Spectrum
    moments: np.ndarray  # (k, q): XᵀY / n of the centred rows, in the eigenbasis

    @classmethod
    def of(cls, X: np.ndarray, y: np.ndarray) -> _RidgeProblem:
        classes = scatter(X, y)
        covariance = spectrum(X - classes.mean.astype(X.dtype))
        priors = classes.sizes / len(y)
        moments = priors[:, None] * ((classes.centres - classes.mean) @ covariance.vectors)
        return cls(classes.mean, priors, covariance, moments)

    def solve(self, alpha: float) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients (k, d) of the ridge regression and its negative intercepts (k,)."""
        values = self.covariance.values
        least = np.finfo(np.float64).eps * len(values)
        damped = values + max(alpha, least) * values.mean() + np.finfo(np.float64).tiny
        coefficients = (self.moments / damped) @ self.covariance.vectors.T
        return coefficients, coefficients @ self.mean - self.priors
