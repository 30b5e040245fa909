"""The contract of every model here: two sides whose inner product is the similarity."""

import functools
import os
import platform
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
import scipy
import scipy.sparse as sp
import sklearn
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags

import likewise
from likewise.errors import LikewiseError
from likewise.evaluate import mean_average_precision
from likewise.evaluate.calibration import Calibration, held_out_pairs
from likewise.learn.engines.opening import Rows, memory_rows, open_rows, where
from likewise.learn.maths.labels import with_every_label
from likewise.learn.maths.scatter import NoveltyModel
from likewise.learn.model_file import about, identity, load_model, model_class, register_model, save_model
from likewise.rows.table import MOST_COLUMNS
from likewise.utils.arrays import Array, as_given, check_magnitude, row_hashes, to_host
from likewise.utils.onnx_graph import Graph, onnx_file
from likewise.utils.validation import NUMERIC_ROWS, check_array, check_is_fitted, is_missing, validate_data

MOST_HASHES = 1_000_000  # rows by which a model knows what it learned from
_WIDE = 1_000_000  # columns from which one row of zeros is kept sparse
_VERSIONS = {
    "python": platform.python_version(),
    "likewise": likewise.__version__,
    "numpy": np.__version__,
    "scipy": str(scipy.__version__),
    "scikit-learn": str(sklearn.__version__),
}


