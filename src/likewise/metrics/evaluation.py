"""What people call: mean average precision and the others, and all of them in one pass."""

from __future__ import annotations

from typing import Any

import numpy as np

from likewise.errors import LikewiseError
from likewise.metrics import ranks
from likewise.metrics.ranks import Ties, ties_checked
from likewise.metrics.streaming import BLOCK_BYTES, Problem, measure

__all__ = ["mean_average_precision"]


def mean_average_precision(
    Q: Any,
    G: Any,
    y_q: Any,
    y_g: Any = None,
    *,
    ties: Ties = "expected",
    macro: bool = False,
    block_bytes: int = BLOCK_BYTES,
    n_threads: int | None = None,
) -> float:
    """Mean average precision of ranking the gallery for each query by inner product."""
    problem = Problem.of(Q, G, y_q, y_g)
    queries = _answerable(problem)
    values = measure(problem, [ranks.whole], queries, ties_checked(ties), block_bytes, n_threads)[0]
    return _mean(values, problem.relevance.code[queries] if macro else None)


def _answerable(problem: Problem) -> np.ndarray:
    """The queries that have a relevant item."""
    queries = np.flatnonzero(problem.relevance.counts())
    if not queries.size:
        raise LikewiseError("no query has a relevant item: mean average precision needs one label on both sides")
    return queries


def _mean(values: np.ndarray, code: np.ndarray | None) -> float:
    """Mean over queries or, given their labels' codes, mean over labels of the means over their queries."""
    if code is None:
        return float(values.mean())
    sizes = np.bincount(code)
    return float((np.bincount(code, weights=values)[sizes > 0] / sizes[sizes > 0]).mean())
