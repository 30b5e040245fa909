"""Checks of what an index is asked for: query rows, query vectors, row numbers, the number of results."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from likewise.errors import LikewiseError
from likewise.retrieval.streaming import in_float

__all__ = ["NotFoundError", "check_row", "query_rows", "query_vectors", "result_count", "row_numbers"]


class NotFoundError(LikewiseError):
    """A row, an id, a label or a picture that is not in the index."""


def query_rows(queries: Any, width: int) -> np.ndarray:
    """Raw query rows, dense and floating point; a single row is made two-dimensional."""
    if sp.issparse(queries):
        queries = queries.toarray()
    Q = np.atleast_2d(np.asarray(queries))
    if Q.ndim != 2 or Q.shape[1] != width or Q.dtype.kind not in "biuf":
        raise LikewiseError(f"queries has shape {Q.shape} and type {Q.dtype}; expected rows of {width} numbers")
    return in_float(Q)


def query_vectors(Q: Any, width: int) -> np.ndarray:
    """Query vectors; a single one is made two-dimensional."""
    Q = np.atleast_2d(np.asarray(Q))
    if Q.ndim != 2 or Q.shape[1] != width:
        raise LikewiseError(f"Q has shape {Q.shape}; expected vectors of width {width}")
    return np.asarray(Q)


def row_numbers(rows: Any, n: int) -> np.ndarray:
    """Row numbers of an index of n items; a single one is made one-dimensional."""
    rows = np.atleast_1d(np.asarray(rows))
    if rows.ndim != 1 or rows.dtype.kind not in "iu":
        raise LikewiseError(f"rows has shape {rows.shape} and type {rows.dtype}; expected row numbers")
    wrong = rows[(rows < 0) | (rows >= n)]
    if len(wrong):
        check_row(int(wrong[0]), n)
    return np.asarray(rows)


def check_row(row: int, n: int) -> int:
    """The number of a row of an index of n items."""
    if not 0 <= row < n:
        raise NotFoundError(f"row {row} is not in the index; expected 0 to {n - 1}")
    return row


def result_count(k: int, n: int) -> int:
    """The number of results from n items: k, or all of them."""
    if not isinstance(k, int | np.integer) or k < 1:
        raise LikewiseError(f"k={k!r}; expected a whole number of at least 1")
    return min(int(k), n)