class SimilarityModel(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """A similarity that is an inner product of a query side and a gallery side.

    A subclass implements `fit`, `_gallery_side` and, where the two sides differ, `_query_side`; both take validated
    rows. What it learned lives in attributes that end with an underscore and are arrays or plain values: that is what
    `save` writes and `load` restores.
    """

    def transform(self, X: Array) -> np.ndarray:
        """Gallery side of the rows of X, shape (n, r): a NumPy array, whatever X is.

        Under scikit-learn's `array_api_dispatch` a tensor gives a tensor, on its own device.
        """
        return as_given(X, _finite(self._gallery_side, self._validated_gallery(X)))

    def transform_query(self, X: Array) -> np.ndarray:
        """Query side of the rows of X, shape (n, r): its inner product with `transform` is the similarity."""
        return as_given(X, _finite(self._query_side, self._validated_query(X)))

    def similarity(self, Q: Array, G: Array = None) -> np.ndarray:
        """Similarity of each row of Q with each row of G (of Q itself if G is None), shape (n_q, n_g)."""
        gallery = self._validated_gallery(Q if G is None else G)
        images = _finite(self._gallery_side, gallery)
        return as_given(Q, _finite(lambda rows: self._query_side(rows) @ images.T, self._validated_query(Q)))

    def score(self, X: Array, y: ArrayLike) -> float:
        """Mean average precision: every row is a query and ranks all other rows."""
        Q, G = self._validated_query(X), self._validated_gallery(X)
        sides = _finite(self._query_side, Q), _finite(self._gallery_side, G)
        return float(mean_average_precision(*sides, np.asarray(to_host(y))))

    # -- what a score means -------------------------------------------------------------------------------------------

    held_out_: Any = None  # a dictionary, where `fit` holds rows out
    calibration_: dict[str, Any] | None = None
    novelty_map_: Array = None
    novelty_means_: Array = None
    novelty_background_: Array = None
    novelty_scale_: Array = None

    @property
    def calibration(self) -> Calibration:
        """What the scores mean, measured on pairs of rows that were held out inside `fit` or given to `calibrate`."""
        check_is_fitted(self)
        if self.calibration_ is None:
            raise LikewiseError(
                f"{type(self).__name__} has no calibration: its fit holds out no rows; call calibrate(X, y) with "
                "labelled rows that it did not learn from"
            )
        return Calibration.from_dict(self.calibration_)

    def calibrate(self, X: Array, y: ArrayLike) -> Self:
        """Measure what the scores mean on labelled rows that `fit` did not learn from; each ranks all others."""
        if self.learned_from(X).any():
            raise LikewiseError("X contains training rows; calibrate on new rows")
        y = np.asarray(to_host(y))
        sides = self.transform_query(X), self.transform(X)
        if y.shape != (len(sides[0]),):
            raise LikewiseError(f"y has shape {y.shape}: expected one label for each of the {len(sides[0])} rows of X")
        labelled = ~is_missing(y)
        codes = np.unique(y[labelled], return_inverse=True)[1]
        calibration = Calibration.measured([held_out_pairs((sides[0][labelled], sides[1][labelled]), codes)])
        if calibration is None:
            raise LikewiseError(f"the {len(y)} rows of X have too few pairs with and without the same label")
        self.calibration_ = calibration.as_dict()
        return self

    def predict_proba_pairs(self, Q: Array, G: Array = None, base_rate: float | None = None) -> np.ndarray:
        """Probability that each row of Q matches each row of G (of Q itself if G is None), shape (n_q, n_g).

        `base_rate` is the share of all pairs that match; None is that of the held-out pairs, `calibration.base_rate`.
        """
        learned = self.learned_from(Q)[:, None] | self.learned_from(Q if G is None else G)
        return self.calibration.probability(self.similarity(Q, G), learned, base_rate)

    @property
    def knows_classes(self) -> bool:
        """Whether the model has `novelty`."""
        return self.novelty_scale_ is not None

    def novelty(self, X: Array) -> np.ndarray:
        """How far each row of X is from every class of `fit`, (n,): above 1 it is unlike all of them.

        Of held-out rows of known classes half are below 0, and 95 % below 1.
        """
        X = self._validated_query(X)
        if not self.knows_classes:
            raise LikewiseError(f"{type(self).__name__} has no novelty model; use SimilarityLearner")
        return NoveltyModel(
            self.novelty_map_, self.novelty_means_, self.novelty_background_, self.novelty_scale_
        ).novelty(X)

    def save(self, path: str | os.PathLike[str], metrics: dict[str, float] | None = None) -> Path:
        """Write the model to one file, atomically: safetensors with a JSON card, never pickle."""
        check_is_fitted(self)
        return save_model(self, path, metrics)

    @property
    def identity(self) -> str:
        """16 hexadecimal digits, equal for models that rank equally: vectors of two identities are never compared."""
        check_is_fitted(self)
        return identity(self)

    def card(self) -> dict[str, Any]:
        """What the model is, as plain JSON values: its identity as "id", date, source, label column, seed, versions.

        "held_out" is the mAP of rows that were held out inside `fit` and that of the raw cosine, with intervals.
        """
        check_is_fitted(self)
        return {**about(self), "held_out": self.held_out_}

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model that `save` wrote; called on the base class it reads any model."""

        def subclass(name: str) -> type | None:
            model = model_class(name)
            return model if model is not None and issubclass(model, cls) else None

        return load_model(path, subclass, cls.__name__)

    def _open(
        self, X: Array, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None, fewest_used: float = np.inf
    ) -> Rows:
        """Labelled rows on an engine, from all that `open_rows` takes, or opened before.

        Sets `n_features_in_` and, for a data frame, `feature_names_in_`. `fewest_used` is the number of rows without a
        label from which on they are used, not left out.
        """
        if not isinstance(X, Rows) and where(X) == "memory":
            rows = memory_rows(*self._validated_for_fit(X, y), sample_weight, fewest_used=fewest_used)
            self._remember(rows)
            return rows
        if isinstance(X, Rows) and (y is not None or sample_weight is not None):
            raise LikewiseError("X is opened already, with its labels: leave y and sample_weight at None")
        rows = X if isinstance(X, Rows) else open_rows(X, y, sample_weight)
        self.n_features_in_ = rows.n_features
        self._remember(rows)
        if rows.feature_names is not None:
            self.feature_names_in_ = rows.feature_names
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        return rows

    def _validated(self, X: Array) -> Array:
        # A query is a single row, and scikit-learn's validation takes ten times as long as its product with a map.
        width = None if hasattr(self, "feature_names_in_") else getattr(self, "n_features_in_", None)
        plain = type(X) is np.ndarray and X.ndim == 2 and X.dtype in (np.float32, np.float64)
        if plain and len(X) and X.shape[1] == width and np.isfinite(X).all():
            return X
        check_is_fitted(self)
        return validate_data(self, to_host(X), reset=False, accept_sparse="csr", dtype=[np.float64, np.float32])

    def _validated_gallery(self, X: Array) -> Array:
        """Rows of the gallery side; a model whose sides differ in width says here what it expects."""
        return self._validated(X)

    def _validated_query(self, X: Array) -> Array:
        """Rows of the query side."""
        return self._validated(X)

    def _validated_for_fit(self, X: Array, y: ArrayLike | None) -> tuple[Array, np.ndarray]:
        """Rows as float32 or float64, dense or CSR, and as many labels, of which some may be missing."""
        X, y = to_host(X), y if isinstance(y, np.ndarray) else to_host(y)
        filled = with_every_label(y)
        X, labels = validate_data(self, X, filled, ensure_min_samples=2, **NUMERIC_ROWS)
        check_magnitude(X)
        return X, labels if filled is y else np.ravel(y)

    def _remember(self, rows: Rows) -> None:
        """Keep hashes of the rows learned from, unless they are too many or on a cluster."""
        self.training_rows_ = None
        if rows.where != "dask" and rows.n_rows <= MOST_HASHES:
            blocks = (block.rows for block in rows.engine.blocks())
            self.training_rows_ = np.unique(np.concatenate([row_hashes(to_host(block)) for block in blocks]))

    def learned_from(self, X: Array) -> np.ndarray:
        """Whether `fit` learned from each row of X, so that its scores are optimistic.

        All False for a model of more than a million rows, or of rows on a cluster.
        """
        hashes = getattr(self, "training_rows_", None)
        if hashes is None:
            return np.zeros(X.shape[0] if hasattr(X, "shape") else len(X), dtype=bool)
        return np.isin(row_hashes(to_host(X)), hashes)

    def base_part(self, V: np.ndarray) -> np.ndarray:
        """The part of vectors that an index smooths by neighbours: all, or that of the model before a lesson."""
        return V

    @property
    def taught_share(self) -> float | None:
        """The share of a gallery that is of taught classes; None if the model knows nothing of a gallery."""
        return None

    @property
    def closed(self) -> Self:
        """The model without what it took from a gallery."""
        return self

    gate_rows_: int | None = None  # of the gallery that a gate was learned from, if any may be

    def for_gallery(self, gallery: np.ndarray, new_items: str | float = "auto") -> Self:
        """The model for a gallery that holds items of classes that it was not taught; most models are the same."""
        if new_items not in ("auto", 0):
            raise LikewiseError(f"new_items={new_items!r} is for SimilarityLearner; expected 'auto' or 0")
        return self

    def _gallery_side(self, X: Array) -> np.ndarray:
        raise NotImplementedError

    def _query_side(self, X: Array) -> np.ndarray:
        return self._gallery_side(X)

    @property
    def _n_features_out(self) -> int:
        """Width of both sides; scikit-learn names the output columns by it."""
        return self._query_side(np.zeros((1, self.n_features_in_))).shape[1]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _check_loaded(self) -> None:
        """Raise if what was read from a file does not work together: one row goes through both sides."""
        check_is_fitted(self)
        query = getattr(self, "n_new_features_", self.n_features_in_)
        gallery = getattr(self, "n_gallery_features_", None) or self.n_features_in_
        widths = [_width_of(*pair) for pair in ((self.transform_query, query), (self.transform, gallery))]
        if widths[0] != widths[1]:
            raise LikewiseError(f"queries become {widths[0]} numbers and gallery rows {widths[1]}")
        if self.calibration_ is not None:
            Calibration.from_dict(self.calibration_)
        if self.novelty_scale_ is not None:
            novelty = self.novelty(np.zeros((1, self.n_features_in_), np.float32))
            increasing = self.novelty_scale_[0] < self.novelty_scale_[1]
            if not (increasing and novelty.shape == (1,) and np.isfinite(novelty).all()):
                raise LikewiseError(
                    f"novelty_scale_={self.novelty_scale_!r} does not fit novelty_map_ and novelty_means_"
                )

    # -- what a subclass may define -------------------------------------------------------------------------

    @property
    def symmetric(self) -> bool:
        """Whether the query side of a row equals its gallery side."""
        return type(self)._query_side is SimilarityModel._query_side

    def to_onnx(self) -> bytes:
        """Both sides as an ONNX file: input `rows` (n, d), outputs `query` and `gallery` (n, r), all float32.

        Its metadata has the identity of the model as `likewise_model`.
        """
        check_is_fitted(self)
        # Kernel features are nearly dependent: their coefficients are large and cancel, and float32 would keep three
        # or four digits of the result.
        dtype = np.float32 if getattr(self, "landmarks_", None) is None else np.float64
        return onnx_file(self._write_onnx, int(self.n_features_in_), dtype, model=self.identity)

    def _write_onnx(self, graph: Graph, rows: str) -> tuple[str, str]:
        """Add the two sides of `rows` to a graph and return their names."""
        raise LikewiseError(f"{type(self).__name__} has no ONNX export: it does not implement _write_onnx")

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        register_model(cls)


def _width_of(side: Callable[[Array], np.ndarray], width: object) -> int:
    """How many numbers one side makes of a row of `width` zeros."""
    if type(width) is not int or not 0 < width <= MOST_COLUMNS:
        raise LikewiseError(f"n_features_in_={width!r}: expected a number of columns")
    Z = np.asarray(side(np.zeros((1, width), np.float32) if width < _WIDE else sp.csr_array((1, width))))
    if Z.ndim != 2 or len(Z) != 1 or Z.dtype.kind != "f":
        raise LikewiseError(f"a row of {width} numbers becomes {Z.dtype} of shape {Z.shape}")
    return Z.shape[1]


# -- Numbers that overflow: a sentence instead of NaN -----------------------------------------------------------------

Fit = TypeVar("Fit", bound=Callable[..., SimilarityModel])


def finite_fit(fit: Fit) -> Fit:
    """Decorate `fit`: raise if a fitted attribute is not finite; note the date and the versions."""

    @functools.wraps(fit)
    def checked(self: SimilarityModel, *args: object, **options: object) -> SimilarityModel:
        self.__dict__.pop("calibration_", None)  # of an earlier fit
        try:
            with np.errstate(all="ignore"):
                fitted = fit(self, *args, **options)
        except (np.linalg.LinAlgError, FloatingPointError, ZeroDivisionError) as error:
            raise LikewiseError(f"{_cannot(self)} ({str(error).splitlines()[0]})") from error
        _check_learned(self)
        self.provenance_ = {"date": datetime.now(UTC).date().isoformat(), "versions": dict(_VERSIONS)}
        return fitted

    return checked  # type: ignore[return-value]


def _check_learned(model: SimilarityModel) -> None:
    """Raise if an array that was learned is not finite, and leave none behind."""
    state = {name: value for name, value in vars(model).items() if name.endswith("_")}
    arrays = {name: value for name, value in state.items() if isinstance(value, np.ndarray) and value.dtype.kind == "f"}
    broken = [name for name, value in arrays.items() if not np.isfinite(value).all()]
    for name in broken:
        delattr(model, name)
    if broken:
        raise LikewiseError(f"{_cannot(model)} ({', '.join(broken)} would not be finite)")


def _cannot(model: SimilarityModel) -> str:
    return (
        f"{type(model).__name__} cannot learn from these rows in floating point: their values, their weights or the "
        "differences within classes are too far apart"
    )


def _finite(side: Callable[[Array], np.ndarray], rows: Array) -> np.ndarray:
    """A side of rows, none of it infinite or NaN."""
    with np.errstate(all="ignore"):
        Z = side(rows)
    if not np.isfinite(Z).all():
        values = rows.data if sp.issparse(rows) else rows
        raise LikewiseError(
            f"rows with values up to {np.abs(values).max():.1e} have no finite similarity: scale them as in training"
        )
    return Z


def load(path: str | os.PathLike[str]) -> SimilarityModel:
    """Read any saved model, whatever its class."""
    return load_model(path, model_class, "a similarity model")


def project(X: Array, components: np.ndarray) -> np.ndarray:
    """X @ components.T in X's own precision, dense whether X is sparse or not."""
    product = X @ components.T.astype(X.dtype, copy=False)
    return product.toarray() if sp.issparse(product) else np.asarray(product)


def checked_side(X: Array, width: int, name: str, what: str) -> Array:
    """Rows of a side that has a width of its own."""
    X = check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32], input_name=what)
    if X.shape[1] != width:
        article = "an" if what[0] in "aeiou" else "a"
        raise LikewiseError(f"{what} has {X.shape[1]} columns: {name} was fitted with {article} {what} side of {width}")
    return X
