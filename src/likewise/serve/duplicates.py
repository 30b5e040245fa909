"""Near-duplicates: groups of items whose raw features are almost parallel, and which items were marked as distinct."""

import threading
from collections.abc import Callable, Iterable
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

import numpy as np
from scipy.cluster.hierarchy import DisjointSet
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from likewise.serve.catalogue import shown_file
from likewise.serve.jobs import Job
from likewise.serve.session import Session

Distinct = tuple[tuple[int, ...], ...]  # sets of rows that are not duplicates of one another
LOWEST = 0.9  # below, pictures are similar rather than duplicates
_BLOCK = 1024  # rows compared with all others at a time
_MOST = 2_000_000  # pairs kept, 40 MB: with more, the least similar are dropped and `lowest` rises


class Duplicates:
    """Pairs of similar items, computed in the background on first use, and groups of them at any threshold."""

    def __init__(self, session: Session, distinct: Callable[[], Distinct] = tuple) -> None:
        self.session, self.distinct = session, distinct
        self.job = Job("duplicates")
        self.progress = 0.0
        self.pairs = Pairs()
        self._lock = threading.Lock()
        self._groups: tuple[Any, list[np.ndarray]] = (None, [])

    def state(self) -> Literal["ready", "running", "failed"]:
        """The state of the comparison; the first call starts it."""
        if self.job.state == "idle":
            self.job.start(self._compare)
        return {"done": "ready", "failed": "failed"}.get(self.job.state, "running")  # type: ignore[return-value]

    def groups(self, threshold: float) -> list[np.ndarray]:
        """Rows of each group of two or more, largest groups first."""
        with self._lock:
            apart = self.distinct()
            key = (threshold, apart, self.job.count)
            if self._groups[0] != key:
                self._groups = key, self._connected(threshold, apart)
            return self._groups[1]

    def best_first(self, rows: np.ndarray) -> list[int]:
        """The rows of a group, the best picture first: most pixels, then the largest file, then by path."""

        def worth(row: int) -> tuple[int, int, str, int]:
            path = shown_file(self.session.index, row)
            pixels, size = (0, 0) if path is None else _pixels_and_bytes(path)
            return -pixels, -size, str(path), row

        return sorted(rows.tolist(), key=worth)

    def _connected(self, threshold: float, apart: Distinct) -> list[np.ndarray]:
        rows, columns, scores = self.pairs.above(threshold)
        n = len(self.session)
        graph = coo_matrix((np.ones(len(rows), dtype=np.int8), (rows, columns)), shape=(n, n))
        numbers = connected_components(graph, directed=False)[1]
        order = np.argsort(numbers, kind="stable")
        components = np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1)

        def by_size(rows: np.ndarray) -> tuple[int, int]:
            return -len(rows), int(rows[0])

        parts = sorted((part for part in components if len(part) > 1), key=by_size)
        torn = {numbers[a] for some in apart for a, b in combinations(some, 2) if numbers[a] == numbers[b]}
        if not torn:
            return parts
        whole = [part for part in parts if numbers[part[0]] not in torn]
        inside = np.isin(numbers[rows], list(torn))
        order = np.argsort(-scores[inside], kind="stable")
        pairs = np.column_stack([rows[inside], columns[inside]])[order]
        return sorted([*whole, *_joined(pairs.tolist(), apart)], key=by_size)

    def _compare(self) -> None:
        """Find all pairs, by blocks, so that a gallery on disk is read piece by piece."""
        space, n = self.session.raw, len(self.session)
        for start in range(0, n, _BLOCK):
            rows = np.arange(start, min(start + _BLOCK, n))
            Q = space.queries(rows.tolist())
            for first in range(start, n, 16 * _BLOCK):
                S = Q @ space.queries(list(range(first, min(first + 16 * _BLOCK, n)))).T
                S[rows[:, None] >= np.arange(first, first + S.shape[1])] = -1  # each pair once
                near = np.nonzero(self.pairs.lowest <= S)
                self.pairs.add(near[0] + start, near[1] + first, S[near])
            # The rows that remain form a triangle: half of the side is a quarter of the work.
            self.progress = 1 - (1 - (start + len(rows)) / n) ** 2
        self.pairs.close()


class Pairs:
    """Pairs of rows and their similarity; past `_MOST` of them, the least similar are dropped."""

    def __init__(self) -> None:
        self.lowest = LOWEST
        self._parts: list[tuple[np.ndarray, ...]] = []
        self._count = 0

    def add(self, rows: np.ndarray, columns: np.ndarray, scores: np.ndarray) -> None:
        self._parts.append((rows.astype(np.int32), columns.astype(np.int32), scores.astype(np.float32)))
        self._count += len(rows)
        if self._count > _MOST:
            self._drop()

    def _drop(self) -> None:
        self.close()
        rows, columns, scores = self._parts[0]
        self.lowest = float(np.partition(scores, len(scores) // 2)[len(scores) // 2])
        above = scores > self.lowest
        self._parts, self._count = [(rows[above], columns[above], scores[above])], int(above.sum())

    def close(self) -> None:
        """Join the parts."""
        self._parts = [tuple(np.concatenate(part) for part in zip(*self._parts, strict=True))] if self._parts else []

    def above(self, threshold: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows of all pairs at least this similar, and how similar they are."""
        if not self._parts:
            return np.arange(0), np.arange(0), np.zeros(0, dtype=np.float32)
        rows, columns, scores = self._parts[0]
        near = scores >= threshold
        return rows[near], columns[near], scores[near]


def _joined(pairs: Iterable[tuple[int, int]], apart: Distinct) -> list[np.ndarray]:
    """Join pairs, the most similar first, unless that would join items marked as distinct."""
    joined: DisjointSet[int] = DisjointSet()
    enemies: dict[int, set[int]] = {}
    for some in apart:
        for row in some:
            enemies.setdefault(row, set()).update(set(some) - {row})
    for one, other in pairs:
        joined.add(one)
        joined.add(other)
        members, others = joined.subset(one), joined.subset(other)
        if not any(enemies.get(row, set()) & others for row in members):
            joined.merge(one, other)
    return [np.array(sorted(rows)) for rows in joined.subsets() if len(rows) > 1]


@cache
def _pixels_and_bytes(path: Path) -> tuple[int, int]:
    from PIL import Image

    try:
        with Image.open(path) as image:
            return image.width * image.height, path.stat().st_size
    except (OSError, ValueError, Image.DecompressionBombError):
        return 0, 0
