"""How well a model ranks rows that stay on disk: some queries, drawn at random, against all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from likewise.core.kernels import unit_rows
from likewise.data.memory_limit import DEFAULT_LIMIT, in_bytes
from likewise.data.rows import labelled_source
from likewise.data.sources import Source, working_dtype
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
    """Every measure of `n_queries` rows of X, each of which ranks all others; X is read in blocks, twice.

    Parameters
    ----------
    model : a fitted model, or None for the cosine of the rows as they are.
    X, y : a `.npy` file, a feature store (whose labels serve if y is None), a memmap or blocks, as `SLR.fit` takes
        them; rows without a label are left out.
    n_queries : how many rows to ask, drawn from those that have a relevant one; None asks all of them.
    confidence : of the interval of the mean average precision, a bootstrap over the queries asked.
    """
    source, classes, codes, weights = labelled_source(X, y)
    kept = np.arange(len(codes)) if weights is None else np.flatnonzero(weights)
    codes = codes[kept]
    candidates = np.flatnonzero(np.bincount(codes, minlength=len(classes))[codes] > 1)
    queries = candidates if n_queries is None else drawn(candidates, n_queries, random_state)
    sides = _Sides(model, source)
    limit = in_bytes(DEFAULT_LIMIT if memory_limit is None else memory_limit)
    block = max(min(_LARGEST_BLOCK // sides.row_bytes, limit // (8 * (sides.row_bytes + 8 * len(queries)))), 1)
    return evaluate_blocks(
        sides.query(source.take(kept[queries])),
        lambda: sides.gallery(block, kept),
        codes[queries],
        codes,
        queries,
        ks=ks,
        confidence=confidence,
        n_excluded=len(codes) - len(candidates),
    )


class _Sides:
    """Rows of a source to both sides of a model."""

    def __init__(self, model: Any, source: Source) -> None:
        self.model, self.source, self.dtype = model, source, working_dtype(source.dtype)
        self.row_bytes = source.shape[1] * max(source.dtype.itemsize, self.dtype.itemsize)

    def query(self, rows: np.ndarray) -> np.ndarray:
        rows = rows.astype(self.dtype, copy=False)
        return np.asarray(unit_rows(rows) if self.model is None else self.model.transform_query(rows))

    def gallery(self, block_rows: int, kept: np.ndarray) -> Iterator[np.ndarray]:
        """The gallery side of the rows that count, block by block."""
        for part, rows in self.source.blocks(block_rows):
            inside = kept[np.searchsorted(kept, part.start) : np.searchsorted(kept, part.stop)] - part.start
            if not len(inside):
                continue
            rows = rows[inside].astype(self.dtype, copy=False)
            yield np.asarray(unit_rows(rows) if self.model is None else self.model.transform(rows))
