"""All pairs of two sets of rows, tile by tile, where labels overlap or a sparse matrix has the exceptions.

One label per row makes contiguous blocks, which have their own loop in `core.passes`; here the exceptions of a tile
come from a sparse matrix, so memory stays that of one tile per thread.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from sklearn.utils import gen_batches

from likewise.learn.maths.labels import LabelTarget, class_starts, class_sums, label_runs, same_label_blocks
from likewise.learn.maths.passes import COLUMNS
from likewise.learn.supervision.pairs import intervals
from likewise.utils.arrays import dense
from likewise.utils.threads import ordered_map, row_blocks

_KEPT = 1 << 28  # bytes of raw scores that are cached between passes


class TileClamp(Protocol):
    """The targets of a tile of scores."""

    def residual(self, S: np.ndarray, rows: slice, columns: slice) -> float:
        """Overwrite scores by S - clamp(S); returns the sum of the squares."""

    def target_times(self, V: np.ndarray) -> np.ndarray:
        """Y V for the target that does not adapt."""

    def transposed(self) -> TileClamp:
        """The same for items as rows and queries as columns."""


class LabelClamp:
    """One label per item, rows and columns sorted by it: same-label blocks are contiguous."""

    def __init__(self, target: LabelTarget, codes: np.ndarray) -> None:
        self.target, self.codes = target, codes
        self.starts = class_starts(codes, int(codes[-1]) + 1)

    def residual(self, S: np.ndarray, rows: slice, columns: slice) -> float:
        blocks = same_label_blocks(S.shape[1], label_runs(self.codes[rows]), self.starts, columns.start)
        kept = [S[block].copy() for block, _ in blocks]
        if self.target.other:
            S -= S.dtype.type(self.target.other)
        np.maximum(S, 0, out=S)
        for scores, (block, _) in zip(kept, blocks, strict=True):
            S[block] = np.minimum(scores - scores.dtype.type(self.target.same), 0)
        return float(np.vdot(S, S))

    def target_times(self, V: np.ndarray) -> np.ndarray:
        sums = class_sums(V, self.codes, None, len(self.starts) - 1)
        return (self.target.same - self.target.other) * sums[self.codes] + self.target.other * V.sum(axis=0)

    def transposed(self) -> LabelClamp:
        return self


class StoredClamp:
    """A sparse matrix tells the values of some pairs; the others are irrelevant: at most δ2, or 0 if graded.

    `tile(rows, columns)` gives those values of a tile as a CSR matrix.
    """

    def __init__(
        self,
        tile: Callable[[slice, slice], sp.csr_array],
        shape: tuple[int, int],
        kind: str,
        margins: tuple[float, float],
        adaptive: bool,
    ) -> None:
        self.tile, self.shape = tile, shape
        self.kind, self.margins, self.adaptive = kind, margins, adaptive
        self.other = 0.0 if kind == "graded" else margins[1]

    def residual(self, S: np.ndarray, rows: slice, columns: slice) -> float:
        known = self.tile(rows, columns).tocoo()
        i, j = known.row, known.col
        low, high = intervals(known.data, self.kind, self.margins, self.adaptive)
        stored = S[i, j]
        if self.other:
            S -= S.dtype.type(self.other)
        if self.adaptive and self.kind == "binary":
            np.maximum(S, 0, out=S)
        S[i, j] = stored - np.clip(stored, low, high)
        return float(np.vdot(S, S))

    def target_times(self, V: np.ndarray) -> np.ndarray:
        base = self.other * V.sum(axis=0)
        blocks = row_blocks(self.shape[0])
        return np.concatenate(list(ordered_map(lambda rows: self._block_times(rows, V), blocks))) + base

    def _block_times(self, rows: slice, V: np.ndarray) -> np.ndarray:
        total = np.zeros((rows.stop - rows.start, V.shape[1]))
        for columns in gen_batches(self.shape[1], COLUMNS):
            tile = self.tile(rows, columns)
            goal, _ = intervals(tile.data, self.kind, self.margins, adaptive=False)
            total += sp.csr_array((goal - self.other, tile.indices, tile.indptr), shape=tile.shape) @ V[columns]
        return total

    def transposed(self) -> StoredClamp:
        def tile(rows: slice, columns: slice) -> sp.csr_array:
            return self.tile(columns, rows).T.tocsr()

        return StoredClamp(tile, self.shape[::-1], self.kind, self.margins, self.adaptive)


@dataclass(frozen=True, eq=False)
class RawScores:
    """scale · Q Gᵀ, tile by tile; cached where it is small, since every pass needs it."""

    Q: Any
    G: Any
    scale: float
    kept: np.ndarray | None = None

    @classmethod
    def of(cls, Q: Any, G: Any, scale: float) -> RawScores:
        """The scores of all rows of Q and G."""
        scores = cls(Q, G, scale)
        small = Q.shape[0] * G.shape[0] * Q.dtype.itemsize <= _KEPT
        return replace(scores, kept=scores.tile(slice(None), slice(None))) if small else scores

    def tile(self, rows: slice, columns: slice) -> np.ndarray:
        """Scores of some rows with some columns."""
        if self.kept is not None:
            return self.kept[rows, columns]
        product = self.Q[rows] @ self.G[columns].T
        return dense(product) * product.dtype.type(self.scale)

    def transposed(self) -> RawScores:
        """The same with columns as rows."""
        return RawScores(self.G, self.Q, self.scale, None if self.kept is None else self.kept.T)


@dataclass(frozen=True, eq=False)
class TiledPairs:
    """All pairs of the rows of two sides.

    Attributes
    ----------
    clamp : their targets.
    row_weights, column_weights : how often each row counts, or None.
    complete : whether these rows are all rows, so that a unit step is right.
    raw : scores of the pairs before learning, or None.
    """

    clamp: TileClamp
    shape: tuple[int, int]
    row_weights: np.ndarray | None = None
    column_weights: np.ndarray | None = None
    complete: bool = True
    raw: RawScores | None = None

    @property
    def n_pairs(self) -> float:
        """Number of pairs, by weight."""
        n, m = self.shape
        rows = n if self.row_weights is None else self.row_weights.sum()
        return float(rows) * float(m if self.column_weights is None else self.column_weights.sum())

    def with_offset(self, P: Any, V: Any, scale: float) -> TiledPairs:
        """These pairs, scoring `scale` P Vᵀ before learning."""
        return replace(self, raw=RawScores.of(P, V, scale))

    def residual(self, P: np.ndarray, V: np.ndarray, back: np.ndarray) -> tuple[np.ndarray, float]:
        """E @ back, E = S - clamp(S) with S = P Vᵀ, and the sum of the squares of E."""
        back = _scaled(back, self.column_weights)
        blocks = row_blocks(self.shape[0])
        T, loss = np.zeros((self.shape[0], back.shape[1])), 0.0
        sums = ordered_map(lambda rows: self._block_excess(P, V, back, rows), blocks)
        for rows, (part, squares) in zip(blocks, sums, strict=True):
            T[rows], loss = part, loss + squares
        return _scaled(T, self.row_weights), loss

    def _block_excess(self, P: np.ndarray, V: np.ndarray, back: np.ndarray, rows: slice) -> tuple[np.ndarray, float]:
        total, loss = np.zeros((rows.stop - rows.start, back.shape[1]), dtype=back.dtype), 0.0
        for columns in gen_batches(self.shape[1], COLUMNS):
            S = P[rows] @ V[columns].T
            if self.raw is not None:
                S += self.raw.tile(rows, columns)
            squares = self.clamp.residual(S, rows, columns)
            loss += squares if self._plain else self._weighted_squares(S, rows, columns)
            total += S @ back[columns]
        return total, loss

    @property
    def _plain(self) -> bool:
        return self.row_weights is None and self.column_weights is None

    def _weighted_squares(self, E: np.ndarray, rows: slice, columns: slice) -> float:
        squares = np.square(E, dtype=np.float64)
        by_row = squares.sum(axis=1) if self.column_weights is None else squares @ self.column_weights[columns]
        return float(by_row.sum() if self.row_weights is None else by_row @ self.row_weights[rows])

    def curvature(self, P: np.ndarray, V: np.ndarray) -> float:
        """Sum of the squares of P Vᵀ, through two small Gram matrices."""
        P, V = P.astype(np.float64, copy=False), V.astype(np.float64, copy=False)
        return float(np.sum((P.T @ _scaled(P, self.row_weights)) * (V.T @ _scaled(V, self.column_weights))))

    def target_times(self, V: np.ndarray) -> np.ndarray:
        """Y V, Y the target that does not adapt."""
        return _scaled(self.clamp.target_times(_scaled(V, self.column_weights)), self.row_weights)

    def transposed(self) -> TiledPairs:
        """The same pairs with items as rows."""
        raw = None if self.raw is None else self.raw.transposed()
        clamp, weights = self.clamp.transposed(), (self.column_weights, self.row_weights)
        return TiledPairs(clamp, self.shape[::-1], *weights, complete=self.complete, raw=raw)


def _scaled(V: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    return V if weights is None else V * weights[:, None].astype(V.dtype)
