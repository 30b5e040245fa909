"""Linear similarities in closed form: Euclid, whitening, RCA, LDA, ridge regression, and these with the input."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.preprocessing import normalize

from likewise.learn.choose.search import Params, Sides
from likewise.learn.cosine import Unlearned
from likewise.learn.maths.labels import class_sums
from likewise.learn.maths.scatter import Eigen, decomposed, fixed_signs, gram, leading_directions, shrunk
from likewise.rivals.common import Baseline, LinearBaseline, distance_sides, estimator, linear_sides
from likewise.utils.arrays import dense
from likewise.utils.onnx_graph import Graph
from likewise.utils.validation import StrOptions

# -- Without learning --------------------------------------------------------------------------------------------------


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


# -- Centred rows, their classes and their covariance ------------------------------------------------------------------


@dataclass(frozen=True)
class CentredRows:
    """Centred rows Z (n, q) with their class codes; of fewer rows than columns, coordinates in the span of the rows.

    `mean` (d,) was subtracted, `basis` (d, q) spans the rows (None: they are as they came), `centres` (k, q) are the
    class means and `sizes` (k,) the class sizes.
    """

    Z: np.ndarray
    y: np.ndarray
    mean: np.ndarray
    basis: np.ndarray | None
    centres: np.ndarray
    sizes: np.ndarray

    @classmethod
    def of(cls, X: np.ndarray, y: np.ndarray) -> Self:
        mean, basis, sizes = X.mean(axis=0, dtype=np.float64), None, np.bincount(y)
        Z = X - mean.astype(X.dtype)
        if Z.shape[0] < Z.shape[1]:
            _, s, Vt = np.linalg.svd(Z.astype(np.float64), full_matrices=False)
            basis = Vt[s > s[0] * np.finfo(np.float32).eps].T if s[0] > 0 else Vt[:1].T
            Z = Z @ basis
        return cls(Z, y, mean, basis, class_sums(Z, y, None, len(sizes)) / sizes[:, None], sizes)

    @property
    def priors(self) -> np.ndarray:
        """Share of each class."""
        return self.sizes / len(self.y)

    def covariance(self) -> Eigen:
        return _covariance(self.Z)

    def covariance_within(self) -> Eigen:
        """The covariance of rows about the mean of their class, divided by n."""
        R = self.Z - self.centres.astype(self.Z.dtype)[self.y]
        rounding = 4 * np.finfo(R.dtype).eps + len(R) * np.finfo(np.float64).eps  # of rows, and of sums over a class
        R[np.abs(R) <= rounding * np.abs(self.Z).max()] = 0
        return _covariance(R)

    def unfolded(self, L: np.ndarray) -> np.ndarray:
        """A map (r, q) of these rows as a map (r, d) of centred rows."""
        return L if self.basis is None else L @ self.basis.T


def _covariance(R: np.ndarray) -> Eigen:
    values, V = decomposed(gram(R))
    return values / len(R), V


def whitener(covariance: Eigen, shrinkage: float) -> np.ndarray:
    """((1 − a)S + a·mean(S)·I)^(−½) as rows in the eigenbasis of S, (q, q)."""
    values, _ = shrunk(covariance[0], len(covariance[0]), shrinkage)
    floor = np.finfo(np.float64).eps * len(values) * values.max(initial=np.finfo(np.float64).tiny)
    return np.asarray(covariance[1].T / np.sqrt(np.maximum(values, floor))[:, None])


def discriminants(rows: CentredRows, within: Eigen, shrinkage: float, r: int | None = None) -> np.ndarray:
    """Directions (r, q): whiten by the shrunk within-class covariance, then the leading ones between classes."""
    T = whitener(within, shrinkage)
    _, _, Qt = np.linalg.svd(np.sqrt(rows.sizes)[:, None] * (rows.centres @ T.T), full_matrices=False)
    most = min(len(rows.sizes) - 1, len(Qt))
    return Qt[: most if r is None else min(r, most)] @ T


def principal_directions(X: np.ndarray, r: int) -> np.ndarray:
    """The r leading principal directions of centred rows, (r, d), or as many as the rows span; signs are fixed."""
    values, V = leading_directions(X, None, r)
    V = V[:, : max(1, int(np.sum(values > values[0] * np.finfo(np.float32).eps)))]
    return np.ascontiguousarray((V * fixed_signs(V)).T, dtype=X.dtype)


# -- Linear maps with one setting that matters, a shrinkage or a ridge -------------------------------------------------


class SearchedLinear(LinearBaseline):
    """A subclass names its setting in `_grids` and solves for it.

    The parameter of that name is a number, or "auto" for the best of `grid`; the value used ends in an underscore.
    """

    def _learn(self, rows: np.ndarray, codes: np.ndarray, **setting: Any) -> None:
        self.metric_ = self._metric(len(self.classes_))
        parts = self._solver(rows, codes)(*setting.values())
        self.components_, self.offset_ = (part.astype(rows.dtype) for part in parts)

    def _candidates(self, X: np.ndarray, y: np.ndarray) -> Callable[[Params], Sides]:
        solve, metric = self._solver(X, y), self._metric(int(y.max()) + 1)
        (name,) = self._grids
        return lambda params: linear_sides(*solve(params[name]), metric)

    def _solver(self, X: np.ndarray, y: np.ndarray) -> Callable[[float], tuple[np.ndarray, np.ndarray]]:
        """From the setting to components (r, d) and their offset (r,); what settings share is computed here, once."""
        rows = CentredRows.of(X, y)
        solve, constant = self._map(rows), self._constant(rows)

        def components(setting: float) -> tuple[np.ndarray, np.ndarray]:
            L = rows.unfolded(solve(setting))
            return L, L @ rows.mean - constant

        return components

    def _metric(self, n_classes: int) -> str:
        return "cosine"

    def _constant(self, rows: CentredRows) -> np.ndarray | float:
        """What is added to mapped rows."""
        return 0.0

    def _map(self, rows: CentredRows) -> Callable[[float], np.ndarray]:
        """From the setting to a map (r, q) of these rows."""
        raise NotImplementedError


@estimator
class Whitening(SearchedLinear):
    """PCA-whitening of (unit) rows, compared by cosine.

    Parameters
    ----------
    shrinkage : float or "auto", default="auto"
        a in (1 − a)S + a·mean(S)·I, where S are the eigenvalues of the covariance. "auto" takes the best of `grid` on
        held-out training rows.
    metric : {"cosine", "distance"}, default="cosine"
        How whitened rows are compared.
    """

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

    def _map(self, rows: CentredRows) -> Callable[[float], np.ndarray]:
        return partial(whitener, rows.covariance())


class RCA(Whitening):
    """Relevant component analysis: whitening by the covariance within classes.

    With the cosine, the default here, it is known as within-class covariance normalisation (WCCN); with
    `metric="distance"` it is the Mahalanobis distance of Bar-Hillel et al. 2003. Its parameters are those of
    `Whitening`.
    """

    def _map(self, rows: CentredRows) -> Callable[[float], np.ndarray]:
        return partial(whitener, rows.covariance_within())


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

    def _map(self, rows: CentredRows) -> Callable[[float], np.ndarray]:
        within = rows.covariance_within()
        return lambda shrinkage: discriminants(rows, within, shrinkage, self.n_components)


@estimator
class RidgeOneHot(SearchedLinear):
    """Regress one-hot labels on (unit) rows with a ridge; the predictions, compared by cosine, are the embedding.

    Parameters
    ----------
    alpha : float or "auto", default="auto"
        Ridge in units of the mean eigenvalue of the covariance. "auto" takes the best of `grid` on held-out training
        rows.
    """

    _grids: ClassVar[dict[str, str]] = {"alpha": "grid"}

    alpha: float | str = "auto"
    normalize: bool = True
    grid: tuple[float, ...] = (0.1, 0.001, 0.01, 0.03, 0.3, 1.0, 3.0, 10.0)
    random_state: Any = None
    holdout: str = "rows"

    def _constant(self, rows: CentredRows) -> np.ndarray:
        return rows.priors

    def _map(self, rows: CentredRows) -> Callable[[float], np.ndarray]:
        values, V = rows.covariance()
        moments = rows.priors[:, None] * (rows.centres @ V)  # XᵀY / n in the eigenbasis
        least = np.finfo(np.float64).eps * len(values)

        def coefficients(alpha: float) -> np.ndarray:
            return (moments / (values + max(alpha, least) * values.mean() + np.finfo(np.float64).tiny)) @ V.T

        return coefficients


_BASES: dict[str, type[SearchedLinear]] = {"lda": LDA, "ridge": RidgeOneHot}


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
    """

    _grids: ClassVar[dict[str, str]] = {"weight": "weights"}
    _parameter_constraints: ClassVar[dict[str, Any]] = {"base": [StrOptions(set(_BASES))]}

    base: str = "ridge"
    weight: float | str = "auto"
    weights: tuple[float, ...] = (0.5, 0.1, 0.25, 0.75, 0.9)
    holdout: str = "classes"
    random_state: Any = None

    def _learn(self, rows: np.ndarray, codes: np.ndarray, **setting: Any) -> None:
        (name,) = _BASES[self.base]._grids
        parts = _BASES[self.base]()._solver(rows, codes)(setting[name])
        self.components_, self.offset_ = (part.astype(rows.dtype) for part in parts)
        self.mean_ = rows.mean(axis=0)

    def _settings(self) -> list[Params]:
        base = _BASES[self.base]()._settings()
        return [{**setting, "weight": weight} for setting in base for weight in self._values("weight")]

    def _candidates(self, X: np.ndarray, y: np.ndarray) -> Callable[[Params], Sides]:
        base = _BASES[self.base]()
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
