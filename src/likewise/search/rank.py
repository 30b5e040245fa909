"""Ranking: the rows of a gallery with the highest scores for each query, ties in row order."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike

from likewise.errors import LikewiseError
from likewise.utils.arrays import dense, to_host
from likewise.utils.arrays import top_k as top_columns

if TYPE_CHECKING:
    from likewise.search.index import BaseIndex

SLACK = 16  # candidates beyond k, so that float32 rounding cannot cost a rank
UNLIKE = 0.5  # weight of unwanted examples (Rocchio feedback; the classical 0.15 to 0.25 is too timid for a click)
_MOST_RESCORED = 20_000  # results that are scored again
_BLOCK = 1 << 24  # scores computed at a time
_ROWS = 1 << 16  # gallery rows read at a time, so that a gallery on disk is read piece by piece
_ONE_THREAD = 1 << 26  # products: below, threads cost more than they save, much more on a busy machine
_TINY = np.finfo(np.float32).tiny
SpaceName = Literal["learned", "raw"]


# -- Spaces ------------------------------------------------------------------------------------------------------------


class Space:
    """One similarity of the items of an index: "learned" is that of its model, "raw" the cosine of raw features.

    `version` numbers the spaces of an index that is taught again and again.
    """

    def __init__(self, index: BaseIndex, kind: SpaceName = "learned", version: int = 0) -> None:
        if kind not in ("learned", "raw"):
            raise LikewiseError(f"space={kind!r}; expected 'learned' or 'raw'")
        self.index, self.kind, self.version = index, kind, version
        self.G = index.vectors if kind == "learned" else index.raw
        self.norms = None if kind == "learned" else np.maximum(index.norms, _TINY)

    def __len__(self) -> int:
        return len(self.G)

    @property
    def calibrated(self) -> bool:
        """Whether scores have probabilities."""
        return self.kind == "learned" and self.index.model.calibration_ is not None

    @property
    def has_confidence(self) -> bool:
        """Whether scores have probabilities, or queries a novelty."""
        return self.calibrated or (self.kind == "learned" and self.index.model.knows_classes)

    @property
    def approximate(self) -> bool:
        """Whether `rank` may miss rows."""
        return self.kind == "learned" and bool(self.index.approximate) and not self.index.engine.exact

    def embed(self, X: ArrayLike) -> np.ndarray:
        """Query vectors of raw rows."""
        if self.kind == "learned":
            return self.index._embedded_queries(X)
        Q = np.asarray(query_rows(X, self.G.shape[1]), np.float32)
        return Q / np.maximum(np.linalg.norm(Q, axis=1, keepdims=True), _TINY)

    def queries(self, rows: np.ndarray | list[int]) -> np.ndarray:
        """Query vectors of gallery rows."""
        model = self.index.model
        if self.kind == "raw":
            return self.gallery(rows)
        if model.symmetric:
            return np.asarray(self.G[rows])
        taken, width = model.n_features_in_, self.index.raw.shape[1]
        if taken != width:
            what = "a row of the gallery cannot be a query"
            raise LikewiseError(f"queries have {taken} numbers and the gallery {width}: {what}")
        return model._query_side(in_float(self.index.raw[rows]))

    def gallery(self, rows: np.ndarray | list[int] | slice) -> np.ndarray:
        """Gallery vectors of some rows, or of a slice of them."""
        V = np.asarray(self.G[rows], dtype=np.float32)
        return V if self.norms is None else np.asarray(V / self.norms[rows][:, None], np.float32)

    def scores(self, Q: np.ndarray) -> np.ndarray:
        """Similarity of each query vector to each item, (n_q, n)."""
        S = _products(np.asarray(Q, np.float32), self.G)
        return S if self.norms is None else np.asarray(S / self.norms, np.float32)

    def rank(
        self,
        Q: np.ndarray,
        k: int,
        among: np.ndarray | None = None,
        excluded: np.ndarray | None = None,
        *,
        exact: bool = False,
        scores: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """The k best rows for each query vector, and their scores, best first, both (n_q, k).

        Only rows `among` these are ranked, and rows `excluded` (n_q, m) of each query are left out. If one query has
        fewer results than another, its rows end with -1. With `among` or `exact`, an approximate index misses nothing.
        `scores` (n_q, n) are those of all items, if they are known.
        """
        Q = np.atleast_2d(np.asarray(Q, np.float32))
        if Q.shape[1] != self.G.shape[1]:
            raise LikewiseError(f"Q has shape {Q.shape}; expected vectors of width {self.G.shape[1]}")
        width = min(len(self.G) if among is None else len(among), k + (0 if excluded is None else excluded.shape[1]))
        if not width:
            return np.empty((len(Q), 0), np.int64), np.empty((len(Q), 0), np.float32)
        by_engine = among is None and scores is None and self.kind == "learned" and not (exact and self.approximate)
        engine = self.index.engine if by_engine else Exact(self.G, among, self.norms, scores)
        rows, values = best_rows(engine, Q, width)
        if excluded is None:
            return rows, values
        rows, values = without(excluded, rows, values, k)
        filled = (rows >= 0).any(axis=0)
        return rows[:, filled], values[:, filled]


def rank_scores(
    S: np.ndarray, k: int, among: np.ndarray | None = None, excluded: Sequence[int] = ()
) -> tuple[np.ndarray, np.ndarray]:
    """The k best of the scores (n,) of all rows, and these scores; only `among` some rows, and none of `excluded`."""
    rows = np.arange(len(S)) if among is None else among
    rows = rows[~np.isin(rows, excluded)] if len(excluded) else rows
    best, scores = top_k(S[None, rows], min(k, len(rows)))
    return rows[best[0]], scores[0]


def mean_query(like: np.ndarray, unlike: np.ndarray | None = None) -> np.ndarray:
    """The query vector (r,) of examples to be like, (n, r), and of others to be unlike."""
    parts = [] if not len(like) else [like.mean(axis=0)]
    if unlike is not None and len(unlike):
        parts.append((-UNLIKE if len(like) else -1.0) * unlike.mean(axis=0))
    return np.asarray(np.sum(parts, axis=0), dtype=np.float32)


# -- Engines -----------------------------------------------------------------------------------------------------------


class Engine(Protocol):
    """Finds candidates among some rows of V; `exact` says that nothing better is left out."""

    exact: bool
    V: Any

    def __len__(self) -> int:
        """The number of rows that are searched."""

    def candidates(self, Q: np.ndarray, k: int) -> np.ndarray:
        """Rows of at least k high scores, in no particular order; -1 where there are fewer."""


class Exact:
    """Inner products with all rows of V, or only with some of them; divided by the norms of the rows if given.

    All rows are searched by faiss if it is installed, and by NumPy otherwise; the results are the same.
    """

    exact = True

    def __init__(
        self, V: Any, rows: np.ndarray | None = None, norms: np.ndarray | None = None, scores: np.ndarray | None = None
    ) -> None:
        self.V, self.rows, self.norms, self._scores = V, rows, norms, scores
        self._faiss: Any = None
        if any(part is not None for part in (rows, norms, scores)) or not isinstance(V, np.ndarray):
            return
        self.V = np.ascontiguousarray(V, dtype=np.float32)  # not copied if it is: it may be mapped from a file
        with suppress(ImportError):
            import faiss

            self._faiss = faiss

    def __len__(self) -> int:
        return len(self.V) if self.rows is None else len(self.rows)

    def candidates(self, Q: np.ndarray, k: int) -> np.ndarray:
        """Rows of the k highest float32 scores, in no particular order."""
        if k == len(self):
            return np.tile(np.arange(k) if self.rows is None else self.rows, (len(Q), 1))
        if self._faiss is not None and 8 * k < len(self):
            faiss, threads = self._faiss, self._faiss.omp_get_max_threads()
            if len(Q) * self.V.size < _ONE_THREAD:
                faiss.omp_set_num_threads(1)
            try:
                return np.asarray(faiss.knn(Q, self.V, k, metric=faiss.METRIC_INNER_PRODUCT)[1])
            finally:
                faiss.omp_set_num_threads(threads)
        step = max(1, _BLOCK // len(self))
        blocks = [slice(i, i + step) for i in range(0, len(Q), step)]
        top = np.concatenate([top_columns(self.scores(Q, part), k, ordered=False) for part in blocks])
        return top if self.rows is None else self.rows[top]

    def scores(self, Q: np.ndarray, part: slice = slice(None)) -> np.ndarray:
        """Scores in float32 of a part of the queries with the rows that are searched."""
        rows = slice(None) if self.rows is None else self.rows
        if self._scores is not None:
            return np.asarray(self._scores[part][:, rows])
        S = _products(Q[part], self.V, self.rows)
        return S if self.norms is None else np.asarray(S / self.norms[rows], np.float32)


def best_rows(engine: Engine, Q: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k best rows for each query and their scores, best first, ties in row order.

    Candidates are scored again in float64, unless they are very many. If the last candidate ties with the k-th, rows
    beyond it may tie too, and more candidates are requested.
    """
    n = len(engine)
    Q = np.ascontiguousarray(Q, dtype=np.float32)
    if isinstance(engine, Exact) and k > _MOST_RESCORED:
        top, scores = top_k(engine.scores(Q), k)
        return (top if engine.rows is None else engine.rows[top]), scores
    best, values = np.empty((len(Q), k), np.int64), np.empty((len(Q), k), np.float32)
    open_, width = np.arange(len(Q)), min(n, k + SLACK)
    while len(open_):
        rows, scores = _rescored(engine, Q[open_], width)
        best[open_], values[open_] = rows[:, :k], scores[:, :k]
        if width == n or not engine.exact:
            break
        # A bound on the float32 rounding error: a few units in the last place of the largest terms.
        size = np.maximum(np.linalg.norm(Q[open_], axis=1), np.abs(scores).max(axis=1))
        rounding = 4 * np.finfo(np.float32).eps * np.sqrt(Q.shape[1]) * size
        tied = scores[:, k - 1] - scores[:, -1] <= rounding
        open_, width = open_[tied], min(n, 4 * width)
    return best, values


