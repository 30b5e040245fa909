"""How sure an index is of its results: probabilities of pairs, and cut-offs that keep a promise.

A vector that is smoothed by its neighbours ranks better, but what its scores mean was not measured: probabilities are
those of the plain scores, in whatever order the results are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from likewise.search.rank import query_rows

if TYPE_CHECKING:
    from likewise.search.index import BaseIndex


class Matches(NamedTuple):
    """Results of one query that are kept by a cut-off, best first; all three are empty if none is."""

    ids: np.ndarray
    scores: np.ndarray
    probabilities: np.ndarray


def is_calibrated(index: BaseIndex) -> bool:
    """Whether probabilities and cut-offs can be had of an index."""
    return index.model.calibration_ is not None


def probabilities(index: BaseIndex, queries: Any, rows: np.ndarray, base_rate: float | None = None) -> np.ndarray:
    """Probability that each query, a raw row, matches its result rows, both (n, k)."""
    scores, learned = _pairs(index, queries, rows)
    return index.model.calibration.probability(scores, learned, base_rate)


def kept(index: BaseIndex, queries: Any, rows: np.ndarray, at_most_wrong: float) -> np.ndarray:
    """How many of the results (n, k) of raw query rows, best first, a cut-off keeps, (n,)."""
    scores, learned = _pairs(index, queries, rows)
    calibration = index.model.calibration
    return calibration.n_results(calibration.probability(scores, learned), at_most_wrong, learned, len(index))


def matches(
    index: BaseIndex, queries: Any, rows: np.ndarray, scores: np.ndarray, at_most_wrong: float
) -> list[Matches]:
    """Of the results (n, k) of raw query rows, those that a cut-off keeps."""
    P, counts = probabilities(index, queries, rows), kept(index, queries, rows, at_most_wrong)
    found = zip(rows, scores, P, counts, strict=True)
    return [Matches(index.ids[row[:n]], score[:n], p[:n]) for row, score, p, n in found]


def _pairs(index: BaseIndex, queries: Any, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Plain scores of queries with their result rows, and whether the model learned from either."""
    model = index.model
    X = query_rows(queries, model.n_features_in_)
    Q, places = model.transform_query(X), np.unique(rows)
    scores = np.stack([index.plain_vectors[found] @ q.astype(np.float32) for q, found in zip(Q, rows, strict=True)])
    is_known = np.zeros(len(index), dtype=bool)
    is_known[places] = model.learned_from(np.asarray(index.raw[places]))
    return scores, model.learned_from(X)[:, None] | is_known[rows]
