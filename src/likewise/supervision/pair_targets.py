"""The pairs that supervision names, and their targets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.preprocessing import OneHotEncoder

from likewise.core.labels import LabelTarget
from likewise.data.relevance import Relevance
from likewise.data.shared_labels import SharedLabels
from likewise.errors import LikewiseError
from likewise.supervision.pairs import KnownPairs, intervals
from likewise.supervision.reading import Supervision
from likewise.supervision.regression import Pairs
from likewise.supervision.tiled import LabelClamp, StoredClamp, TileClamp, TiledPairs

__all__ = ["PairTargets", "pair_targets"]


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
        clamp: TileClamp = LabelClamp(target, present)
    else:
        onehot = SharedLabels(OneHotEncoder().fit_transform(present[:, None]))
        clamp = _shared_clamp(onehot, target)
    return _square(given, rows, clamp, fixed=not target.adaptive)


def _from_shared(given: Supervision, shared: SharedLabels, target: LabelTarget) -> PairTargets:
    rows = np.flatnonzero(shared.n_labels)
    return _square(
        given, rows, _shared_clamp(shared.take(rows), target), shared.grade is not None or not target.adaptive
    )


def _shared_clamp(shared: SharedLabels, target: LabelTarget) -> StoredClamp:
    n, kind = shared.Z.shape[0], "binary" if shared.grade is None else "graded"
    return StoredClamp(shared.tile, (n, n), kind, (target.same, target.other), target.adaptive)


def _square(given: Supervision, rows: np.ndarray, clamp: TileClamp, fixed: bool) -> PairTargets:
    """All pairs of the rows that have a label."""
    n, m = given.X.shape[0], len(rows)
    weights = None if given.weights is None else given.weights[rows]
    pairs = TiledPairs(clamp, (m, m), weights, weights, complete=m == n)
    total = float(n if given.weights is None else given.weights.sum()) ** 2
    return PairTargets(pairs, rows, rows, fixed, total)


def _from_relevance(given: Supervision, relevance: Relevance, target: LabelTarget) -> PairTargets:
    margins, kind = (target.same, target.other), relevance.kind
    if kind == "binary" and not relevance.R.data.any():
        raise LikewiseError("relevance holds no relevant pair: a score of zero for all would be right")
    fixed = kind == "graded" or not target.adaptive
    w_q = given.weights
    w_g = given.weights if given.one_set else None
    total = _total(w_q, relevance.shape[0]) * _total(w_g, relevance.shape[1])
    if relevance.complete:
        clamp = StoredClamp(_tiles_of(relevance.R), relevance.shape, kind, margins, target.adaptive)
        return PairTargets(TiledPairs(clamp, relevance.shape, w_q, w_g), slice(None), slice(None), fixed, total)
    pairs, rows, columns = _known(relevance.R, kind, target, w_q, w_g)
    return PairTargets(pairs, rows, columns, fixed, total)


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
