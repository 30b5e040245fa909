"""The base classes of the rivals: parameters, checked training data, the settings to try, rows compared by distance."""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, wraps
from itertools import product
from typing import Any, ClassVar, Self, TypeVar, dataclass_transform

import numpy as np
import scipy.sparse as sp

from likewise.errors import LikewiseError
from likewise.learn.base import MOST_HASHES, SimilarityModel, finite_fit, project
from likewise.learn.choose.search import Params, Sides, search_grid
from likewise.learn.maths.kernels import Features, mean_square_distance
from likewise.learn.maths.labels import encode_labels, generator, sample_rows
from likewise.utils.arrays import dense, row_hashes, unit_rows
from likewise.utils.onnx_graph import Graph
from likewise.utils.validation import COUNT, NOT_NEGATIVE, POSITIVE, SHARE, StrOptions

_AUTO = StrOptions({"auto"})
_COUNTS = "batch max_iter n_hidden n_iter n_landmarks n_rounds n_steps rank"

CONSTRAINTS: dict[str, list[Any]] = {
    **{name: [COUNT] for name in _COUNTS.split()},
    **{name: [COUNT, None] for name in ("max_rows", "n_components")},
    **{name: [POSITIVE, _AUTO] for name in ("C", "scale", "step", "temperature", "width")},
    **{name: [SHARE, _AUTO] for name in ("mu", "shrinkage", "weight")},
    **{name: ["boolean"] for name in ("normalize", "rescale")},
    "alpha": [NOT_NEGATIVE, _AUTO],
    "decay": [NOT_NEGATIVE],
    "holdout": [StrOptions({"rows", "classes"})],
    "k": [COUNT, _AUTO],
    "lam": [SHARE],
    "random_state": ["random_state"],
}
"""A parameter means the same in every baseline. Choices among words are stated by the class; grids are sequences."""

_DOCUMENTED = {
    "normalize": "bool, default=True\n        Scale rows to unit length first.",
    "holdout": '{"rows", "classes"}\n        What is held out for the search: "classes" for galleries of new classes.',
    "random_state": "int, RandomState or None, default=None\n        Seed of the holdout and of all that is drawn.",
}
"""What `estimator` adds to the docstring of a class that has such a parameter, like the grids."""

_USED = "what was used; `cv_results_` has all that was tried, in scikit-learn's schema."

DENSE_LIMIT = 4 * 2**30
"""Models that need dense rows refuse a sparse matrix that would take more bytes than this."""

Model = TypeVar("Model", bound="type[Baseline]")
Loop = TypeVar("Loop", bound=Callable[..., Any])


@dataclass_transform(eq_default=False)
def estimator(cls: Model) -> Model:
    """A class whose fields are its parameters; completes `_parameter_constraints` by name, and its docstring."""
    dataclass(eq=False, repr=False)(cls)
    names = inspect.signature(cls).parameters
    doc, _, attributes = (cls.__doc__ or "").rstrip().partition("\n\n    Attributes\n    ----------\n")
    shared = _DOCUMENTED | {grid: f"sequence\n        Values of {name} to try." for name, grid in cls._grids.items()}
    lines = [f"    {name} : {text}" for name, text in shared.items() if name in names and f" {name} : " not in doc]
    used = f"    {', '.join(f'{name}_' for name in cls._grids)} : {_USED}"
    sections = [
        doc,
        *lines,
        "",
        "    Attributes",
        "    ----------",
        *([attributes] if attributes else []),
        used,
        "    ",
    ]
    cls.__doc__ = "\n".join(sections)
    constraints = {grid: ["array-like"] for grid in cls._grids.values()} | cls._parameter_constraints
    cls._parameter_constraints = {name: constraints.get(name) or CONSTRAINTS[name] for name in names}
    return cls


