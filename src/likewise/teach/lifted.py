"""The vectors of a large gallery after a lesson: those before it, and taught coordinates of the rows it reached.

A lesson leaves most rows of a large gallery exactly as they were. Nothing is copied for these: a million vectors may
stay in their file, and a search corrects the scores of the others.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np

from likewise.search.rank import Engine
from likewise.teach.taught import Taught
from likewise.utils.top_k import top_k

DENSE_UP_TO = 20_000  # rows; smaller galleries have one array of all coordinates
_BLOCK = 1 << 16  # rows at a time
_MORE = 64  # candidates beyond twice k from the engine of the vectors before the lesson


class Reached(NamedTuple):
    """Rows that a lesson reached, in ascending order, and the values of its kernel there, (m, g)."""

    rows: np.ndarray
    values: np.ndarray


class LiftedVectors:
    """Vectors [s_i v_i, f_i] of n rows: v the vectors before a lesson, f the taught coordinates of some rows.

    It can be indexed by rows, multiplied and turned into an array as an array can.
    """

    dtype, ndim = np.dtype(np.float32), 2

    def __init__(self, base: np.ndarray, rows: np.ndarray, part: np.ndarray, shrink: np.ndarray) -> None:
        self.base, self.rows, self.part, self.shrink = base, rows, part, shrink
        self.shape = (len(base), base.shape[1] + part.shape[1])
        self.size = self.shape[0] * self.shape[1]

    @classmethod
    def of(cls, model: Taught, V: np.ndarray, reached: Reached | None = None) -> Self:
        """The gallery side of a taught model from that of its base; without `reached` all rows are looked at."""
        rows, values = _everywhere(model, V) if reached is None else reached
        f = model._beyond(values.astype(np.float32, copy=False))
        kept = np.abs(f).max(axis=1, initial=0) > 0
        rows, f = rows[kept], f[kept]
        joined = model._joined(np.asarray(V[rows], np.float32), f)
        width = V.shape[1]
        before, after = (np.linalg.norm(part, axis=1) for part in (V[rows], joined[:, :width]))
        return cls(V, rows, np.ascontiguousarray(joined[:, width:]), after / np.where(before > 0, before, 1))

    def with_base(self, base: np.ndarray) -> Self:
        """The same coordinates beside other directions."""
        return type(self)(base, self.rows, self.part, self.shrink)

    def __len__(self) -> int:
        return len(self.base)

    def __getitem__(self, key: Any) -> np.ndarray:
        if isinstance(key, int | np.integer):
            return np.asarray(self[[key]][0])
        rows = _row_numbers(key, len(self))
        if rows.ndim > 1:
            return self[rows.ravel()].reshape(*rows.shape, -1)
        found = np.zeros((len(rows), self.shape[1]), np.float32)
        found[:, : self.base.shape[1]] = self.base[rows]
        places = np.minimum(np.searchsorted(self.rows, rows), max(0, len(self.rows) - 1))
        hit = self.rows[places] == rows if len(self.rows) else np.zeros(len(rows), bool)
        found[hit, : self.base.shape[1]] *= self.shrink[places[hit], None]
        found[hit, self.base.shape[1] :] = self.part[places[hit]]
        return found

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self[:], dtype)

    def __matmul__(self, q: np.ndarray) -> np.ndarray:
        return self.scores(q[None])[0] if q.ndim == 1 else self.scores(q.T).T

    def scores(self, Q: np.ndarray) -> np.ndarray:
        """Q Vᵀ, (n_q, n)."""
        r = self.base.shape[1]
        plain = np.ascontiguousarray(Q[:, :r], dtype=np.float32)
        S = np.empty((len(Q), len(self)), np.float32)
        for start in range(0, len(self), _BLOCK):
            np.matmul(plain, self.base[start : start + _BLOCK].T, out=S[:, start : start + _BLOCK])
        S[:, self.rows] = S[:, self.rows] * self.shrink + Q[:, r:] @ self.part.T
        return S

    @cached_property
    def reached(self) -> np.ndarray:
        """The vectors of the rows that were reached."""
        return self[self.rows]


class LiftedEngine:
    """Search after a lesson: what the engine before it finds, and the best of the rows that the lesson reached."""

    def __init__(self, V: LiftedVectors, before: Engine) -> None:
        self.V, self.before, self.exact = V, before, before.exact

    @property
    def kind(self) -> Any:
        """The kind of the engine before the lesson."""
        return getattr(self.before, "kind", False)

    def __len__(self) -> int:
        return len(self.V)

    def candidates(self, Q: np.ndarray, k: int) -> np.ndarray:
        """Rows of at least k high scores, in no particular order; -1 where there are fewer."""
        if self.exact:
            return top_k(self.V.scores(Q), k, ordered=False)
        plain = np.ascontiguousarray(Q[:, : self.V.base.shape[1]], dtype=np.float32)
        near = self.before.candidates(plain, min(len(self), 2 * k + _MORE))
        near = np.where(np.isin(near, self.V.rows), -1, near)
        reached = self.V.rows[top_k(Q @ self.V.reached.T, k, ordered=False)]
        return np.hstack([near, reached])


def after_lesson(model: Taught, V: np.ndarray, part: np.ndarray | Reached | None) -> Any:
    """The vectors of a gallery after a lesson; `part` is what the lesson adds to all rows or to those it reached."""
    if isinstance(part, Reached):
        return LiftedVectors.of(model, V, part)
    return LiftedVectors.of(model, V) if part is None and len(V) > DENSE_UP_TO else model.lifted(V, part)


def _everywhere(model: Taught, V: np.ndarray) -> Reached:
    """The rows that a lesson reaches, block by block."""
    found: list[tuple[np.ndarray, np.ndarray]] = []
    for start in range(0, len(V), _BLOCK):
        values = model._kernel_part(np.asarray(V[start : start + _BLOCK], np.float32))
        rows = np.flatnonzero(np.abs(model._beyond(values)).max(axis=1, initial=0) > 0)
        found.append((rows + start, values[rows]))
    return Reached(*(np.concatenate(parts) for parts in zip(*found, strict=True)))


def _row_numbers(key: Any, n: int) -> np.ndarray:
    if isinstance(key, slice):
        return np.arange(*key.indices(n))
    rows = np.asarray(key)
    rows = np.flatnonzero(rows) if rows.dtype == bool else rows.astype(np.int64, copy=False)
    return np.where(rows < 0, rows + n, rows)
