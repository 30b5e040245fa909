"""What a pair should score: an interval, [δ1, ∞) for pairs of one label and (-∞, δ2] for the others."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

import numpy as np

__all__ = ["LabelTarget", "class_starts", "label_runs"]

_STRIP = 64  # rows of a tile


@dataclass(frozen=True)
class LabelTarget:
    """Intervals from labels, for rows and columns that are both sorted by label.

    Attributes
    ----------
    same, other : the paper's δ1 and δ2.
    adaptive : True clamps the current scores to their intervals; False asks for δ1 and δ2 themselves (Eqn. 2).
    same_weight : weight of the pairs of each class, relative to a pair of two classes; None is 1.
    """

    same: float = 1.0
    other: float = 0.0
    adaptive: bool = True
    same_weight: np.ndarray | None = None

    def excess(self, H: np.ndarray, runs: list[tuple[int, int, int]], starts: np.ndarray, first: int) -> float:
        """Overwrite a tile of half scores H = S/2 by S - clamp(S), how far each score lies outside its interval.

        The whole tile is clamped as "other label"; the few blocks of one label are then put right. `runs` are the
        row ranges (begin, end, class) of the tile, `starts` the columns at which classes begin, `first` its column.
        Halves, because max(x, 0) = x/2 + |x/2|. Returns the sum of the squares.
        """
        blocks = _same_label_blocks(H.shape[1], runs, starts, first)
        kept = [H[block].copy() for block, _ in blocks]
        if self.other:
            np.subtract(H, H.dtype.type(self.other / 2), out=H)
        for block, _ in blocks:
            H[block] = 0
        total = _add_magnitudes(H)
        for scores, (block, c) in zip(kept, blocks, strict=True):
            weight = 2.0 if self.same_weight is None else 2.0 * self.same_weight[c]
            np.subtract(scores, scores.dtype.type(self.same / 2), out=scores)
            np.multiply(np.minimum(scores, 0, out=scores), scores.dtype.type(weight), out=scores)
            total += float(np.vdot(scores, scores))
            H[block] = scores
        return total


def _add_magnitudes(H: np.ndarray) -> float:
    """H + |H| in place, and the sum of its squares, a strip at a time so that it stays in the nearest cache.

    In float32 that takes numpy half the time of a maximum.
    """
    scratch, total = np.empty_like(H[:_STRIP]), 0.0
    for first in range(0, len(H), _STRIP):
        strip = H[first : first + _STRIP]
        np.add(strip, np.abs(strip, out=scratch[: len(strip)]), out=strip)
        total += float(np.vdot(strip, strip))
    return total


def label_runs(codes: np.ndarray) -> list[tuple[int, int, int]]:
    """Ranges (begin, end, class) of equal values in a sorted array."""
    edges = np.flatnonzero(np.diff(codes)) + 1
    begins, ends = np.concatenate([[0], edges]), np.concatenate([edges, [len(codes)]])
    return [(int(a), int(b), int(codes[a])) for a, b in zip(begins, ends, strict=True) if b > a]


def class_starts(codes: np.ndarray, n_classes: int) -> np.ndarray:
    """Where each class begins in a sorted array of classes: class c is [starts[c], starts[c + 1])."""
    return np.searchsorted(codes, np.arange(n_classes + 1))


def _same_label_blocks(
    width: int, runs: list[tuple[int, int, int]], starts: np.ndarray, first: int
) -> list[tuple[tuple[slice, slice], int]]:
    """The rectangles of a tile where row and column have one label."""
    lowest = int(np.searchsorted(starts, first, side="right")) - 1
    blocks = []
    for a, b, c in runs[bisect_left(runs, lowest, key=lambda run: run[2]) :]:
        begin, end = max(int(starts[c]) - first, 0), min(int(starts[c + 1]) - first, width)
        if begin >= width:
            break
        if begin < end:
            blocks.append(((slice(a, b), slice(begin, end)), c))
    return blocks