class Baseline(SimilarityModel):
    """Checks the training data, searches the settings that are "auto", and learns at the best from all rows.

    A subclass has `_candidates`, which makes the two sides of rows for each setting to try, and `_learn`.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {}
    _grids: ClassVar[dict[str, str]] = {}
    """A parameter that may be "auto", and the parameter that holds the values to try; the last one varies fastest."""

    normalize: bool = True
    holdout: str = "rows"  # what is held out for the search
    output: str = ""  # "cosine" has no temperature
    random_state: Any
    cv_results_: dict[str, Any]

    @finite_fit
    def fit(self, X: Any, y: Any) -> Self:
        """Choose each setting that is "auto" on held-out training rows; then learn from all rows X and labels y."""
        X, codes = self._training_data(X, y)
        rows = self._rows(X)
        self._learn(rows, codes, **self._best(*self._search_rows(rows, codes)))
        return self

    def _best(self, rows: np.ndarray, codes: np.ndarray) -> Params:
        """The best setting by held-out rows; sets `cv_results_`, and each setting with an underscore at its end."""
        results = search_grid(self._settings(), self._candidates, rows, codes, self.random_state, self.holdout)
        self.cv_results_ = results.as_dict()
        for name, value in results.best_params.items():
            if name in self._grids:
                setattr(self, f"{name}_", value)
        return results.best_params

    def _candidates(self, X: np.ndarray, y: np.ndarray) -> Callable[[Params], Sides]:
        """From rows and class codes to a function from a setting to the two sides of rows that it gives."""
        raise NotImplementedError

    def _learn(self, rows: np.ndarray, codes: np.ndarray, **setting: Any) -> None:
        """Learn from all rows at a setting."""
        raise NotImplementedError

    def _search_rows(self, rows: np.ndarray, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The rows and class codes for the search."""
        return rows, codes

    def _training_data(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """Dense rows and class codes 0 … k − 1; sets `classes_` and `n_samples_`."""
        self._validate_params()
        X, y = self._validated_for_fit(X, y)
        self.classes_, codes = encode_labels(y)
        X, codes = (X, codes) if codes.min() >= 0 else (X[codes >= 0], codes[codes >= 0])
        self.n_samples_ = X.shape[0]
        self.training_rows_ = np.unique(row_hashes(X)) if len(codes) <= MOST_HASHES else None
        size = X.shape[0] * X.shape[1] * X.dtype.itemsize
        if sp.issparse(X) and size > DENSE_LIMIT:
            raise LikewiseError(
                f"X is sparse and its {X.shape[0]} × {X.shape[1]} values would take {size / 2**30:.1f} GiB dense: "
                "reduce it first, for example with TruncatedSVD"
            )
        return dense(X), codes

    def _rows(self, X: Any) -> Any:
        return unit_rows(X) if self.normalize else X

    def _onnx_rows(self, graph: Graph, rows: str) -> str:
        return graph.unit(rows) if self.normalize else rows

    def _settings(self) -> list[Params]:
        """Every combination of the values to try."""
        values = {name: self._values(name) for name in self._grids}
        if self.output == "cosine":
            values.pop("temperature")
        return [dict(zip(values, chosen, strict=True)) for chosen in product(*values.values())]

    def _values(self, name: str) -> list[Any]:
        """The value of the parameter, or its grid if it is "auto"."""
        value, grid = getattr(self, name), self._grids[name]
        if not isinstance(value, str) or value != "auto":
            return [value]
        values = getattr(self, grid)
        values = values.tolist() if isinstance(values, np.ndarray) else list(values)
        if not values:
            raise LikewiseError(f"{grid} is empty: expected at least one value of {name} to try")
        allowed = self._parameter_constraints[name][0]
        for value in values:
            if not allowed.is_satisfied_by(value):
                raise LikewiseError(f"{grid} holds {value!r}: expected values of {name}, each {allowed}")
        return values


class LinearBaseline(Baseline):
    """A linear map `components_` of (unit) rows, minus `offset_`, compared by cosine or by Euclidean distance."""

    components_: np.ndarray
    offset_: np.ndarray
    metric_: str

    @property
    def symmetric(self) -> bool:
        """Whether the query side of a row equals its gallery side: under the cosine."""
        return self.metric_ == "cosine"

    def _sides(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        return linear_sides(self.components_, self.offset_, self.metric_)(self._rows(X))

    def _gallery_side(self, X: Any) -> np.ndarray:
        return self._sides(X)[1]

    def _query_side(self, X: Any) -> np.ndarray:
        return self._sides(X)[0]

    def _write_onnx(self, graph: Graph, rows: str) -> tuple[str, str]:
        mapped = graph.mapped(self._onnx_rows(graph, rows), self.components_.T)
        return graph.compared(graph.plus(mapped, -self.offset_), self.metric_)


# -- Rows compared by cosine or distance -------------------------------------------------------------------------------


def compare(Z: np.ndarray, metric: str) -> tuple[np.ndarray, np.ndarray]:
    """Query and gallery sides of embedded rows under "cosine" or "distance"."""
    return distance_sides(Z) if metric == "distance" else 2 * (unit_rows(Z),)


def distance_sides(Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Query and gallery sides whose inner product is −‖a − b‖² = [2a, −‖a‖², −1] · [b, 1, ‖b‖²]."""
    squares = np.einsum("ij,ij->i", Z, Z)[:, None]
    ones = np.ones_like(squares)
    return np.hstack([2 * Z, -squares, -ones]), np.hstack([Z, ones, squares])


def linear_sides(components: np.ndarray, offset: np.ndarray, metric: str) -> Sides:
    """Rows to the two sides of x ↦ components·x − offset, in the precision of the rows."""

    def sides(X: Any) -> tuple[np.ndarray, np.ndarray]:
        Z = project(X, components)
        Z -= offset.astype(Z.dtype, copy=False)
        return compare(Z, metric)

    return sides


def drawn_kernel(rows: np.ndarray, width: float, size: int | None, random_state: Any) -> Features:
    """An RBF kernel on landmarks drawn from unit rows (all if size is None); γ = width / mean squared distance."""
    gamma = width / max(mean_square_distance(rows, None), 1e-12)
    return Features(rows[sample_rows(len(rows), size, generator(random_state))], gamma)


def batches(rows: np.ndarray, size: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """`size` rows at a time, from one random order after the other."""
    left = rng.permutation(rows)
    while True:
        while len(left) < size:
            left = np.concatenate([left, rng.permutation(rows)])
        yield left[:size]
        left = left[size:]


def remembering(function: Callable[[Any], np.ndarray]) -> Callable[[Any], np.ndarray]:
    """A function that caches the result for its last argument: settings that share features rank the same rows."""
    last: list[Any] = [None, None]

    def call(X: Any) -> np.ndarray:
        if last[0] is not X:
            last[:] = X, function(X)
        return np.asarray(last[1])

    return call


# -- Inner loops -------------------------------------------------------------------------------------------------------


def compiled(function: Loop) -> Loop:
    """`function`, compiled by numba at its first call if it is installed; otherwise the same Python runs, slower."""

    @cache
    def best() -> Callable[..., Any]:
        try:
            import numba
        except ImportError:
            return function
        options = {"nogil": True, "fastmath": True}
        try:
            return numba.njit(cache=True, **options)(function)
        except RuntimeError:  # no writable folder for the cache
            return numba.njit(**options)(function)

    return wraps(function)(lambda *args: best()(*args))  # type: ignore[return-value]
