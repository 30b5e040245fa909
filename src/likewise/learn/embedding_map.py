"""From one embedding model to another: `fit_map(old, new)`, so that an index survives a change of encoder."""

from typing import Any, ClassVar, Self

import numpy as np
import scipy.linalg
from sklearn.preprocessing import normalize

from likewise.errors import LikewiseError
from likewise.learn.base import SimilarityModel, checked_side, finite_fit, project
from likewise.learn.maths.labels import Seed, generator
from likewise.utils.arrays import Array, dense
from likewise.utils.onnx_graph import Graph
from likewise.utils.validation import NOT_NEGATIVE, check_array, check_is_fitted

RIDGES = (0.0, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)  # in units of the mean eigenvalue of the Gram matrix
HELD_SHARE = 0.2


class EmbeddingMap(SimilarityModel):
    """A linear map from the space of one embedding model to that of another, learned from items embedded by both.

    The gallery side takes rows of the old space and maps them; the query side takes rows of the new space unchanged.
    So an index of old rows, mapped once, is searched by queries of the new encoder.

    Parameters
    ----------
    alpha : float or None, default=None
        Ridge, in units of the mean eigenvalue of the old rows' Gram matrix; None chooses it by the cosine between
        mapped and true rows on a held-out fifth.
    random_state : int, RandomState or None, default=None
        Seed of the holdout.

    Attributes
    ----------
    components_ : (d_new, d_old) array
        `transform` is (X - mean_) @ components_.T + new_mean_.
    mean_, new_mean_ : means of the two sides.
    alpha_ : float
        Ridge used.
    n_features_in_, n_new_features_ : widths of the two spaces.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {"alpha": [NOT_NEGATIVE, None], "random_state": ["random_state"]}

    def __init__(self, *, alpha: float | None = None, random_state: Seed = None) -> None:
        self.alpha = alpha
        self.random_state = random_state

    @finite_fit
    def fit(self, X: Array, y: Array) -> Self:
        """Learn the map from rows X of the old space to rows y of the new one, item by item."""
        self._validate_params()
        old, new = (
            np.asarray(check_array(rows, dtype=[np.float64, np.float32], input_name=name))
            for rows, name in ((X, "old"), (y, "new"))
        )
        if len(old) != len(new):
            raise LikewiseError(f"old has {len(old)} rows and new {len(new)}: expected the same items in both")
        if len(old) < 2:
            raise LikewiseError("old has one row: a map is learned from at least two items")
        self.n_features_in_, self.n_new_features_, self.n_samples_ = old.shape[1], new.shape[1], len(old)
        self.alpha_ = self._chosen_alpha(old, new) if self.alpha is None else float(self.alpha)
        self.mean_, self.new_mean_ = old.mean(axis=0), new.mean(axis=0)
        (T,) = _ridge(old - self.mean_, new - self.new_mean_, (self.alpha_,))
        self.components_ = np.ascontiguousarray(T.T, dtype=new.dtype)
        return self

    def score(self, X: Array, y: Array) -> float:
        """Mean cosine between mapped rows X of the old space and rows y of the new one."""
        mapped, new = self.transform(X), self._validated_query(y)
        return float(np.mean(np.sum(normalize(mapped) * normalize(new), axis=1)))

    def _chosen_alpha(self, old: np.ndarray, new: np.ndarray) -> float:
        order = generator(self.random_state).permutation(len(old))
        held, seen = np.split(order, [max(1, round(HELD_SHARE * len(old)))])
        mean, new_mean = old[seen].mean(axis=0), new[seen].mean(axis=0)
        maps = _ridge(old[seen] - mean, new[seen] - new_mean, RIDGES)
        goal = normalize(new[held])
        scores = [float(np.sum(normalize((old[held] - mean) @ T + new_mean) * goal)) for T in maps]
        return RIDGES[int(np.argmax(scores))]

    def _gallery_side(self, X: Array) -> np.ndarray:
        return project(X, self.components_) + self._shift().astype(X.dtype)

    def _query_side(self, X: Array) -> np.ndarray:
        return dense(X)

    def _shift(self) -> np.ndarray:
        return self.new_mean_ - self.components_ @ self.mean_

    def _validated_gallery(self, X: Array) -> Array:
        check_is_fitted(self)
        return checked_side(X, self.n_features_in_, "the map", "old")

    def _validated_query(self, X: Array) -> Array:
        check_is_fitted(self)
        return checked_side(X, self.n_new_features_, "the map", "new")

    @property
    def _n_features_out(self) -> int:
        return self.n_new_features_

    def _write_onnx(self, graph: Graph, rows: str) -> tuple[str, str]:
        """`query` takes rows of the new space, `gallery` of the old one; both spaces must have one width."""
        if self.n_features_in_ != self.n_new_features_:
            widths = f"{self.n_features_in_} and {self.n_new_features_}"
            raise LikewiseError(f"the map is between spaces of {widths} columns: an ONNX graph has one input")
        return rows, graph.plus(graph.mapped(rows, self.components_.T), self._shift())


def fit_map(old: Array, new: Array, *, alpha: float | None = None, random_state: Seed = None) -> EmbeddingMap:
    """Learn to map rows of an old embedding space to a new one from the same items in both.

    Examples
    --------
    >>> import numpy as np
    >>> from likewise import fit_map
    >>> rng = np.random.default_rng(0)
    >>> old = rng.standard_normal((200, 8))
    >>> new = old @ rng.standard_normal((8, 12))
    >>> fit_map(old[:100], new[:100]).score(old[100:], new[100:]) > 0.999
    True
    """
    return EmbeddingMap(alpha=alpha, random_state=random_state).fit(old, new)


def _ridge(old: np.ndarray, new: np.ndarray, alphas: tuple[float, ...]) -> list[np.ndarray]:
    """(G + αI)⁻¹ oldᵀ new for each α through one eigendecomposition, without directions that are only rounding."""
    old, new = old.astype(np.float64, copy=False), new.astype(np.float64, copy=False)
    values, V = scipy.linalg.eigh(old.T @ old, driver="evd", check_finite=False)
    significant = values > max(values[-1], 0.0) * len(old) * np.finfo(float).eps
    values, V = values[significant], V[:, significant]
    right = V.T @ (old.T @ new)
    unit_ridge = values.sum() / old.shape[1]
    return [V @ (right / (values + alpha * unit_ridge)[:, None]) for alpha in alphas]
