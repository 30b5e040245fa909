"""Evaluation of a model on rows that stay on disk: queries drawn at random rank all rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from sklearn.preprocessing import normalize

from likewise.data.disk import DiskEngine
from likewise.data.rows import Rows, open_rows
from likewise.data.sources import Source
from likewise.errors import LikewiseError
from likewise.metrics import Evaluation, evaluate_blocks
from likewise.metrics.evaluation import drawn

__all__ = ["evaluate_rows"]

_LARGEST_BLOCK = 16 << 20  # bytes as read; scores of all queries with a block are several times that


def evaluate_rows(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    n_queries: int | None = 1000,
    random_state: Any = 0,
    ks: Iterable[int] = (1, 10),
    confidence: float = 0.95,
    memory_limit: Any = None,
) -> Evaluation:
    """All metrics of `n_queries` rows of X, each of which ranks all others; X is read in blocks, twice.

    Parameters
    ----------
    model : a fitted model, or None for the cosine of the rows as they are.
    X, y : rows on disk, as `open_rows` takes them or opened by it; rows without a label are left out.
    n_queries : number of queries, drawn from the rows that have a relevant one; None takes all of these.
    confidence : of the interval of the mean average precision, a bootstrap over the queries.
    """
    rows = X if isinstance(X, Rows) else open_rows(X, y, memory_limit=memory_limit)
    if not isinstance(rows.engine, DiskEngine):
        raise LikewiseError(f"X is opened in {rows.where}, not on disk: metrics.evaluate is for rows in memory")
    engine, weights = rows.engine, rows.engine.row_weights
    kept = np.arange(len(engine.row_codes)) if weights is None else np.flatnonzero(weights)
    codes = engine.row_codes[kept]
    candidates = np.flatnonzero(np.diff(engine.starts)[codes] > 1)
    queries = candidates if n_queries is None else drawn(candidates, n_queries, random_state)
    sides = _Sides(model, engine.source, engine.dtype)
    room = rows.memory_limit // (8 * (sides.row_bytes + 8 * len(queries)))
    block = max(min(_LARGEST_BLOCK // sides.row_bytes, room), 1)
    return evaluate_blocks(
        sides.query(engine.source.take(kept[queries])),
        lambda: sides.gallery(block, kept),
        codes[queries],
        codes,
        queries,
        ks=ks,
        confidence=confidence,
        n_excluded=len(codes) - len(candidates),
    )


class _Sides:
    """Rows of a source on both sides of a model."""

    def __init__(self, model: Any, source: Source, dtype: np.dtype) -> None:
        self.model, self.source, self.dtype = model, source, dtype
        self.row_bytes = source.shape[1] * max(source.dtype.itemsize, self.dtype.itemsize)

    def query(self, rows: np.ndarray) -> np.ndarray:
        rows = rows.astype(self.dtype, copy=False)
        return np.asarray(normalize(rows) if self.model is None else self.model.transform_query(rows))

    def gallery(self, block_rows: int, kept: np.ndarray) -> Iterator[np.ndarray]:
        """The gallery side of the rows that count, block by block."""
        for part, rows in self.source.blocks(block_rows):
            inside = kept[np.searchsorted(kept, part.start) : np.searchsorted(kept, part.stop)] - part.start
            if not len(inside):
                continue
            rows = rows[inside].astype(self.dtype, copy=False)
            yield np.asarray(normalize(rows) if self.model is None else self.model.transform(rows))
