"""Metrics of a model on rows on disk, which are read in blocks."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from sklearn.preprocessing import normalize

from likewise.errors import LikewiseError
from likewise.evaluate import Evaluation, evaluate_blocks
from likewise.evaluate.evaluation import MetricName, drawn
from likewise.learn.engines.disk import DiskEngine
from likewise.learn.engines.opening import Rows, open_rows

_LARGEST_BLOCK = 16 << 20  # bytes as read; scores of all queries with a block are several times that


def evaluate_rows(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    n_queries: int | None = 1000,
    random_state: Any = 0,
    ks: Iterable[int] = (1, 10),
    metric: MetricName = "map",
    confidence: float = 0.95,
    memory_limit: Any = None,
) -> Evaluation:
    """All metrics of `n_queries` rows of X, each of which ranks all others; X is read in blocks, twice.

    Parameters
    ----------
    model : a fitted model, or None for the cosine of the rows as they are.
    X, y : rows on disk, as `open_rows` takes them or opened by it; rows without a label are left out.
    n_queries : number of queries, drawn from the rows that have a relevant one; None takes all of these.
    metric : as in `evaluate`.
    confidence : of the interval of its mean, a bootstrap over the queries.
    """
    rows = X if isinstance(X, Rows) else open_rows(X, y, memory_limit=memory_limit)
    if not isinstance(rows.engine, DiskEngine):
        raise LikewiseError(f"X is opened in {rows.where}, not on disk: metrics.evaluate is for rows in memory")
    engine, weights = rows.engine, rows.engine.row_weights
    counted = np.arange(len(engine.row_codes)) if weights is None else np.flatnonzero(weights)
    codes = engine.row_codes[counted]
    candidates = np.flatnonzero(np.diff(engine.starts)[codes] > 1)
    queries = drawn(candidates, n_queries, random_state)
    row_bytes = engine.source.shape[1] * max(engine.source.dtype.itemsize, engine.dtype.itemsize)
    room = rows.memory_limit // (8 * (row_bytes + 8 * len(queries)))
    block = max(min(_LARGEST_BLOCK // row_bytes, room), 1)
    query, gallery = (normalize, normalize) if model is None else (model.transform_query, model.transform)
    Q = query(engine.source.take(counted[queries]).astype(engine.dtype, copy=False))
    n_excluded = len(codes) - len(candidates)

    def blocks() -> Iterator[np.ndarray]:
        for part, block_rows in engine.source.blocks(block):
            inside = counted[np.searchsorted(counted, part.start) : np.searchsorted(counted, part.stop)] - part.start
            if len(inside):
                yield gallery(block_rows[inside].astype(engine.dtype, copy=False))

    y_q = codes[queries]
    return evaluate_blocks(
        Q, blocks, y_q, codes, queries, ks=ks, metric=metric, confidence=confidence, n_excluded=n_excluded
    )
