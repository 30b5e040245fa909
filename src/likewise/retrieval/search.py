"""Which rows score highest: exact by default, ties by row number; approximate only on request."""

from __future__ import annotations

from typing import Any

import numpy as np

from likewise.errors import LikewiseError, MissingExtraError

__all__ = ["Approximate", "Exact", "best_rows", "cosine_rows", "measured_recall", "without"]

SLACK = 16  # candidates beyond k, so that rounding in float32 cannot cost a place
_BLOCK = 1 << 24  # scores computed at a time
# Below this many items a graph is small and good; above it the lists of IVF are built in a fraction of the time.
IVF_FROM = 500_000


class Exact:
    """Inner products of all rows: faiss where it is installed, numpy otherwise; both give the same answer."""

    def __init__(self, V: np.ndarray) -> None:
        self.V = V
        self._flat: Any = None
        try:
            import faiss
        except ImportError:
            return
        self._flat = faiss.IndexFlatIP(V.shape[1])
        self._flat.add(V)

    def candidates(self, Q: np.ndarray, k: int) -> np.ndarray:
        """Rows of the k highest scores in float32, in no certain order."""
        if self._flat is not None:
            return np.asarray(self._flat.search(Q, k)[1])
        return _largest(Q, self.V, None, k)


class Approximate:
    """faiss HNSW or IVF; what it finds among its candidates is scored exactly."""

    def __init__(self, V: np.ndarray, kind: str | bool, index: Any = None) -> None:
        self.kind = _kind(kind, len(V))
        self.V = V
        self.index = _built(V, self.kind) if index is None else index

    def candidates(self, Q: np.ndarray, k: int) -> np.ndarray:
        """About k rows with high scores; -1 where fewer were found."""
        return np.asarray(self.index.search(Q, k)[1])


def best_rows(engine: Exact | Approximate, Q: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k best rows for each query and their scores, best first, equal scores by row number.

    Candidates are scored again in float64. Where the last candidate scores like the k-th the ties may go on beyond
    it, and more are asked for.
    """
    n = len(engine.V)
    Q = np.ascontiguousarray(Q, dtype=np.float32)
    found, values = np.empty((len(Q), k), np.int64), np.empty((len(Q), k), np.float32)
    open_, width = np.arange(len(Q)), min(n, k + SLACK)
    while len(open_):
        rows, scores = _ordered(engine, Q[open_], width)
        found[open_], values[open_] = rows[:, :k], scores[:, :k]
        if width == n or isinstance(engine, Approximate):
            break
        tied = scores[:, k - 1] - scores[:, -1] <= _rounding(Q[open_], scores)
        open_, width = open_[tied], min(n, 4 * width)
    return found, values


def _ordered(engine: Exact | Approximate, Q: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
    rows = engine.candidates(Q, width)
    scores = np.empty(rows.shape)
    step = max(1, _BLOCK // (16 * width * Q.shape[1]))
    for i in range(0, len(Q), step):
        part = slice(i, i + step)
        scores[part] = np.einsum("qkr,qr->qk", engine.V[rows[part]].astype(np.float64), Q[part].astype(np.float64))
    scores[rows < 0] = -np.inf
    order = np.lexsort((rows, -scores), axis=-1)
    return np.take_along_axis(rows, order, axis=1), np.take_along_axis(scores, order, axis=1)


def _rounding(Q: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """A bound on what float32 may have got wrong: some units in the last place of the largest terms."""
    size = np.maximum(np.linalg.norm(Q, axis=1), np.abs(scores).max(axis=1))
    return 4 * np.finfo(np.float32).eps * np.sqrt(Q.shape[1]) * size


def cosine_rows(Q: np.ndarray, X: np.ndarray, norms: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k rows of X with the highest cosines, best first; X may be on disk and is not copied as a whole."""
    Q = np.asarray(Q, np.float32)
    Q = Q / np.maximum(np.linalg.norm(Q, axis=1, keepdims=True), np.finfo(np.float32).tiny)
    rows = _largest(Q, X, 1 / np.maximum(norms, np.finfo(np.float32).tiny), min(len(X), k + SLACK))
    scores = np.einsum("qkd,qd->qk", X[rows].astype(np.float64), Q.astype(np.float64))
    scores /= np.maximum(norms[rows], np.finfo(np.float32).tiny)
    order = np.lexsort((rows, -scores), axis=-1)[:, :k]
    return np.take_along_axis(rows, order, axis=1), np.take_along_axis(scores, order, axis=1).astype(np.float32)


def _largest(Q: np.ndarray, X: np.ndarray, scale: np.ndarray | None, k: int) -> np.ndarray:
    """Rows of the k largest Q @ (scale · X).T, by blocks of queries."""
    X = X if X.dtype == np.float32 else np.asarray(X, np.float32)
    step = max(1, _BLOCK // len(X))
    found = np.empty((len(Q), k), np.int64)
    for i in range(0, len(Q), step):
        S = Q[i : i + step] @ X.T
        if scale is not None:
            S *= scale.astype(np.float32)
        found[i : i + step] = np.argpartition(-S, k - 1, axis=1)[:, :k] if k < len(X) else np.arange(k)
    return found


def measured_recall(engine: Approximate, Q: np.ndarray, k: int = 10) -> float:
    """The share of the exact k best that the engine finds for the queries Q."""
    k = min(k, len(engine.V))
    exact, found = best_rows(Exact(engine.V), Q, k)[0], best_rows(engine, Q, k)[0]
    return float(np.mean([len(np.intersect1d(a, b)) / k for a, b in zip(exact, found, strict=True)]))


def _kind(asked: str | bool, n: int) -> str:
    if asked is True:
        return "hnsw" if n < IVF_FROM else "ivf"
    if asked not in ("hnsw", "ivf"):
        raise LikewiseError(f"approximate={asked!r}: expected False, True, 'hnsw' or 'ivf'")
    return str(asked)


def _built(V: np.ndarray, kind: str) -> Any:
    try:
        import faiss
    except ImportError as error:
        raise MissingExtraError("approximate search", "serve") from error
    index: Any
    if kind == "hnsw":
        index = faiss.IndexHNSWFlat(V.shape[1], 32, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction, index.hnsw.efSearch = 200, 128
    else:
        lists = int(max(1, min(4 * np.sqrt(len(V)), len(V) / 40)))
        index = faiss.IndexIVFFlat(faiss.IndexFlatIP(V.shape[1]), V.shape[1], lists, faiss.METRIC_INNER_PRODUCT)
        index.train(V)
        index.nprobe = max(1, lists // 16)
    index.add(V)
    return index


def without(own: np.ndarray, rows: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each line without the query's own row, or without its last place if it is not there."""
    drop = rows == own[:, None]
    drop[~drop.any(axis=1), -1] = True
    shape = (len(rows), rows.shape[1] - 1)
    return rows[~drop].reshape(shape), scores[~drop].reshape(shape)
