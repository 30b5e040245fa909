"""Labelled rows of length one, wherever they are: their mean, mean squared distance, samples and kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from likewise.core.engine import Engine, RowBlock
from likewise.core.kernels import UNIT, Features, Scaling, scaled, squared_lengths
from likewise.core.sampling import draw_landmarks
from likewise.core.truncated_whitening import reduced_rows
from likewise.errors import LikewiseError
from likewise.utils.arrays import dense, like, to_host, wide

__all__ = ["UnitRows", "rows_at", "sample", "scaling_of"]


class UnitRows:
    """The rows of an engine, brought to length one by a scaling.

    Rows in memory are scaled once, and reduced to their leading directions if they are wide and sparse or if `width`
    says so; other rows are scaled in each pass.

    Attributes
    ----------
    source : the rows as they came.
    engine : where tasks run; `pending` is the scaling they still have to apply, None in memory.
    scaling, reduction : how raw rows become these: scaled, then projected on (width, d) directions unless None.
    size : weight of each class. mean : of the unit rows. mean_square_distance : over all pairs of them.
    """

    def __init__(self, engine: Engine, scaling: Scaling = UNIT, width: int | None = None) -> None:
        self.source: Any = engine
        self.engine: Any  # an Engine, and an EngineInMemory where no scaling is pending
        self.width, self.scaling = width, scaling
        self.reduction, self.pending = None, None
        held = engine.mapped(scaling)
        if held is None:
            self.engine, self.pending = engine, scaling
        else:
            self.engine = held
            if width is not None or sp.issparse(held.X):
                rows, self.reduction = reduced_rows(held.X, held.row_weights, width)
                self.engine = held if self.reduction is None else held.mapped(lambda _: rows)
        self.size = np.bincount(engine.codes, engine.weights, minlength=engine.n_classes).astype(float)
        self._measure()

    @property
    def n_classes(self) -> int:
        return self.engine.n_classes

    def _measure(self) -> None:
        """Mean and mean squared distance, about a row near the mean for the sake of rounding."""
        some = scaled(self.pending, some_rows(self.engine))
        pivot = None if sp.issparse(some) else some.mean(axis=0, dtype=np.float64)
        total, squares = self.engine.sum(_Moments(self.pending, pivot))
        if not np.isfinite(total).all():
            raise LikewiseError("X contains NaN or infinity: every value must be finite")
        if not (squares > 0 or (pivot is not None and pivot.any())):
            raise LikewiseError("X holds zeros alone: there is nothing to learn a similarity from")
        beyond = total / self.size.sum()
        self.mean = (beyond if pivot is None else pivot + beyond).astype(self.engine.dtype)
        self.mean_square_distance = float(2 * (squares / self.size.sum() - beyond @ beyond))

    def under(self, name: str) -> UnitRows:
        """The same rows under a scaling by its name."""
        if name == self.scaling.name:
            return self
        return UnitRows(self.source, scaling_of(self.source, name), self.width)

    def part(self, rows: np.ndarray) -> UnitRows:
        """Some of the rows, by their numbers; for rows in memory."""
        part = object.__new__(UnitRows)
        part.scaling, part.reduction, part.pending = self.scaling, self.reduction, None
        part.engine = self.engine.select(rows)
        part.size = np.bincount(part.engine.codes, part.engine.weights, minlength=self.n_classes).astype(float)
        part._measure()
        return part

    def centred(self, rows: Any) -> np.ndarray:
        """Unit rows less their mean here, dense."""
        return np.asarray(dense(rows) - self.mean, dtype=rows.dtype)

    def kernel(self, width: float, size: int, rng: np.random.Generator) -> Features:
        """The RBF kernel with `size` of the rows as landmarks, γ = width / mean squared distance; 0 is linear."""
        if not width:
            return Features()
        n = self.engine.shape[0]
        numbers = np.sort(rng.permutation(n)[:size])
        places = np.argsort(self.engine.order)[numbers]  # rows that count, numbered in their own order
        landmarks = dense(scaled(self.pending, rows_at(self.engine, places)))
        return Features(np.asarray(landmarks), width / max(self.mean_square_distance, 1e-12))


@dataclass(frozen=True)
class _Moments:
    """Sum of the unit rows, and of their squared lengths, about a pivot."""

    scaling: Scaling | None
    pivot: np.ndarray | None

    def __call__(self, block: RowBlock) -> tuple[np.ndarray, ...]:
        X = scaled(self.scaling, block.rows)
        X = wide(X if self.pivot is None else X - like(self.pivot, X))
        w = like(np.ones(len(block.codes)) if block.weights is None else block.weights, X)
        return to_host(w @ X), np.asarray(float(w @ squared_lengths(X)))


@dataclass(frozen=True)
class _ColumnMoments:
    """Sum of the columns, and of their squares, about a pivot."""

    pivot: np.ndarray

    def __call__(self, block: RowBlock) -> tuple[np.ndarray, ...]:
        X = wide(dense(block.rows))
        X = X - like(self.pivot, X)
        w = like(np.ones(len(block.codes)) if block.weights is None else block.weights, X)
        return to_host(w @ X), to_host(w @ X**2)


def scaling_of(engine: Engine, name: str) -> Scaling:
    """The scaling of these rows by its name; "standard" takes one pass for the moments of the columns."""
    if name == "unit":
        return Scaling()
    pivot = some_rows(engine).mean(axis=0, dtype=np.float64)
    total = float(engine.shape[0] if engine.weights is None else engine.weights.sum())
    mean, squares = (part / total for part in engine.sum(_ColumnMoments(pivot)))
    return Scaling.standard(pivot + mean, squares - mean**2)


def some_rows(engine: Engine) -> Any:
    """A hundred rows or so, spread over the classes."""
    n = engine.shape[0]
    return rows_at(engine, np.arange(0, n, max(1, n // 100)))


def rows_at(engine: Engine, places: np.ndarray) -> Any:
    """Rows by their places in label order, in the order given."""
    rows = engine.take(places).rows(slice(None))
    return rows[np.argsort(np.argsort(places, kind="stable"), kind="stable")]


def sample(engine: Engine, most: int, rng: np.random.Generator) -> tuple[Any, np.ndarray]:
    """About `most` rows drawn by class, in memory and in their own order, and their numbers; all if no more."""
    n = engine.shape[0]
    if most >= n and hasattr(engine, "X") and n == engine.X.shape[0]:
        return engine, np.arange(n)
    places = np.arange(n) if most >= n else draw_landmarks(engine.codes, engine.n_classes, most, rng)
    places = places[np.argsort(engine.order[places])]
    taken = engine.take(np.sort(places))
    return taken.select(np.argsort(np.argsort(places))), engine.order[places]
