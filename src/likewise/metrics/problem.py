"""What is to be ranked: embeddings of both sides, checked, and which items are relevant to which query."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from likewise.errors import LikewiseError

__all__ = ["Problem", "Relevance"]


@dataclass(frozen=True)
class Relevance:
    """Which gallery items are relevant to a query: those of its label, but never the query itself."""

    code: np.ndarray  # of each query: its label as a number from 0
    items: np.ndarray  # gallery items, label after label
    bounds: np.ndarray  # where each label begins in `items`, and the end
    one_set: bool  # the queries are the gallery

    @classmethod
    def by_label(cls, y_q: np.ndarray, y_g: np.ndarray | None) -> Relevance:
        """Items of the query's label are relevant; without y_g the queries are the gallery."""
        code, gallery = _encoded(y_q, y_g)
        sizes = np.bincount(gallery, minlength=int(code.max()) + 1)
        bounds = np.concatenate([[0], np.cumsum(sizes)])
        return cls(code, np.argsort(gallery, kind="stable"), bounds, y_g is None)

    def of(self, query: int) -> np.ndarray:
        """The gallery items relevant to one query."""
        label = self.code[query]
        items = self.items[self.bounds[label] : self.bounds[label + 1]]
        return items[items != query] if self.one_set else items

    def counts(self, queries: Any = slice(None)) -> np.ndarray:
        """Number of relevant items of each query."""
        return np.diff(self.bounds)[self.code[queries]] - self.one_set


@dataclass(frozen=True)
class Problem:
    """Embeddings of both sides, in one dtype, and the relevant items of each query."""

    Q: Any
    G: Any
    relevance: Relevance

    @classmethod
    def of(cls, Q: Any, G: Any, y_q: Any, y_g: Any = None) -> Problem:
        """Check what came; without `y_g`, Q and G are the two sides of the same rows."""
        Q, G = _embeddings("Q", Q), _embeddings("G", G)
        if Q.shape[1] != G.shape[1]:
            widths = f"Q has {Q.shape[1]} columns and G {G.shape[1]}"
            raise LikewiseError(f"{widths}: an inner product needs both of one width")
        if y_g is None and Q.shape[0] != G.shape[0]:
            rows = f"Q has {Q.shape[0]} rows and G {G.shape[0]}"
            raise LikewiseError(f"{rows}: without y_g they must be two sides of the same rows")
        dtype = np.result_type(Q.dtype, G.dtype)
        y_q, y_g = _labels("y_q", y_q, "Q", Q), None if y_g is None else _labels("y_g", y_g, "G", G)
        return cls(Q.astype(dtype, copy=False), G.astype(dtype, copy=False), Relevance.by_label(y_q, y_g))

    def negated_scores(self, queries: np.ndarray) -> np.ndarray:
        """Minus the inner products of some queries with all of the gallery, in the dtype of the embeddings."""
        S: Any = -self.Q[queries] @ self._gallery
        return S if isinstance(S, np.ndarray) else S.toarray()

    @cached_property
    def _gallery(self) -> Any:
        return self.G.T if isinstance(self.G, np.ndarray) else self.G.T.tocsr()

    @property
    def bytes_a_score(self) -> int:
        """A score and whether it is finite; of two sparse sides also its place, and the score once more."""
        size = int(self.G.dtype.itemsize)
        return size + 1 if isinstance(self.Q, np.ndarray) else 2 * size + 9


def _embeddings(name: str, rows: Any) -> Any:
    """Rows as a float matrix that BLAS can read, float32 and float64 as they are; or as CSR."""
    sparse = sp.issparse(rows)
    rows = rows.tocsr() if sparse else _matrix(name, rows)
    if rows.dtype.kind not in "biuf":
        raise LikewiseError(f"{name} has dtype {rows.dtype}: embeddings must be real numbers")
    if rows.ndim != 2 or 0 in rows.shape:
        raise LikewiseError(f"{name} has shape {rows.shape}: expected at least one row and one column")
    rows = rows.astype(np.float32 if rows.dtype in (np.float16, np.float32) else np.float64, copy=False)
    values = rows.data if sparse else rows
    if not np.isfinite(values).all():
        raise LikewiseError(f"{name} contains NaN or infinity: every embedding must be finite")
    # a strided matrix is copied once here, not by every product
    return rows if sparse or values.flags.forc else np.ascontiguousarray(rows)


def _matrix(name: str, rows: Any) -> np.ndarray:
    try:
        return np.asarray(rows)
    except ValueError:  # numpy's sentence is about "inhomogeneous shapes"
        raise LikewiseError(f"{name} has rows of unequal length: embeddings are a matrix") from None


def _labels(name: str, y: Any, rows_name: str, rows: Any) -> np.ndarray:
    y = np.asarray(y)
    if y.ndim != 1 or y.shape[0] != rows.shape[0]:
        shapes = f"{name} has shape {y.shape} and {rows_name} {rows.shape[0]} rows"
        raise LikewiseError(f"{shapes}: expected one label a row")
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise LikewiseError(f"{name} contains NaN or infinity: every row needs a label")
    return y


def _encoded(y_q: np.ndarray, y_g: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Labels of both sides as numbers from 0."""
    if y_g is not None and _family(y_q) != _family(y_g):
        families = f"y_q holds {_family(y_q)} and y_g {_family(y_g)}"
        raise LikewiseError(f"{families}: no label could match, give both sides labels of one type")
    try:
        codes = np.unique(y_q if y_g is None else np.concatenate([y_q, y_g]), return_inverse=True)[1]
    except TypeError:
        raise LikewiseError("the labels mix types: expected all numbers or all strings") from None
    return codes[: y_q.size], codes if y_g is None else codes[y_q.size :]


def _family(y: np.ndarray) -> str:
    """What kind of labels these are; a column of objects goes by its first."""
    kind = y.dtype.kind if y.dtype.kind != "O" else np.asarray(y[0]).dtype.kind
    return {"U": "strings", "S": "bytes", "M": "dates", "O": "objects"}.get(kind, "numbers")
