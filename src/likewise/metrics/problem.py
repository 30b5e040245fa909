"""A ranking problem: checked query and gallery embeddings, and the relevant items of each query."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from likewise.errors import LikewiseError

__all__ = ["LabelRelevance", "RankingProblem"]


@dataclass(frozen=True)
class LabelRelevance:
    """The gallery items relevant to a query: those with its label, except the query itself."""

    code: np.ndarray  # encoded label of each query
    items: np.ndarray  # gallery items, sorted by label
    bounds: np.ndarray  # start of each label in `items`, and the end
    one_set: bool  # the queries are the gallery

    @classmethod
    def by_label(cls, y_q: np.ndarray, y_g: np.ndarray | None) -> LabelRelevance:
        """Relevance by equal labels; without y_g the queries are the gallery."""
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
class RankingProblem:
    """Query and gallery embeddings of one dtype, and the relevant items of each query."""

    Q: Any
    G: Any
    relevance: LabelRelevance

    @classmethod
    def of(cls, Q: Any, G: Any, y_q: Any, y_g: Any = None) -> RankingProblem:
        """Check the arguments; without `y_g`, Q and G are two embeddings of the same rows."""
        Q, G = _embeddings("Q", Q), _embeddings("G", G)
        if Q.shape[1] != G.shape[1]:
            widths = f"Q has {Q.shape[1]} columns and G {G.shape[1]}"
            raise LikewiseError(f"{widths}: an inner product needs the same width")
        if y_g is None and Q.shape[0] != G.shape[0]:
            rows = f"Q has {Q.shape[0]} rows and G {G.shape[0]}"
            raise LikewiseError(f"{rows}: without y_g they must be two embeddings of the same rows")
        dtype = np.result_type(Q.dtype, G.dtype)
        y_q, y_g = _labels("y_q", y_q, "Q", Q), None if y_g is None else _labels("y_g", y_g, "G", G)
        return cls(Q.astype(dtype, copy=False), G.astype(dtype, copy=False), LabelRelevance.by_label(y_q, y_g))

    def negated_scores(self, queries: np.ndarray) -> np.ndarray:
        """Negated inner products of some queries with the whole gallery, in the dtype of the embeddings."""
        S: Any = -self.Q[queries] @ self._gallery
        return S if isinstance(S, np.ndarray) else S.toarray()

    @cached_property
    def _gallery(self) -> Any:
        return self.G.T if isinstance(self.G, np.ndarray) else self.G.T.tocsr()

    @property
    def bytes_per_score(self) -> int:
        """A score and its finiteness mask; for two sparse sides also its index and a second copy."""
        size = int(self.G.dtype.itemsize)
        return size + 1 if isinstance(self.Q, np.ndarray) else 2 * size + 9


def _embeddings(name: str, rows: Any) -> Any:
    """Rows as a float matrix that BLAS can read, or as CSR; float32 and float64 are kept."""
    sparse = sp.issparse(rows)
    rows = rows.tocsr() if sparse else _matrix(name, rows)
    if rows.dtype.kind not in "biuf":
        raise LikewiseError(f"{name} has dtype {rows.dtype}: expected real numbers")
    if rows.ndim != 2 or 0 in rows.shape:
        raise LikewiseError(f"{name} has shape {rows.shape}: expected at least one row and one column")
    rows = rows.astype(np.float32 if rows.dtype in (np.float16, np.float32) else np.float64, copy=False)
    values = rows.data if sparse else rows
    if not np.isfinite(values).all():
        raise LikewiseError(f"{name} contains NaN or infinity: every embedding must be finite")
    # copy a strided matrix once here instead of in every product
    return rows if sparse or values.flags.forc else np.ascontiguousarray(rows)


def _matrix(name: str, rows: Any) -> np.ndarray:
    try:
        return np.asarray(rows)
    except ValueError:  # NumPy only mentions an "inhomogeneous shape"
        raise LikewiseError(f"{name} has rows of unequal length: expected a matrix") from None


def _labels(name: str, y: Any, rows_name: str, rows: Any) -> np.ndarray:
    y = np.asarray(y)
    if y.ndim != 1 or y.shape[0] != rows.shape[0]:
        shapes = f"{name} has shape {y.shape} and {rows_name} {rows.shape[0]} rows"
        raise LikewiseError(f"{shapes}: expected one label per row")
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise LikewiseError(f"{name} contains NaN or infinity: every row needs a label")
    return y


def _encoded(y_q: np.ndarray, y_g: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Labels of both sides as integers from 0."""
    if y_g is not None and _family(y_q) != _family(y_g):
        families = f"y_q holds {_family(y_q)} and y_g {_family(y_g)}"
        raise LikewiseError(f"{families}: no label can match, expected labels of one type")
    try:
        codes = np.unique(y_q if y_g is None else np.concatenate([y_q, y_g]), return_inverse=True)[1]
    except TypeError:
        raise LikewiseError("the labels mix types: expected all numbers or all strings") from None
    return codes[: y_q.size], codes if y_g is None else codes[y_q.size :]


def _family(y: np.ndarray) -> str:
    """The kind of the labels; for an object array, the kind of the first."""
    kind = y.dtype.kind if y.dtype.kind != "O" else np.asarray(y[0]).dtype.kind
    return {"U": "strings", "S": "bytes", "M": "dates", "O": "objects"}.get(kind, "numbers")
