"""One pass over the known pairs alone: their scores, how far each lies outside its interval, and the sum back.

The work is O(nnz r), in blocks of pairs; nothing of size n_q x n_g is ever held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import gen_batches

from likewise.utils.threads import Item, Result, ordered_map

_DENSE = 0.05  # share of known pairs above which scoring all pairs is faster
_GATHERED = 1 << 21  # numbers gathered at a time, per side and thread: 16 MB


def each(function: Callable[[Item], Result], blocks: list[Item]) -> Iterable[Result]:
    """function(block) for each block, in threads if there are several: for one they cost more than they save."""
    return map(function, blocks) if len(blocks) == 1 else ordered_map(function, blocks)


def intervals(
    values: np.ndarray, kind: str, margins: tuple[float, float], adaptive: bool
) -> tuple[np.ndarray, np.ndarray]:
    """What each pair may score, (lowest, highest): [δ1, ∞) and (-∞, δ2] for 1 and 0, the value itself if graded.

    A target that does not adapt asks for δ1 and δ2 themselves.
    """
    if kind == "graded":
        return values, values
    goal = np.where(values > 0, margins[0], margins[1])
    if not adaptive:
        return goal, goal
    return np.where(values > 0, goal, -np.inf), np.where(values > 0, np.inf, goal)


@dataclass(frozen=True, eq=False)
class KnownPairs:
    """Pairs in the order of their queries, as the rows of a CSR matrix.

    Attributes
    ----------
    indptr, columns : where each query's pairs begin, and the item of each pair.
    low, high, goal : interval of each pair, and the target it starts from.
    weights : of each pair, or None.
    offset : the score of each pair before learning, or None.
    n_columns : number of items.
    """

    indptr: np.ndarray
    columns: np.ndarray
    low: np.ndarray
    high: np.ndarray
    goal: np.ndarray
    weights: np.ndarray | None
    offset: np.ndarray | None
    n_columns: int

    complete = False  # a unit step is right only if every pair is known

    @property
    def n_pairs(self) -> float:
        """Number of pairs, by weight."""
        return float(len(self.columns) if self.weights is None else self.weights.sum())

    @property
    def n_rows(self) -> int:
        return len(self.indptr) - 1

    def with_offset(self, P: Any, V: Any, scale: float) -> KnownPairs:
        """These pairs, scoring `scale` P Vᵀ before learning."""
        return replace(self, offset=scale * self._scores(P, V))

    def residual(self, P: np.ndarray, V: np.ndarray, back: np.ndarray) -> tuple[np.ndarray, float]:
        """E @ back, E = S - clamp(S) on the known pairs with S = P Vᵀ, and the sum of the squares of E."""

        def block_sum(block: slice) -> tuple[np.ndarray, float]:
            pairs = self._pairs(block)
            S = self._block_scores(P, V, block)
            E = S - np.clip(S, self.low[pairs], self.high[pairs])
            weighted = E if self.weights is None else E * self.weights[pairs]
            return self._block_times(block, weighted.astype(back.dtype), back), float(E @ weighted)

        T, loss = np.zeros((self.n_rows, back.shape[1]), dtype=back.dtype), 0.0
        blocks = self._blocks(V.shape[1])
        for block, (part, squares) in zip(blocks, each(block_sum, blocks), strict=True):
            T[block], loss = part, loss + squares
        return T, loss

    def curvature(self, P: np.ndarray, V: np.ndarray) -> float:
        """Sum of the squares of P Vᵀ on the known pairs."""
        S = self._scores(P, V, with_offset=False)
        return float(S @ (S if self.weights is None else S * self.weights))

    def target_times(self, V: np.ndarray) -> np.ndarray:
        """Y V, Y the target of the known pairs and nothing elsewhere."""
        values = self.goal if self.weights is None else self.goal * self.weights
        return np.asarray(self._matrix(slice(0, self.n_rows), values) @ V)

    def transposed(self) -> KnownPairs:
        """The same pairs in the order of their items."""
        order = np.argsort(self.columns, kind="stable")
        rows = np.repeat(np.arange(self.n_rows), np.diff(self.indptr))
        indptr = np.concatenate([[0], np.cumsum(np.bincount(self.columns, minlength=self.n_columns))])
        by_pair = {name: getattr(self, name) for name in ("low", "high", "goal", "weights", "offset")}
        moved: dict[str, Any] = {name: None if values is None else values[order] for name, values in by_pair.items()}
        return KnownPairs(indptr, rows[order], **moved, n_columns=self.n_rows)

    def _scores(self, P: Any, V: Any, with_offset: bool = True) -> np.ndarray:
        blocks = self._blocks(V.shape[1])
        scores = each(lambda block: self._block_scores(P, V, block, with_offset), blocks)
        return np.concatenate(list(scores))

    def _block_scores(self, P: Any, V: Any, block: slice, with_offset: bool = True) -> np.ndarray:
        pairs = self._pairs(block)
        rows = np.repeat(np.arange(block.stop - block.start), np.diff(self.indptr[block.start : block.stop + 1]))
        if self._is_dense and not sp.issparse(P):
            S = (P[block] @ V.T)[rows, self.columns[pairs]].astype(np.float64)
        else:
            S = _inner_products(P[block][rows], V[self.columns[pairs]])
        return S + self.offset[pairs] if with_offset and self.offset is not None else S

    def _block_times(self, block: slice, values: np.ndarray, back: np.ndarray) -> np.ndarray:
        matrix = self._matrix(block, values)
        return np.asarray((matrix.toarray() if self._is_dense else matrix) @ back)

    @property
    def _is_dense(self) -> bool:
        """Whether scoring all pairs is faster than gathering the rows of each known one."""
        return len(self.columns) > _DENSE * self.n_rows * self.n_columns

    def _pairs(self, block: slice) -> slice:
        return slice(int(self.indptr[block.start]), int(self.indptr[block.stop]))

    def _matrix(self, block: slice, values: np.ndarray) -> sp.csr_array:
        indptr = self.indptr[block.start : block.stop + 1]
        columns = self.columns[self._pairs(block)]
        return sp.csr_array((values, columns, indptr - indptr[0]), shape=(len(indptr) - 1, self.n_columns))

    def _blocks(self, width: int) -> list[slice]:
        """Ranges of queries with about as many pairs as can be gathered at a time; a query is not divided."""
        if self._is_dense:
            return list(gen_batches(self.n_rows, max(_GATHERED // self.n_columns, 1)))
        most = max(_GATHERED // width, 1)
        marks = np.arange(0, len(self.columns) + most, most)
        edges = np.unique(np.concatenate([[0], np.searchsorted(self.indptr, marks, side="left"), [self.n_rows]]))
        return [slice(int(a), int(b)) for a, b in pairwise(edges[edges <= self.n_rows])]


def _inner_products(P: Any, V: Any) -> np.ndarray:
    """Inner product of each row of P with the same row of V, dense or sparse."""
    if sp.issparse(P):
        return np.asarray(P.multiply(V).sum(axis=1), dtype=np.float64).ravel()
    return np.einsum("ij,ij->i", P, V).astype(np.float64)
