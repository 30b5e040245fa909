"""A similarity of the items of a server: the learned one, that of the raw features, or the one before a lesson."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.preprocessing import normalize
from sklearn.utils import gen_batches

from likewise.search.confidence import is_calibrated
from likewise.search.index import BaseIndex
from likewise.search.rank import check_one_width
from likewise.teach.lifted import LiftedVectors

_ROWS = 1 << 16  # gallery rows scored at a time, so that a gallery on disk is read piece by piece
Nearest = Callable[[np.ndarray, int], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Space:
    """A similarity of the items: query side Q and gallery side G of all items; `scale` multiplies each gallery row.

    `index` is the one whose similarity it is; None for the raw features.
    """

    version: int
    Q: Any
    G: Any
    scale: np.ndarray | None = None
    query_vectors: Callable[[np.ndarray], np.ndarray] | None = None
    approximate: Nearest | None = None
    index: BaseIndex | None = None

    @property
    def calibrated(self) -> bool:
        """Whether it can be told how likely a result matches."""
        return self.index is not None and is_calibrated(self.index)

    @property
    def tells(self) -> bool:
        """Whether anything can be told of how sure results are."""
        return self.calibrated or (self.index is not None and self.index.model.knows_classes)

    def queries(self, rows: list[int]) -> np.ndarray:
        Q = np.asarray(self.Q[rows], dtype=np.float32)
        return Q if self.scale is None else Q * self.scale[rows][:, None]

    def gallery(self, rows: Any) -> np.ndarray:
        """Vectors of some rows, or of a range of them."""
        G = np.asarray(self.G[rows], dtype=np.float32)
        return G if self.scale is None else G * self.scale[rows][:, None]

    def embed(self, X: np.ndarray) -> np.ndarray:
        """Query vectors of raw feature rows."""
        if self.query_vectors is not None:
            return np.asarray(self.query_vectors(X), dtype=np.float32)
        check_one_width(X.shape[1], self.G.shape[1])
        return np.asarray(normalize(X), dtype=np.float32)

    def scores(self, Q: np.ndarray) -> np.ndarray:
        """Similarity of each query to each item, shape (n_q, n)."""
        if isinstance(self.G, LiftedVectors):
            return self.G.scores(Q)
        S = np.empty((len(Q), len(self.G)), dtype=np.float32)
        for start in range(0, len(self.G), _ROWS):
            part = np.asarray(self.G[start : start + _ROWS], dtype=np.float32)
            np.matmul(Q, part.T, out=S[:, start : start + _ROWS])
        return S if self.scale is None else S * self.scale

    def scores_of(self, q: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Similarity of one query (r,) to some of the items."""
        if 4 * len(rows) > len(self.G):  # reading in order is faster than here and there
            return np.asarray(self.scores(q[None])[0, rows])
        found = [self.gallery(rows[start : start + _ROWS]) @ q for start in range(0, len(rows), _ROWS)]
        return np.concatenate([np.empty(0, np.float32), *found])


def learned_space(index: BaseIndex, version: int = 0) -> Space:
    """The similarity of an index; an approximate index answers unfiltered searches with its own engine."""
    G: Any = index.vectors
    G = G if isinstance(G, LiftedVectors) else np.ascontiguousarray(G, dtype=np.float32)
    Q = G
    if not index.model.symmetric:
        blocks = (np.asarray(index.raw[part], dtype=np.float32) for part in gen_batches(len(index), 8192))
        Q = np.concatenate([index.model.transform_query(block) for block in blocks]).astype(np.float32, copy=False)
    return Space(version, Q, G, None, index.query_vectors, index.search_vectors if index.approximate else None, index)