def _rescored(engine: Engine, Q: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
    rows = engine.candidates(Q, width)
    scores, norms = np.empty(rows.shape), getattr(engine, "norms", None)
    step = max(1, _BLOCK // (16 * width * Q.shape[1]))
    columns = max(1, _BLOCK // (16 * Q.shape[1]))  # of a single query that asks for very many
    for i in range(0, len(Q), step):
        part = Q[i : i + step].astype(np.float64)
        for j in range(0, rows.shape[1], columns):
            near = rows[i : i + step, j : j + columns]
            S = np.einsum("qkr,qr->qk", engine.V[near].astype(np.float64), part)
            scores[i : i + step, j : j + columns] = S if norms is None else S / norms[near]
    scores[rows < 0] = -np.inf
    order = np.lexsort((rows, -scores), axis=-1)
    return np.take_along_axis(rows, order, axis=1), np.take_along_axis(scores, order, axis=1)


def _products(Q: np.ndarray, V: Any, rows: np.ndarray | None = None) -> np.ndarray:
    """Q @ V[rows].T, or of all rows, without a copy of all those rows."""
    if rows is None and hasattr(V, "scores"):  # vectors after a lesson
        return np.asarray(V.scores(Q))
    if rows is None and V.dtype == np.float32:
        return np.asarray(Q @ V.T)
    n = len(V) if rows is None else len(rows)
    S = np.empty((len(Q), n), np.float32)
    step = min(_ROWS, max(1, _BLOCK // V.shape[1]))
    for i in range(0, n, step):
        part = slice(i, i + step)
        np.matmul(Q, np.asarray(V[part if rows is None else rows[part]], np.float32).T, out=S[:, part])
    return S


def top_k(S: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Columns of the k largest entries of each row of S and these entries, largest first, ties by column."""
    top = top_columns(S, k)
    return top, np.take_along_axis(S, top, axis=1)


def without(excluded: np.ndarray, rows: np.ndarray, scores: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The first k results of each query without those excluded; a list that is shorter than another ends with -1."""
    if excluded.shape[1] == 1:
        is_out = rows == excluded
    else:
        is_out = np.array([np.isin(near, others) for near, others in zip(rows, excluded, strict=True)])
    order = np.argsort(is_out, axis=1, kind="stable")
    rows, scores = np.where(is_out, -1, rows), np.where(is_out, np.float32(-np.inf), scores)
    return np.take_along_axis(rows, order, axis=1)[:, :k], np.take_along_axis(scores, order, axis=1)[:, :k]


# -- Checks of queries -------------------------------------------------------------------------------------------------


class NotFoundError(LikewiseError):
    """A row, an id, a label or a picture that is not in the index."""


def query_rows(queries: ArrayLike, width: int) -> np.ndarray:
    """Raw query rows, dense and floating point; a single row is made two-dimensional."""
    Q = np.atleast_2d(np.asarray(dense(to_host(queries))))
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


def query_vector(values: ArrayLike, width: int) -> np.ndarray:
    """Raw features of one query: finite numbers, as many as the model takes."""
    vector = np.asarray(values, dtype=np.float64)
    if vector.shape != (width,):
        raise LikewiseError(f"vector has {vector.size} numbers; expected {width}")
    if not (np.abs(vector) <= np.finfo(np.float32).max).all():  # false for NaN, too
        raise LikewiseError("vector has NaN or infinity; expected finite numbers")
    return vector.astype(np.float32)


def row_numbers(rows: ArrayLike, n: int) -> np.ndarray:
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


def in_float(X: np.ndarray) -> np.ndarray:
    """X in float32 or float64, as models take it."""
    return np.asarray(X) if X.dtype in (np.float32, np.float64) else np.asarray(X, np.float32)
