"""How sure an index is that items belong with some examples, and not with others: one query of several rows.

What a score means was measured on pairs, and after a lesson on means over the examples of a group. So the mean score of
the examples is read as if it were that of one pair: several examples are surer than that, never less sure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from likewise.search.index import BaseIndex
from likewise.search.rank import query_rows

MOST = 200  # examples: the mean of more is hardly another one


@dataclass(frozen=True, eq=False)
class Examples:
    """Examples that items shall be like, and those that they shall be unlike: the mean of their query sides, (r,).

    `learned` says whether the model learned from one of the former, `novelty` how far the nearest of them is from what
    the model knows: above 1 all are unlike it; None if it cannot tell.
    """

    index: BaseIndex
    like: np.ndarray
    unlike: np.ndarray | None
    learned: bool
    novelty: float | None

    @classmethod
    def of(cls, index: BaseIndex, like: Any, unlike: Any = ()) -> Self:
        """From raw rows, one example or more to be like."""
        model = index.model
        wanted = query_rows(_some(like), model.n_features_in_)
        avoided = query_rows(_some(unlike), model.n_features_in_) if len(unlike) else None
        return cls(
            index,
            model.transform_query(wanted).mean(axis=0),
            None if avoided is None else model.transform_query(avoided).mean(axis=0),
            bool(model.learned_from(wanted).any()),
            float(model.novelty(wanted).min()) if model.knows_classes else None,
        )

    def probabilities(self, rows: np.ndarray, learned: np.ndarray | None = None) -> np.ndarray:
        """Probability that each row belongs; `learned` says which rows the model learned from, if that is known."""
        kinds, V = self._kinds(rows, learned), self.index.plain_vectors[rows]
        calibration = self.index.model.calibration
        P = calibration.probability(V @ self.like.astype(np.float32), kinds)
        if self.unlike is None:
            return P
        return np.asarray(P * (1 - calibration.probability(V @ self.unlike.astype(np.float32), kinds)))

    def kept(self, rows: np.ndarray, at_most_wrong: float, learned: np.ndarray | None = None) -> np.ndarray:
        """Probabilities of the first of some rows, best first, that a cut-off keeps; there may be none."""
        P, kinds = self.probabilities(rows, learned), self._kinds(rows, learned)
        n = self.index.model.calibration.n_results(P[None], at_most_wrong, kinds, len(self.index))
        return P[: int(n[0])]

    def _kinds(self, rows: np.ndarray, learned: np.ndarray | None) -> np.ndarray:
        """Whether the model learned from an example or from the row."""
        if learned is None:
            learned = self.index.model.learned_from(np.asarray(self.index.raw[rows]))
        return learned | self.learned


def _some(X: Any) -> np.ndarray:
    """At most MOST of the rows, evenly taken."""
    X = np.atleast_2d(X)
    return np.asarray(X[np.unique(np.linspace(0, len(X) - 1, min(MOST, len(X))).astype(int))])
