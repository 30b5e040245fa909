"""From what a user gives to what is known of pairs, and to targets for them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.preprocessing import OneHotEncoder, normalize

from likewise.errors import LikewiseError
from likewise.learn.maths.labels import LabelTarget, check_weights, encode_labels, row_weights, with_every_label
from likewise.learn.supervision.pairs import KnownPairs, intervals
from likewise.learn.supervision.regression import Pairs
from likewise.learn.supervision.tiled import LabelClamp, StoredClamp, TileClamp, TiledPairs
from likewise.rows.relevance import Relevance, SharedLabels
from likewise.utils.arrays import check_magnitude
from likewise.utils.validation import NUMERIC_ROWS, check_array, check_sample_weight, validate_data


@dataclass(frozen=True)
class Supervision:
    """Validated rows of the two sides, weights of the queries, and what is known of their pairs.

    `known` is an array of classes, -1 for none, or `SharedLabels`, or a `Relevance`. Without a gallery it is X.
    """

    X: Any
    gallery: Any
    known: np.ndarray | SharedLabels | Relevance
    weights: np.ndarray | None = None
    classes: np.ndarray | None = None

    @property
    def one_set(self) -> bool:
        return self.gallery is self.X

    def with_unit_rows(self) -> Supervision:
        """The same with rows scaled to unit length; rows of zeros stay."""
        X = normalize(self.X)
        return replace(self, X=X, gallery=X if self.one_set else normalize(self.gallery))

    def part(self, rows: np.ndarray) -> Supervision:
        """The supervision of some of the queries; without a relevance they are the gallery too."""
        X, weights = self.X[rows], None if self.weights is None else self.weights[rows]
        if isinstance(self.known, Relevance):
            return replace(self, X=X, known=self.known.take(rows), weights=weights)
        known = self.known[rows] if isinstance(self.known, np.ndarray) else self.known.take(rows)
        return replace(self, X=X, gallery=X, known=known, weights=weights)


def read_supervision(model: Any, X: Any, y: Any, sample_weight: Any, gallery: Any) -> Supervision:
    """Check what `fit` was given, and set `n_features_in_` of the model; a prior on both sides has unit rows."""
    given = _read(model, X, y, sample_weight, gallery)
    return given.with_unit_rows() if model.prior is not None and model.sides == "both" else given


def _read(model: Any, X: Any, y: Any, sample_weight: Any, gallery: Any) -> Supervision:
    if gallery is not None or isinstance(y, Relevance):
        return read_related(model, X, y, sample_weight, gallery)
    if isinstance(y, SharedLabels) or sp.issparse(y) or _is_matrix(y):
        return _read_shared(model, X, y, sample_weight)
    filled = with_every_label(y)
    X, labels = validate_data(model, X, filled, ensure_min_samples=2, **NUMERIC_ROWS)
    check_magnitude(X)
    return _read_labels(X, labels if filled is y else y, sample_weight)


def _is_matrix(y: Any) -> bool:
    return np.ndim(y) == 2 and np.shape(y)[1] > 1


def _read_labels(X: Any, y: Any, sample_weight: Any) -> Supervision:
    classes, codes = encode_labels(y, leaves_out=False)
    weights = row_weights(sample_weight, X, codes)
    if weights is not None and not weights.all():
        counted = weights > 0
        X, codes, weights = X[counted], codes[counted], weights[counted]
    return Supervision(X, X, codes, weights, classes)


def _read_shared(model: Any, X: Any, y: Any, sample_weight: Any) -> Supervision:
    X = validate_data(model, X, ensure_min_samples=2, **NUMERIC_ROWS)
    check_magnitude(X)
    shared = y if isinstance(y, SharedLabels) else SharedLabels(y)
    n, c = shared.Z.shape
    if n != X.shape[0]:
        raise LikewiseError(f"y is an indicator of {n} rows: expected {X.shape[0]}, as many as X has")
    known: Any = shared if shared.grade is not None or shared.single() is None else shared.single()
    return Supervision(X, X, known, _weights(sample_weight, X), np.arange(c))


def read_related(model: Any, X: Any, y: Any, sample_weight: Any, gallery: Any) -> Supervision:
    """Check queries, gallery and the relevance between them, and set `n_features_in_` of the model."""
    if not isinstance(y, Relevance) and not (sp.issparse(y) or _is_matrix(y)):
        raise LikewiseError(
            f"gallery is given with a y of type {type(y).__name__}: expected a Relevance between X and gallery"
        )
    X = validate_data(model, X, ensure_min_samples=1, **NUMERIC_ROWS)
    check_magnitude(X)
    if gallery is None:
        G = X
    else:
        G = check_array(gallery, input_name="gallery", **NUMERIC_ROWS)
        dtype = np.result_type(X.dtype, G.dtype)
        X, G = X.astype(dtype, copy=False), G.astype(dtype, copy=False)
        check_magnitude(G, "gallery")
    relevance = (y if isinstance(y, Relevance) else Relevance(y)).fitted_to(X.shape[0], G.shape[0])
    return Supervision(X, G, relevance, _weights(sample_weight, X))


def _weights(sample_weight: Any, X: Any) -> np.ndarray | None:
    if sample_weight is None:
        return None
    weights = check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    check_weights(weights)
    return None if np.all(weights == 1.0) else weights


@dataclass(frozen=True)
class PairTargets:
    """Pairs with their targets, and the rows of the two sides that are in them.

    `fixed` says that the targets do not depend on the scores, `total` how many pairs there are, known or not.
    """

    pairs: Pairs
    rows: Any
    columns: Any
    fixed: bool
    total: float


def pair_targets(given: Supervision, target: LabelTarget) -> PairTargets:
    """The known pairs, with the intervals that the margins of `target` give them."""
    if isinstance(given.known, Relevance):
        return _from_relevance(given, given.known, target)
    if isinstance(given.known, SharedLabels):
        return _from_shared(given, given.known, target)
    return _from_codes(given, given.known, target)


def _from_codes(given: Supervision, codes: np.ndarray, target: LabelTarget) -> PairTargets:
    """One label per row, or none: rows sorted by label."""
    rows = np.flatnonzero(codes >= 0)
    rows = rows[np.argsort(codes[rows], kind="stable")]
    _, present = np.unique(codes[rows], return_inverse=True)
    if target.adaptive:
        return _square(given, rows, LabelClamp(target, present), fixed=False)
    onehot = SharedLabels(OneHotEncoder().fit_transform(present[:, None]))
    return _square(given, rows, _shared_clamp(onehot, target), fixed=True)


def _from_shared(given: Supervision, shared: SharedLabels, target: LabelTarget) -> PairTargets:
    rows = np.flatnonzero(shared.n_labels)
    fixed = shared.grade is not None or not target.adaptive
    return _square(given, rows, _shared_clamp(shared.take(rows), target), fixed)


def _shared_clamp(shared: SharedLabels, target: LabelTarget) -> StoredClamp:
    n, kind = shared.Z.shape[0], "binary" if shared.grade is None else "graded"
    return StoredClamp(shared.tile, (n, n), kind, (target.same, target.other), target.adaptive)


def _square(given: Supervision, rows: np.ndarray, clamp: TileClamp, fixed: bool) -> PairTargets:
    """All pairs of the rows that have a label."""
    n, m = given.X.shape[0], len(rows)
    weights = None if given.weights is None else given.weights[rows]
    pairs = TiledPairs(clamp, (m, m), weights, weights, complete=m == n)
    return PairTargets(pairs, rows, rows, fixed, _total(given.weights, n) ** 2)


def _from_relevance(given: Supervision, relevance: Relevance, target: LabelTarget) -> PairTargets:
    margins, kind = (target.same, target.other), relevance.kind
    if kind == "binary" and not relevance.R.data.any():
        raise LikewiseError("relevance holds no relevant pair: a score of zero for all would be right")
    fixed = kind == "graded" or not target.adaptive
    w_q, w_g = given.weights, given.weights if given.one_set else None
    total = _total(w_q, relevance.shape[0]) * _total(w_g, relevance.shape[1])
    if relevance.complete:
        clamp = StoredClamp(_tiles_of(relevance.R), relevance.shape, kind, margins, target.adaptive)
        return PairTargets(TiledPairs(clamp, relevance.shape, w_q, w_g), slice(None), slice(None), fixed, total)
    return PairTargets(*_known(relevance.R, kind, target, w_q, w_g), fixed, total)


def _tiles_of(R: sp.csr_array) -> Any:
    stored = R.copy()
    stored.eliminate_zeros()  # what is not stored is irrelevant, and so is a zero
    return lambda rows, columns: stored[rows, columns]


def _known(
    R: sp.csr_array, kind: str, target: LabelTarget, w_q: np.ndarray | None, w_g: np.ndarray | None
) -> tuple[KnownPairs, np.ndarray, np.ndarray]:
    """The pairs of a relevance matrix, and the rows and columns that are in any."""
    rows = np.flatnonzero(np.diff(R.indptr))
    columns, places = np.unique(R.indices, return_inverse=True)
    indptr = np.concatenate([[0], np.cumsum(np.diff(R.indptr)[rows])])
    margins = (target.same, target.other)
    low, high = intervals(R.data, kind, margins, target.adaptive)
    goal, _ = intervals(R.data, kind, margins, adaptive=False)
    weights = None
    if w_q is not None:
        weights = np.repeat(w_q[rows], np.diff(indptr)) * (1.0 if w_g is None else w_g[R.indices])
    return KnownPairs(indptr, places, low, high, goal, weights, None, len(columns)), rows, columns


def _total(weights: np.ndarray | None, n: int) -> float:
    return float(n if weights is None else weights.sum())
