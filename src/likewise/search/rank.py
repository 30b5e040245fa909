"""The rows with the highest scores, ties in row order; at the end, the checks of what an index is asked for."""

from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from likewise.errors import LikewiseError
from likewise.search.gallery import in_float
from likewise.utils.top_k import top_k as top_columns

SLACK = 16  # candidates beyond k, so that float32 rounding cannot cost a rank
_BLOCK = 1 << 24  # scores computed at a time
_TINY = np.finfo(np.float32).tiny


class Engine(Protocol):
    """Finds candidates among some rows of V; `exact` says that nothing better is left out."""

    exact: bool
    V: Any

    def __len__(self) -> int:
        """The number of rows that are searched."""

    def candidates(self, Q: np.ndarray, k: int) -> np.ndarray:
        """Rows of at least k high scores, in no particular order; -1 where there are fewer."""


class Exact:
    """Inner products with all rows, by faiss if it is installed and by NumPy otherwise; the results are the same."""

    exact = True

    def __init__(self, V: np.ndarray) -> None:
        self.V = np.ascontiguousarray(V, dtype=np.float32)  # not copied if it is: it may be mapped from a file
        self._knn: Any = None
        try:
            import faiss
        except ImportError:
            return
        self._knn, self._inner = faiss.knn, faiss.METRIC_INNER_PRODUCT

    def __len__(self) -> int:
        return len(self.V)

    def candidates(self, Q: np.ndarray, k: int) -> np.ndarray:
        """Rows of the k highest float32 scores, in no particular order."""
        if self._knn is not None:
            return np.asarray(self._knn(Q, self.V, k, metric=self._inner)[1])
        return _largest(Q, self.V, None, k)


class Among:
    """Inner products with some of the rows: a filter is applied before ranking, and its answers are exact."""

    exact = True

    def __init__(self, V: Any, rows: np.ndarray) -> None:
        self.V, self.rows = V, rows

    def __len__(self) -> int:
        return len(self.rows)

    def candidates(self, Q: np.ndarray, k: int) -> np.ndarray:
        """Rows of the k highest float32 scores, in no particular order."""
        return _largest(Q, self.V, None, k, self.rows)


