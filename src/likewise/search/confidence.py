"""How sure an index is that items belong with queries: probabilities, cut-offs, and how new a query is.

A query is a set of examples to be like, and perhaps of others to be unlike; a single row is a set of one. What a score
means was measured on pairs, and after a lesson on means over the examples of a group: the mean score of the examples is
read as that of one pair, although several examples are surer.

A vector that is smoothed by its neighbours ranks better, but what its scores mean was not measured: probabilities are
those of the plain scores, in whatever order the results are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import ArrayLike

from likewise.search.rank import query_rows
from likewise.utils.arrays import evenly_spaced

if TYPE_CHECKING:
    from likewise.search.index import BaseIndex

MOST_EXAMPLES = 200  # the mean of more is hardly another one
Examples = np.ndarray | Sequence[np.ndarray]


@dataclass(frozen=True, eq=False)
class Confidence:
    """How sure an index is of the results of some queries.

    Query i has the raw rows `like[starts[i]:starts[i + 1]]` as examples; `unlike` are rows that all queries avoid.
    """

    index: BaseIndex
    like: np.ndarray
    starts: np.ndarray
    unlike: np.ndarray | None = None

    @classmethod
    def of_each(cls, index: BaseIndex, queries: ArrayLike) -> Self:
        """Each raw row is a query."""
        X = query_rows(queries, index.model.n_features_in_)
        return cls(index, X, np.arange(len(X)))

    @classmethod
    def of_set(cls, index: BaseIndex, like: Examples, unlike: Examples = ()) -> Self:
        """All raw rows together are one query."""
        width = index.model.n_features_in_
        avoided = query_rows(_evenly(unlike), width) if len(unlike) else None
        return cls(index, query_rows(_evenly(like), width), np.zeros(1, int), avoided)

    @property
    def calibrated(self) -> bool:
        """Whether there are probabilities."""
        return self.index.model.calibration_ is not None

    @cached_property
    def novelty(self) -> np.ndarray | None:
        """How far the nearest example of each query is from what the model knows: above 1 it is unlike all of it.

        None if the model has no novelty.
        """
        model = self.index.model
        return np.minimum.reduceat(model.novelty(self.like), self.starts) if model.knows_classes else None

    def probabilities(self, rows: np.ndarray, base_rate: float | None = None) -> np.ndarray:
        """Probability that each of the rows (n_q, k) belongs with its query; NaN for rows of -1."""
        kinds, calibration = self._kinds(rows), self.index.model.calibration
        P = calibration.probability(self._scores(self._wanted, rows), kinds, base_rate)
        if self.unlike is not None:
            unwanted = np.broadcast_to(self._unwanted, self._wanted.shape)
            P = P * (1 - calibration.probability(self._scores(unwanted, rows), kinds, base_rate))
        return np.where(rows < 0, np.nan, P)

    def n_kept(self, rows: np.ndarray, at_most_wrong: float) -> np.ndarray:
        """How many of the rows (n_q, k), best first, a cut-off keeps, (n_q,); it may be none."""
        P = np.nan_to_num(self.probabilities(rows))
        n = self.index.model.calibration.n_results(P, at_most_wrong, self._kinds(rows), len(self.index))
        return np.minimum(n, (rows >= 0).sum(axis=1))

    @cached_property
    def _wanted(self) -> np.ndarray:
        sizes = np.diff([*self.starts, len(self.like)])
        return np.add.reduceat(self.index.model.transform_query(self.like), self.starts) / sizes[:, None]

    @cached_property
    def _unwanted(self) -> np.ndarray:
        return np.asarray(self.index.model.transform_query(self.unlike).mean(axis=0))

    @cached_property
    def _learned(self) -> np.ndarray:
        """Whether the model learned from an example of each query."""
        return np.logical_or.reduceat(self.index.model.learned_from(self.like), self.starts)

    def _scores(self, Q: np.ndarray, rows: np.ndarray) -> np.ndarray:
        V = self.index.plain_vectors
        return np.array([V[near] @ q for near, q in zip(rows, Q.astype(np.float32), strict=True)]).reshape(rows.shape)

    def _kinds(self, rows: np.ndarray) -> np.ndarray:
        """Whether the model learned from an example of the query or from the row."""
        places, back = np.unique(rows, return_inverse=True)
        return self._learned[:, None] | self.index.learned_from(places)[back].reshape(rows.shape)


def _evenly(X: Examples) -> np.ndarray:
    """At most MOST_EXAMPLES of the rows, evenly taken."""
    rows = np.atleast_2d(np.asarray(X))
    return np.asarray(rows[evenly_spaced(len(rows), MOST_EXAMPLES)])
