"""Targets of scores: the interval [δ1, ∞) for pairs of one label, (-∞, δ2] for the others."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from likewise.errors import LikewiseError

__all__ = ["LabelTarget", "class_starts", "indicator", "label_runs", "same_label_blocks"]


@dataclass(frozen=True)
class LabelTarget:
    """Intervals from labels, for rows and columns that are both sorted by label.

    Attributes
    ----------
    same, other : the paper's δ1 and δ2.
    adaptive : True clamps the current scores to their intervals; False targets δ1 and δ2 themselves (Eqn. 2).
    same_weight : weight of the pairs of each class, relative to a pair of two classes; None is 1.
    """

    on_host: ClassVar[bool] = True

    same: float = 1.0
    other: float = 0.0
    adaptive: bool = True
    same_weight: np.ndarray | None = None

    @classmethod
    def of_margins(cls, margins: Sequence[float], adaptive: bool) -> LabelTarget:
        """From (δ1, δ2)."""
        if len(margins) != 2 or not margins[0] > margins[1]:
            raise LikewiseError(f"margins={margins!r}: expected (δ1, δ2) with δ1 > δ2, such as (1.0, 0.0)")
        return cls(float(margins[0]), float(margins[1]), adaptive)

    def fold(
        self, S: np.ndarray, runs: list[tuple[int, int, int]], starts: np.ndarray, first: int
    ) -> list[tuple[slice, slice, np.ndarray]]:
        """Overwrite a tile of scores by 2E - (S - δ2), E = S - clamp(S) how far each lies outside its interval.

        For two labels that is |S - δ2|, all that a pair costs here; the few blocks of one label are then put right, and
        their E returned. `runs` are the row ranges (begin, end, class) of the tile, `starts` the columns at which
        classes begin, `first` its column.
        """
        blocks = same_label_blocks(S.shape[1], runs, starts, first)
        kept = [S[block].copy() for block, _ in blocks]
        if self.other:
            np.subtract(S, S.dtype.type(self.other), out=S)
        np.abs(S, out=S)
        for scores, (block, c) in zip(kept, blocks, strict=True):
            S[block] = scores.dtype.type(self.other) - scores
            np.subtract(scores, scores.dtype.type(self.same), out=scores)
            np.minimum(scores, 0, out=scores)
            if self.same_weight is not None:
                scores *= scores.dtype.type(self.same_weight[c])
            S[block] += 2 * scores
        return [(*block, E) for E, (block, _) in zip(kept, blocks, strict=True)]


def label_runs(codes: np.ndarray) -> list[tuple[int, int, int]]:
    """Ranges (begin, end, class) of equal values in a sorted array."""
    edges = np.flatnonzero(np.diff(codes)) + 1
    begins, ends = np.concatenate([[0], edges]), np.concatenate([edges, [len(codes)]])
    return [(int(a), int(b), int(codes[a])) for a, b in zip(begins, ends, strict=True) if b > a]


def class_starts(codes: np.ndarray, n_classes: int) -> np.ndarray:
    """Where each class begins in a sorted array of classes: class c is [starts[c], starts[c + 1])."""
    return np.searchsorted(codes, np.arange(n_classes + 1))


def indicator(codes: np.ndarray, weights: np.ndarray | None, n_classes: int) -> sp.csr_array:
    """Z, (n, n_classes): the weight of each row in the column of its class. Zᵀ V are the class sums of rows V."""
    count = np.ones(len(codes)) if weights is None else weights
    return sp.csr_array((count, codes, np.arange(len(codes) + 1)), shape=(len(codes), n_classes))


def same_label_blocks(
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
