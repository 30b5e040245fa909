"""The vectors of a gallery before and after smoothing by neighbours, kept right as rows come and go."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from likewise.errors import LikewiseError
from likewise.learn.base import SimilarityModel
from likewise.search.approximate import Approximate
from likewise.search.neighbors import (
    CANDIDATES,
    EXACT_UP_TO,
    FEWEST_QUERIES,
    FEWEST_ROWS,
    K,
    NearestRows,
    Neighbours,
    as_float32,
    chosen,
    expanded,
    finder,
    is_unit,
    nearest_others,
    nearest_to,
)
from likewise.search.rank import Exact

_BLOCK = 1 << 24  # cosines computed at a time
_WIDER = 3  # times as many candidates from an approximate engine, which searches by smoothed vectors


@dataclass(frozen=True)
class SmoothedGallery:
    """A gallery's vectors before (`plain`) and after smoothing.

    `reach` is the cosine of each row with its k-th neighbour: rows further away do not matter to it.
    """

    plain: np.ndarray
    choice: Neighbours
    vectors: np.ndarray
    reach: np.ndarray

    @classmethod
    def of(cls, V: np.ndarray, choice: Neighbours, verbose: int = 0) -> Self:
        """Smooth a gallery of unit vectors."""
        V = as_float32(V)
        return cls._from(V, choice, nearest_others(finder(V), choice.k, verbose=verbose))

    @classmethod
    def auto(cls, V: np.ndarray, labels: Any = None, verbose: int = 0) -> Self | None:
        """Smooth a gallery as `chosen` says, if at all."""
        V = as_float32(V)
        if len(V) < (FEWEST_ROWS if labels is None else FEWEST_QUERIES):
            return None
        near = nearest_others(finder(V), K if labels is None else max(CANDIDATES), verbose=verbose)
        choice = chosen(V, near, labels)
        return None if choice is None else cls._from(V, choice, near)

    @classmethod
    def _from(cls, V: np.ndarray, choice: Neighbours, near: NearestRows) -> Self:
        near = near.first(choice.k)
        return cls(V, choice, expanded(V, V, near, choice.power), _reach(near, choice.k))

    @cached_property
    def _engine(self) -> Exact:
        return Exact(self.plain)

    def queries(self, Q: np.ndarray, engine: Approximate | None = None) -> np.ndarray:
        """Query vectors smoothed by their neighbours in the gallery; `engine` finds these approximately."""
        Q, k = as_float32(Q), self.choice.k
        near = nearest_to(self._engine, Q, k) if engine is None else nearest_to(engine, Q, _WIDER * k)
        return expanded(Q, self.plain, near.first(k), self.choice.power)

    def plus(self, new: np.ndarray) -> Self:
        """The gallery with more rows at its end."""
        return self._changed(np.arange(len(self.plain)), as_float32(new), self.plain[:0])

    def take(self, kept: np.ndarray) -> Self:
        """The gallery of the rows `kept`, in ascending order."""
        return self._changed(kept, self.plain[:0], np.delete(self.plain, kept, axis=0))

    def _changed(self, kept: np.ndarray, new: np.ndarray, removed: np.ndarray) -> Self:
        """As built from these rows; only those with a new or removed neighbour are computed again."""
        V = np.concatenate([self.plain[kept], new])
        if len(V) > EXACT_UP_TO:
            return type(self).of(V, self.choice)
        stale = _reached(self.plain[kept], self.reach[kept], np.concatenate([new, removed]))
        rows = np.concatenate([np.flatnonzero(stale), np.arange(len(kept), len(V))])
        near = nearest_others(Exact(V), self.choice.k, rows)
        vectors = np.concatenate([self.vectors[kept], new])
        vectors[rows] = expanded(V[rows], V, near, self.choice.power)
        reach = np.concatenate([self.reach[kept], np.empty(len(new), np.float32)])
        reach[rows] = _reach(near, self.choice.k)
        return type(self)(V, self.choice, vectors, reach)


def smoothed_gallery(
    model: SimilarityModel, V: np.ndarray, neighbours: Any, labels: Any = None, verbose: int = 0
) -> SmoothedGallery | None:
    """Smooth the vectors of a model's gallery: "auto", a number of neighbours or `Neighbours`; None for 0.

    "auto" leaves vectors as they are if they are not compared by cosine. Of a taught model, those of its base are
    smoothed, so that neighbours need not be found again after each lesson.
    """
    choice = _as_choice(neighbours)
    if choice is None:
        return None
    if not (model.symmetric and is_unit(V)):
        if choice == "auto":
            return None
        raise LikewiseError(
            f"neighbours={neighbours!r} needs vectors of unit length, the same for queries and gallery; "
            f"those of {type(model).__name__} are not: use neighbours=0"
        )
    if isinstance(choice, Neighbours):
        return SmoothedGallery.of(model.base_part(V), choice, verbose)
    return SmoothedGallery.auto(model.base_part(V), labels, verbose)


def with_base_part(V: Any, directions: np.ndarray) -> Any:
    """V with other directions of its base part, whose lengths and the taught coordinates stay."""
    r = directions.shape[1]
    if r == V.shape[1]:
        return directions
    return np.hstack([directions * np.linalg.norm(V[:, :r], axis=1, keepdims=True), V[:, r:]])


def _as_choice(neighbours: Any) -> Neighbours | str | None:
    if isinstance(neighbours, Neighbours) or (isinstance(neighbours, str) and neighbours == "auto"):
        return neighbours
    if isinstance(neighbours, bool) or not isinstance(neighbours, int | np.integer) or neighbours < 0:
        raise LikewiseError(f"neighbours={neighbours!r}; expected 'auto', a number of neighbours, or 0 for none")
    return Neighbours(int(neighbours)) if neighbours else None


def _reach(near: NearestRows, k: int) -> np.ndarray:
    """The cosine of the k-th neighbour; a row with fewer takes any other as one."""
    n, found = near.cosines.shape
    return np.array(near.cosines[:, -1]) if found == k else np.full(n, -2, np.float32)


def _reached(V: np.ndarray, reach: np.ndarray, changed: np.ndarray) -> np.ndarray:
    """Whether one of the changed vectors is, or was, a neighbour of each row, or nearly."""
    found = np.zeros(len(V), dtype=bool)
    step = max(1, _BLOCK // max(1, len(changed)))
    for start in range(0, len(V) if len(changed) else 0, step):
        part = slice(start, start + step)
        found[part] = (V[part] @ changed.T).max(axis=1) >= reach[part] - 1e-5
    return found