def best_rows(engine: Engine, Q: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k best rows for each query and their scores, best first, ties in row order.

    Candidates are scored again in float64. If the last candidate ties with the k-th, rows beyond it may tie too, and
    more candidates are requested.
    """
    n = len(engine)
    Q = np.ascontiguousarray(Q, dtype=np.float32)
    found, values = np.empty((len(Q), k), np.int64), np.empty((len(Q), k), np.float32)
    open_, width = np.arange(len(Q)), min(n, k + SLACK)
    while len(open_):
        rows, scores = _rescored(engine, Q[open_], width)
        found[open_], values[open_] = rows[:, :k], scores[:, :k]
        if width == n or not engine.exact:
            break
        tied = scores[:, k - 1] - scores[:, -1] <= _rounding_bound(Q[open_], scores)
        open_, width = open_[tied], min(n, 4 * width)
    return found, values


def _rescored(engine: Engine, Q: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
    rows = engine.candidates(Q, width)
    scores = np.empty(rows.shape)
    step = max(1, _BLOCK // (16 * width * Q.shape[1]))
    for i in range(0, len(Q), step):
        part = slice(i, i + step)
        scores[part] = np.einsum("qkr,qr->qk", engine.V[rows[part]].astype(np.float64), Q[part].astype(np.float64))
    scores[rows < 0] = -np.inf
    return _by_score(rows, scores)


def _by_score(rows: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both sorted along the last axis: highest score first, ties in row order."""
    order = np.lexsort((rows, -scores), axis=-1)
    return np.take_along_axis(rows, order, axis=1), np.take_along_axis(scores, order, axis=1)


def _rounding_bound(Q: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """A bound on the float32 rounding error: a few units in the last place of the largest terms."""
    size = np.maximum(np.linalg.norm(Q, axis=1), np.abs(scores).max(axis=1))
    return 4 * np.finfo(np.float32).eps * np.sqrt(Q.shape[1]) * size


def cosine_rows(
    Q: np.ndarray, X: np.ndarray, norms: np.ndarray, k: int, among: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The k rows of X, or those `among` them, with the highest cosines, best first; X may be on disk."""
    Q = np.asarray(Q, np.float32)
    Q = Q / np.maximum(np.linalg.norm(Q, axis=1, keepdims=True), _TINY)
    norms = np.maximum(norms, _TINY)
    rows = _largest(Q, X, 1 / norms, min(len(X) if among is None else len(among), k + SLACK), among)
    scores = np.einsum("qkd,qd->qk", X[rows].astype(np.float64), Q.astype(np.float64)) / norms[rows]
    rows, scores = _by_score(rows, scores)
    return rows[:, :k], scores[:, :k].astype(np.float32)


def _largest(
    Q: np.ndarray, X: np.ndarray, scale: np.ndarray | None, k: int, among: np.ndarray | None = None
) -> np.ndarray:
    """Rows of the k largest Q @ (scale · X).T, by blocks of queries; only rows `among` these."""
    if among is None:
        X = X if X.dtype == np.float32 else np.asarray(X, np.float32)
    elif scale is not None:
        scale = scale[among]
    step = max(1, _BLOCK // max(1, len(X) if among is None else len(among)))
    found = np.empty((len(Q), k), np.int64)
    for i in range(0, len(Q), step):
        S = Q[i : i + step] @ X.T if among is None else _products(Q[i : i + step], X, among)
        if scale is not None:
            S *= scale.astype(np.float32)
        found[i : i + step] = top_columns(S, k, ordered=False)
    return found if among is None else among[found]


def _products(Q: np.ndarray, X: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Q @ X[rows].T without a copy of all those rows."""
    S = np.empty((len(Q), len(rows)), np.float32)
    step = max(1, _BLOCK // X.shape[1])
    for i in range(0, len(rows), step):
        np.matmul(Q, np.asarray(X[rows[i : i + step]], np.float32).T, out=S[:, i : i + step])
    return S


def top_k(S: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Columns of the k largest entries of each row of S and these entries, largest first, ties by column."""
    top = top_columns(S, k)
    return top, np.take_along_axis(S, top, axis=1)


def without(own: np.ndarray, rows: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each result list without the query's own row, or without its last entry if that row is not in it."""
    drop = rows == own[:, None]
    drop[~drop.any(axis=1), -1] = True
    shape = (len(rows), rows.shape[1] - 1)
    return rows[~drop].reshape(shape), scores[~drop].reshape(shape)


def others(own: np.ndarray, rows: np.ndarray, scores: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The first k results of each list without the query's own row.

    Where a filter leaves one query fewer results than another, its list ends with rows of -1.
    """
    is_own = rows == own[:, None]
    order = np.argsort(is_own, axis=1, kind="stable")
    rows, scores = np.where(is_own, -1, rows), np.where(is_own, np.float32(-np.inf), scores)
    rows, scores = np.take_along_axis(rows, order, axis=1)[:, :k], np.take_along_axis(scores, order, axis=1)[:, :k]
    kept = (rows >= 0).any(axis=0)
    return rows[:, kept], scores[:, kept]


def nothing(n: int) -> tuple[np.ndarray, np.ndarray]:
    """No results for n queries."""
    return np.empty((n, 0), np.int64), np.empty((n, 0), np.float32)


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


def pasted_vector(text: str) -> np.ndarray:
    """Numbers as somebody pastes them: a JSON list, or separated by commas, semicolons or blanks."""
    inner = text.strip()
    inner = inner[1:-1] if inner[:1] == "[" and inner[-1:] == "]" else inner
    words = inner.replace(",", " ").replace(";", " ").split()
    try:
        return np.array([float(word) for word in words])
    except ValueError as error:
        raise LikewiseError(f"vector is {text[:40]!r}; expected numbers such as [0.1, 0.5]") from error


def query_vector(values: Any, width: int) -> np.ndarray:
    """Raw features of one query: finite numbers, as many as the model takes."""
    vector = np.asarray(values, dtype=np.float64)
    if vector.shape != (width,):
        raise LikewiseError(f"vector has {vector.size} numbers; expected {width}")
    if not (np.abs(vector) <= np.finfo(np.float32).max).all():  # false for NaN, too
        raise LikewiseError("vector has NaN or infinity; expected finite numbers")
    return vector.astype(np.float32)


def query_vectors(Q: Any, width: int) -> np.ndarray:
    """Query vectors; a single one is made two-dimensional."""
    Q = np.atleast_2d(np.asarray(Q))
    if Q.ndim != 2 or Q.shape[1] != width:
        raise LikewiseError(f"Q has shape {Q.shape}; expected vectors of width {width}")
    return np.asarray(Q)


def check_one_width(queries: int, gallery: int) -> None:
    """Raise if a row of the gallery cannot be a query."""
    if queries != gallery:
        raise LikewiseError(
            f"queries have {queries} numbers and the gallery {gallery}: a row of the gallery cannot be a query"
        )


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
