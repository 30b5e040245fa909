"""What an index is asked for, checked: query rows, query vectors, row numbers, how many results."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from likewise.errors import LikewiseError
from likewise.retrieval.streaming import in_float

__all__ = ["depth", "query_rows", "query_vectors", "row_numbers"]


def query_rows(queries: Any, width: int) -> np.ndarray:
    """Raw rows of some width, dense and in floating point; one row may come alone."""
    if sp.issparse(queries):
        queries = queries.toarray()
    Q = np.atleast_2d(np.asarray(queries))
    if Q.ndim != 2 or Q.shape[1] != width or Q.dtype.kind not in "biuf":
        raise LikewiseError(f"queries has shape {Q.shape} and type {Q.dtype}; expected rows of {width} numbers")
    return in_float(Q)


def query_vectors(Q: Any, width: int) -> np.ndarray:
    """Vectors of some width; one may come alone."""
    Q = np.atleast_2d(np.asarray(Q))
    if Q.ndim != 2 or Q.shape[1] != width:
        raise LikewiseError(f"Q has shape {Q.shape}; expected vectors of width {width}")
    return np.asarray(Q)


def row_numbers(rows: Any, n: int) -> np.ndarray:
    """Numbers of rows of an index of n items; one may come alone."""
    rows = np.atleast_1d(np.asarray(rows))
    if rows.ndim != 1 or rows.dtype.kind not in "iu":
        raise LikewiseError(f"rows has shape {rows.shape} and type {rows.dtype}; expected row numbers")
    wrong = rows[(rows < 0) | (rows >= n)]
    if len(wrong):
        raise LikewiseError(f"row {wrong[0]} is not in the index; expected 0 to {n - 1}")
    return np.asarray(rows)


def depth(k: int, n: int) -> int:
    """How many results of n items: k, or all there are."""
    if not isinstance(k, int | np.integer) or k < 1:
        raise LikewiseError(f"k={k!r}; expected a whole number of at least 1")
    return min(int(k), n)
