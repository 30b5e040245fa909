"""How rows enter a map: at length one as they are, or standardised first, whichever ranks held-out rows better.

The direction of a row is what embeddings, pixels and text mean. Columns in units of their own, as tables have them,
hide all but the largest from it, and standardising them is worth ten points there; it costs as much where the large
columns are those that matter. So it has to be shown: on some of the training rows, without adapting, it must win by
one and a half standard errors.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from likewise.core.anchored_preparing import Data, Preparation, Setting
from likewise.core.engine import RowBlock
from likewise.core.kernels import Scaling
from likewise.core.passes import row_blocks
from likewise.core.sampling import draw_landmarks
from likewise.core.truncated_whitening import reduced_rows
from likewise.selection.holdout import Split, mean_of_found, row_splits
from likewise.selection.search import Journal, Search, starts

__all__ = ["SCALINGS", "ColumnMoments", "Given", "choose_scaling", "scaling_for"]

SCALINGS = ("unit", "standard")
MOST_TRAIN, MOST_HELD, MOST_KERNEL = 500, 300, 400  # enough to tell: a right choice gains many points
RIDGES = (0.01, 0.1, 1.0)
WIDTHS = (0.0, 1.0)  # of the kernel, where it may choose: none, or the middle one
ERRORS = 1.5  # standard errors of the mean difference over queries


@dataclass(frozen=True)
class ColumnMoments:
    """Sum of the columns, and of their squares, about a row near the mean: what a block contributes, on the host."""

    pivot: np.ndarray

    @classmethod
    def about(cls, rows: np.ndarray) -> ColumnMoments:
        """About the mean of some rows."""
        return cls(rows.mean(axis=0, dtype=np.float64))

    def __call__(self, block: RowBlock) -> tuple[np.ndarray, ...]:
        X = np.asarray(block.rows) - self.pivot
        w = np.ones(len(X)) if block.weights is None else block.weights
        return w @ X, w @ X**2

    def scaling(self, sums: tuple[Any, ...], weight: float) -> Scaling:
        """The scaling that the sums over all rows make, `weight` of them."""
        mean, squares = sums[0] / weight, sums[1] / weight
        return Scaling.standard(self.pivot + mean, squares - mean**2)


@dataclass(frozen=True)
class Given:
    """Rows as they were given, with their classes and weights; `width` as `whitening_width` has it."""

    X: Any
    codes: np.ndarray
    n_classes: int
    weights: np.ndarray | None
    width: int | None
    _made: dict[str, Data] = field(default_factory=dict, repr=False, compare=False)

    def part(self, rows: np.ndarray | slice) -> Given:
        weights = None if self.weights is None else self.weights[rows]
        return Given(self.X[rows], self.codes[rows], self.n_classes, weights, self.width)

    def data(self, scaling: str) -> Data:
        """Rows of length one under a scaling by name, in their leading directions if wide; the last ones are kept."""
        if scaling not in self._made:
            self._made.clear()
            self._made[scaling] = self._data(self.scaling(scaling))
        return self._made[scaling]

    def _data(self, scaling: Scaling) -> Data:
        rows, reduction = reduced_rows(scaling(self.X), self.weights, self.width)
        return Data(rows, self.codes, self.n_classes, self.weights, scaling, reduction)

    def scaling(self, name: str) -> Scaling:
        """The scaling of these rows by name."""
        if name == "unit":
            return Scaling()
        moments = ColumnMoments.about(self.X[:100])
        parts = (self.part(block) for block in row_blocks(len(self.codes)))
        sums = [moments(RowBlock(part.X, part.codes, part.weights)) for part in parts]
        weight = len(self.codes) if self.weights is None else self.weights.sum()
        return moments.scaling(tuple(map(sum, zip(*sums, strict=True))), weight)


def choose_scaling(
    given: Given,
    splits: list[Split],
    widths: tuple[float, ...],
    fixed: dict[str, Any],
    prepare: Preparation,
    journal: Journal,
) -> str:
    """Which scaling ranks held-out rows better at its best width and ridge; "unit" unless the other clearly does."""
    if sp.issparse(given.X) or not splits:
        return "unit"
    few = Preparation(min(prepare.kernel_size, MOST_KERNEL), prepare.n_landmarks, prepare.seed)
    rng = np.random.default_rng(prepare.seed)
    parts = [_few_rows(given, split, rng) for split in splits]
    widths = tuple(width for width in widths if width in WIDTHS) or widths
    settings = [setting for width in widths for setting in starts(width, fixed, RIDGES)]
    unit, standard = (_best(parts, name, settings, few, journal) for name in SCALINGS)
    gain = standard - unit
    gain = gain[np.isfinite(gain)]
    return "standard" if gain.sum() > ERRORS * gain.std() * np.sqrt(len(gain)) else "unit"


def scaling_for(X: Any, codes: np.ndarray, n_classes: int, seed: int) -> Scaling:
    """The scaling that AnchoredSLR would choose for labelled rows, learned from all of them."""
    given, rng = Given(X, codes, n_classes, None, None), np.random.default_rng(seed)
    prepare = Preparation(MOST_KERNEL, None, seed)
    return given.scaling(choose_scaling(given, row_splits(codes, None, rng), WIDTHS, {}, prepare, Journal()))


def _few_rows(given: Given, split: Split, rng: np.random.Generator) -> tuple[Given, Split]:
    """Some rows of a split, drawn by class, numbered anew."""
    train, held = (
        _drawn(given, rows, most, rng) for rows, most in ((split.train, MOST_TRAIN), (split.held, MOST_HELD))
    )
    rows = np.concatenate([train, held])
    return given.part(rows), Split(np.arange(len(train)), np.arange(len(train), len(rows)))


def _drawn(given: Given, rows: np.ndarray, most: int, rng: np.random.Generator) -> np.ndarray:
    if len(rows) <= most:
        return rows
    rows = rows[np.argsort(given.codes[rows], kind="stable")]
    return np.sort(rows[draw_landmarks(given.codes[rows], given.n_classes, most, rng)])


def _best(
    parts: list[tuple[Given, Split]], name: str, settings: list[Setting], prepare: Preparation, journal: Journal
) -> np.ndarray:
    """Average precision of each held-out row at the best setting under one scaling; nan where there is none to find."""
    began, best, chosen = time.perf_counter(), np.empty(0), settings[0]
    searches = [Search(_scaled(given, split, name), [split], prepare, Journal()) for given, split in parts]
    for setting in settings:
        values = np.concatenate([search.average_precisions(setting) for search in searches])
        if not len(best) or mean_of_found(values) > mean_of_found(best):
            best, chosen = values, setting
    tried = {**asdict(replace(chosen, scaling=name)), "rows": sum(len(split.train) for _, split in parts)}
    journal.note(tried, mean_of_found(best), time.perf_counter() - began)
    return best


def _scaled(given: Given, split: Split, name: str) -> Data:
    """All rows under the scaling of those to learn from."""
    scaling = given.part(split.train).scaling(name)
    return Data(scaling(given.X), given.codes, given.n_classes, given.weights, scaling)
