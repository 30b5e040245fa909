"""One pass over all pairs: a tile of scores by GEMM, clamp in place, GEMM back.

Rows are compared with a gallery, both sorted by label. Nothing of size n x n is held: memory is a tile a thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from likewise.learn.maths.labels import LabelTarget, Runs, indicator, label_runs

Swept = tuple[np.ndarray, float]  # (S - Y) @ back, or Xᵀ times that; and the loss
# Of the shapes tried in float32 (`python -m benchmarks.pass_tiles`) the best: up to 5 % before 1,024 columns, which
# fill a core's 2 MB alone. Not tuned at first use: another shape rounds otherwise, and a fit may be resumed elsewhere.
ROWS, COLUMNS = 512, 768
MOST_MIRRORED = 1 << 26  # bytes of the sums of a block with all later rows: some six of them are held at a time


@dataclass(frozen=True)
class PassColumns:
    """The columns of a pass, sorted by label: scores are P Gᵀ, and a pass sums (S - Y) @ back, back = [DG, extra].

    D are the `weights` of the columns. DG comes first in `back` because the loss follows from its sums.
    """

    G: np.ndarray
    starts: np.ndarray
    weights: np.ndarray | None = None
    extra: np.ndarray | None = None

    @cached_property
    def back(self) -> np.ndarray:
        """What the columns of (S - Y) are summed with, (m, r) or wider by `extra`."""
        DG = self.G if self.weights is None else self.G * self.weights[:, None].astype(self.G.dtype)
        return DG if self.extra is None else np.hstack([DG, self.extra.astype(self.G.dtype)])

    @cached_property
    def linear(self) -> tuple[np.ndarray, np.ndarray]:
        """Gᵀ back and the sum of back: what S @ back takes, without visiting a pair."""
        back = self.back.astype(np.float64)
        return self.G.T.astype(np.float64) @ back, back.sum(axis=0)

    def blocks(self) -> Iterator[PassColumns]:
        """These columns, as the one block they are."""
        yield self

    def residual(self, P: np.ndarray, codes: np.ndarray, target: LabelTarget) -> np.ndarray:
        """(S - Y) @ back for a block of rows with scores S = P Gᵀ and target Y = clamp(S)."""
        return residual(P, codes, self, target)

    def deviation(self, P: np.ndarray, codes: np.ndarray, weights: np.ndarray | None, target: LabelTarget) -> Swept:
        """The same for the clamp or the fixed target, with the sum of squares of S - Y."""
        if not target.adaptive:
            return _fixed(P, codes, weights, self, target)
        loss = _Loss(weights, self, target)
        total = residual(P, codes, self, target, loss.see)
        return total, loss.of(P, total)

    def __sizeof__(self) -> int:
        """Bytes of the arrays, for schedulers that go by size."""
        arrays = (self.G, self.starts, self.weights, self.extra)
        return sum(array.nbytes for array in arrays if array is not None)

    def __reduce__(self) -> tuple[type[PassColumns], tuple[np.ndarray | None, ...]]:
        """Without cached properties, which need not travel."""
        return PassColumns, (self.G, self.starts, self.weights, self.extra)

    @cached_property
    def sums(self) -> LabelSums:
        """What a fixed target needs of the columns."""
        weights = np.ones(len(self.G)) if self.weights is None else self.weights
        G, back = self.G.astype(np.float64), self.back.astype(np.float64)
        weighted, n_classes = G * weights[:, None], len(self.starts) - 1
        Z = indicator(np.repeat(np.arange(n_classes), np.diff(self.starts)), None, n_classes)
        return LabelSums(Z.T @ back, Z.T @ weighted, Z.T @ weights, G.T @ weighted, G.T @ back)


def residual(
    P: np.ndarray,
    codes: np.ndarray,
    gallery: PassColumns,
    target: LabelTarget,
    see: Callable[[np.ndarray, list[tuple[slice, slice, np.ndarray]], slice], None] = lambda *_: None,
) -> np.ndarray:
    """(S - Y) @ back for Y = clamp(S): the tile loop that everything else waits for.

    A tile F is left with 2 (S - Y) - (S - δ2), which is |S - δ2| but for pairs of one label: a single absolute value a
    pair. The rest, (S - δ2) @ back, needs no pairs. `see` is shown every folded tile.
    """
    n, m = len(P), len(gallery.G)
    runs, back = label_runs(codes), gallery.back
    total = np.zeros((n, back.shape[1]), dtype=P.dtype)
    part, buffer = np.empty_like(total), _scratch(n * min(COLUMNS, m), P.dtype)
    for first in range(0, m, COLUMNS):
        tile = slice(first, min(first + COLUMNS, m))
        F = buffer[: n * (tile.stop - first)].reshape(n, -1)
        np.matmul(P, gallery.G[tile].T, out=F)
        see(F, target.fold_tile(F, runs, gallery.starts, first), tile)
        total += np.matmul(F, back[tile], out=part)
    return _with_linear_part(total, P, gallery, target)


def _with_linear_part(total: np.ndarray, P: np.ndarray, gallery: PassColumns, target: LabelTarget) -> np.ndarray:
    """(S - Y) @ back from the sums of folded tiles, in place."""
    G_back, back_sum = gallery.linear
    total += P @ G_back.astype(P.dtype) - (target.other * back_sum).astype(P.dtype)
    total *= P.dtype.type(0.5)
    return total


def symmetric_deviation(
    P: np.ndarray,
    codes: np.ndarray,
    weights: np.ndarray | None,
    gallery: PassColumns,
    target: LabelTarget,
    each: Callable[[Callable[[slice], BlockSums]], Iterable[BlockSums]],
) -> Swept:
    """`PassColumns.deviation` of all rows at once, where S = P Gᵀ is symmetric: a tile serves its mirror image too.

    Two tiles take three products instead of four. `each` maps a function over blocks of rows, in their order.
    """
    total, loss = np.zeros((len(P), gallery.back.shape[1]), dtype=P.dtype), _Loss(weights, gallery, target)

    def of_block(block: slice) -> BlockSums:
        seen = _Loss(None if weights is None else weights[block], gallery, target)
        return block, _from_block_on(P, block, label_runs(codes[block]), gallery, target, seen.see), seen

    for block, sums, seen in each(of_block):
        total[block.start :] += sums
        loss.add(seen)
    total = _with_linear_part(total, P, gallery, target)
    return total, loss.of(P, total)


def _from_block_on(
    P: np.ndarray, block: slice, runs: Runs, gallery: PassColumns, target: LabelTarget, see: Callable[..., None]
) -> np.ndarray:
    """Folded tiles of a block of rows with itself and with all later rows, summed with `back` for both sides."""
    rows, back, n = P[block], gallery.back, block.stop - block.start
    total = np.zeros((len(P) - block.start, back.shape[1]), dtype=P.dtype)
    part, buffer = np.empty_like(total[:n]), _scratch(n * max(n, COLUMNS), P.dtype)
    firsts = [block.start, *range(block.stop, len(P), COLUMNS)]
    for first, last in pairwise([*firsts, len(P)]):
        F = buffer[: n * (last - first)].reshape(n, -1)
        np.matmul(rows, gallery.G[first:last].T, out=F)
        is_mirrored = first >= block.stop
        see(F, target.fold_tile(F, runs, gallery.starts, first), slice(first, last), 1 + is_mirrored)
        total[:n] += np.matmul(F, back[first:last], out=part)
        if is_mirrored:
            np.matmul(F.T, back[block], out=total[first - block.start : last - block.start])
    return total


_rooms = threading.local()


def _scratch(size: int, dtype: np.dtype) -> np.ndarray:
    """Room for a tile, the same for all passes of a thread: new pages for each cost up to a fifth of a pass.

    They are new for each where memory is given back at once, as Dask tells its workers to.
    """
    nbytes = size * dtype.itemsize
    if nbytes > 2 * 8 * ROWS * COLUMNS:  # more rows at a time than usual: not worth keeping
        return np.empty(size, dtype)
    room = getattr(_rooms, "room", None)
    if room is None or room.nbytes < nbytes:
        room = _rooms.room = np.empty(nbytes, np.uint8)
    return np.asarray(room[:nbytes].view(dtype))


class _Loss:
    """Σ (S - Y)² of a clamped block, from its sums.

    E = S - Y is zero where S lies within its bound, so E² = E (S - bound). Σ_j E_ij S_ij is the inner product of P_i
    with what the pass sums; what is left are sums of E over the pairs of one label and, for δ2 other than 0, over all.
    """

    def __init__(self, rows: np.ndarray | None, gallery: PassColumns, target: LabelTarget) -> None:
        self.rows, self.gallery, self.target = rows, gallery, target
        self.same, self.folded = 0.0, 0.0

    def see(self, F: np.ndarray, same: list[tuple[slice, slice, np.ndarray]], tile: slice, times: int = 1) -> None:
        """Take the sums of a tile that counts so many times; `same` are the blocks of E of pairs of one label."""
        w = None if self.gallery.weights is None else self.gallery.weights[tile]
        for a, b, E in same:
            rows = None if self.rows is None else self.rows[a]
            self.same += times * _weighted_sum(E, rows, None if w is None else w[b])
        if self.target.other:
            self.folded += times * _weighted_sum(F, self.rows, w)

    def add(self, other: _Loss) -> None:
        """Take what another has seen."""
        self.same, self.folded = self.same + other.same, self.folded + other.folded

    def of(self, P: np.ndarray, total: np.ndarray) -> float:
        by_row = np.einsum("ij,ij->i", total[:, : P.shape[1]], P, dtype=np.float64)
        scored = _weighted_sum(by_row[:, None], self.rows, None)
        loss = scored - (self.target.same - self.target.other) * self.same
        if self.target.other:
            gallery = self.gallery
            columns = float(len(gallery.G) if gallery.weights is None else gallery.weights.sum())
            scores = P.astype(np.float64) @ gallery.linear[1][: P.shape[1]] - self.target.other * columns
            linear = _weighted_sum(scores[:, None], self.rows, None)  # of S - δ2 over the block
            loss -= self.target.other * (self.folded + linear) / 2
        return max(loss, 0.0)


BlockSums = tuple[slice, np.ndarray, _Loss]


def _fixed(
    P: np.ndarray, codes: np.ndarray, weights: np.ndarray | None, gallery: PassColumns, target: LabelTarget
) -> Swept:
    """Y = δ1 or δ2 by label: class sums of the gallery are all it takes, no pair is visited."""
    sums = gallery.sums
    same, other = target.same - target.other, target.other
    Y_back = same * sums.back[codes] + other * sums.back.sum(axis=0)
    Y_G = same * sums.G[codes] + other * sums.G.sum(axis=0)
    Y_Y = (target.same**2 - other**2) * sums.size[codes] + other**2 * sums.size.sum()
    squares = np.einsum("ij,ij->i", P @ sums.G_G - 2 * Y_G, P) + Y_Y
    loss = squares.sum() if weights is None else weights @ squares
    return (P @ sums.G_back - Y_back).astype(P.dtype), max(float(loss), 0.0)


@dataclass(frozen=True)
class LabelSums:
    """Sums over the columns of each class: of `back`, of the weighted G and of the weights; and two Gram matrices."""

    back: np.ndarray
    G: np.ndarray
    size: np.ndarray
    G_G: np.ndarray
    G_back: np.ndarray


def _weighted_sum(E: np.ndarray, rows: np.ndarray | None, columns: np.ndarray | None) -> float:
    by_row = E.sum(axis=1) if columns is None else E @ columns.astype(E.dtype)
    by_row = by_row.astype(np.float64)
    return float(by_row.sum() if rows is None else rows @ by_row)
