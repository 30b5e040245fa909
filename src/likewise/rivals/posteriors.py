"""Posteriors of classifiers as embeddings: for galleries whose classes were all seen in training."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC

from likewise.learn.base import project
from likewise.learn.choose.search import Params, Sides
from likewise.learn.maths.kernels import Features
from likewise.rivals.closed_forms import CentredRows, discriminants
from likewise.rivals.common import Baseline, drawn_kernel, estimator
from likewise.utils.onnx_graph import Graph


def posterior(scores: np.ndarray, temperature: float) -> np.ndarray:
    """√softmax(scores / temperature) of each row, in the precision of the scores."""
    return np.sqrt(softmax(scores / scores.dtype.type(temperature), axis=1))


class _ClassScores(NamedTuple):
    """Scores of the classes as linear functions of the features of a row."""

    weights: np.ndarray  # (k, q)
    bias: np.ndarray  # (k,)
    features: Features = Features()

    def astype(self, dtype: np.dtype) -> _ClassScores:
        return self._replace(weights=np.ascontiguousarray(self.weights, dtype), bias=self.bias.astype(dtype))


class _Posterior(Baseline):
    """√softmax(scores / τ) of the scores that a subclass fits; `temperature` is the last of its settings."""

    components_: np.ndarray
    intercept_: np.ndarray
    temperature_: float
    landmarks_: np.ndarray | None = None
    gamma_: float = 0.0

    def _learn(self, rows: np.ndarray, codes: np.ndarray, **setting: Any) -> None:
        scores = self._scorer(rows, codes)(*list(setting.values())[:-1])
        self.components_, self.intercept_, _ = scores

    def _scorer(self, X: np.ndarray, y: np.ndarray) -> Callable[..., _ClassScores]:
        """Fit for any setting but the temperature; what all settings share is computed here, once."""
        raise NotImplementedError

    def _candidates(self, X: np.ndarray, y: np.ndarray) -> Callable[[Params], Sides]:
        scorer = lru_cache(maxsize=1)(self._scorer(X, y))  # temperatures vary fastest and share the scores

        def candidate(params: Params) -> Sides:
            weights, bias, features = scorer(*list(params.values())[:-1])
            return lambda rows: 2 * (posterior(features(rows) @ weights.T + bias, params["temperature"]),)

        return candidate

    def _gallery_side(self, X: Any) -> np.ndarray:
        features = Features(self.landmarks_, self.gamma_)(self._rows(X))
        return posterior(
            project(features, self.components_) + self.intercept_.astype(features.dtype), self.temperature_
        )

    def _write_onnx(self, graph: Graph, rows: str) -> tuple[str, str]:
        features = graph.kernel(self._onnx_rows(graph, rows), self.landmarks_, self.gamma_)
        scores = graph.plus(graph.mapped(features, self.components_.T), self.intercept_)
        return 2 * (graph.posterior(scores, self.temperature_),)


@estimator
class LDAPosterior(_Posterior):
    """√softmax(score / τ), score_k = z·μ_k − ½|μ_k|² + log(n_k / n): one Gaussian per class with a shared covariance.

    z are the discriminant directions of unit rows, in which the classes' covariance is the identity. The embedding is
    a unit vector with one entry per class; it cannot separate classes that were not in training.

    Parameters
    ----------
    shrinkage, temperature : float or "auto", default="auto"
        a in (1 − a)S_w + a·mean(S_w)·I, and τ. "auto" searches `grid` and `temperatures` on held-out training rows.
    """

    _grids: ClassVar[dict[str, str]] = {"shrinkage": "grid", "temperature": "temperatures"}

    shrinkage: float | str = "auto"
    temperature: float | str = "auto"
    normalize: bool = True
    grid: tuple[float, ...] = (0.1, 0.001, 0.01, 0.03, 0.3, 0.5, 0.7)
    temperatures: tuple[float, ...] = (1.0, 0.5, 2.0, 4.0, 8.0)
    random_state: Any = None

    def _scorer(self, X: np.ndarray, y: np.ndarray) -> Callable[[float], _ClassScores]:
        rows = CentredRows.of(X, y)
        within = rows.covariance_within()

        def scores(shrinkage: float) -> _ClassScores:
            directions = discriminants(rows, within, shrinkage)
            means = rows.centres @ directions.T
            weights = means @ rows.unfolded(directions)
            bias = np.log(rows.priors) - np.einsum("ij,ij->i", means, means) / 2
            return _ClassScores(weights, bias - weights @ rows.mean).astype(X.dtype)

        return scores


@estimator
class LogisticPosterior(_Posterior):
    """√softmax(scores / τ), a unit vector with one entry per class; the inner product is the similarity.

    The inner product of two such vectors is the Bhattacharyya coefficient of the two tempered posteriors. It cannot
    separate classes that were not in training.

    Parameters
    ----------
    C : float or "auto", default="auto"
        Inverse strength of the penalty, on rows scaled to a mean square of 1 per column. "auto" searches `grid`
        together with the temperature on held-out training rows.
    temperature : float or "auto", default="auto"
        τ above; "auto" searches `temperatures`.
    max_iter : int, default=200
        L-BFGS iterations of the regression, at most.
    """

    _grids: ClassVar[dict[str, str]] = {"C": "grid", "temperature": "temperatures"}

    C: float | str = "auto"
    temperature: float | str = "auto"
    normalize: bool = True
    grid: tuple[float, ...] = (0.1, 0.001, 0.01, 1.0)
    temperatures: tuple[float, ...] = (1.0, 0.1, 0.25, 0.5, 2.0, 4.0)
    max_iter: int = 200
    random_state: Any = None

    def _scorer(self, X: np.ndarray, y: np.ndarray) -> Callable[[float], _ClassScores]:
        mean = X.mean(axis=0)
        scale = X.dtype.type(np.sqrt(np.mean((X - mean) ** 2)) or 1.0)
        rows = (X - mean) / scale

        def scores(C: float) -> _ClassScores:
            # The penalty is per row, so that C means the same for a part of the rows and for all of them.
            model = LogisticRegression(C=C * 1000 / len(y), max_iter=self.max_iter, tol=1e-3).fit(rows, y)
            self.n_iter_ = int(model.n_iter_.max())
            weights, bias = model.coef_ / scale, model.intercept_
            if len(weights) == 1:  # two classes
                weights, bias = np.vstack([-weights, weights]) / 2, np.hstack([-bias, bias]) / 2
            return _ClassScores(weights, bias - weights @ mean).astype(X.dtype)

        return scores


@estimator
class SVMPosterior(_Posterior):
    """√softmax(f / τ) of the decision values f of one RBF support vector machine per class, on unit rows.

    The embedding is a unit vector with one entry per class; the inner product is the similarity. It cannot separate
    classes that were not in training. Cost and memory grow with n².

    Parameters
    ----------
    C, width, temperature : float or "auto", default="auto"
        Penalty; γ in units of 1 / mean squared distance; τ. "auto" searches `grid`, `widths` and `temperatures` on
        held-out training rows.
    """

    _grids: ClassVar[dict[str, str]] = {"width": "widths", "C": "grid", "temperature": "temperatures"}

    C: float | str = "auto"
    width: float | str = "auto"
    temperature: float | str = "auto"
    grid: tuple[float, ...] = (10.0, 1.0, 100.0)
    widths: tuple[float, ...] = (1.0, 0.5, 2.0, 4.0)
    temperatures: tuple[float, ...] = (0.2, 0.02, 0.05, 0.1, 0.5)
    random_state: Any = None

    def _learn(self, rows: np.ndarray, codes: np.ndarray, **setting: Any) -> None:
        scores = self._scorer(rows, codes)(setting["width"], setting["C"])
        support = np.any(scores.weights, axis=0)
        self.landmarks_, self.gamma_ = scores.features.landmarks[support], scores.features.gamma
        self.components_, self.intercept_ = np.ascontiguousarray(scores.weights[:, support]), scores.bias

    def _scorer(self, X: np.ndarray, y: np.ndarray) -> Callable[[float, float], _ClassScores]:
        """Each class against the rest; the landmarks are all rows."""

        def scores(width: float, C: float) -> _ClassScores:
            features = drawn_kernel(X, width, None, self.random_state)
            K = features(X).astype(np.float64, copy=False)
            weights, bias = np.zeros((y.max() + 1, len(y))), np.zeros(y.max() + 1)
            for code in range(len(bias)):
                machine = SVC(C=C, kernel="precomputed").fit(K, y == code)
                weights[code, machine.support_], bias[code] = machine.dual_coef_[0], machine.intercept_[0]
            return _ClassScores(weights, bias, features).astype(X.dtype)

        return scores
