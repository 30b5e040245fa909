"""From lists of pairs to a sparse matrix: ids to row numbers, one entry per pair, conflicts reported."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from likewise.errors import LikewiseError

__all__ = ["assembled", "places"]

_LISTED = 5  # ids or pairs named in a message


def places(ids: Any, known: Sequence[Any] | np.ndarray | None, what: str) -> np.ndarray:
    """Row numbers of `ids`: their positions in `known`, or the ids themselves if `known` is None."""
    ids = np.asarray(ids).ravel()
    if known is None:
        return _row_numbers(ids, what)
    where = _positions(known, what)
    found = [where.get(key) for key in map(_key, ids.tolist())]
    missing = [value for value, place in zip(ids.tolist(), found, strict=True) if place is None]
    if missing:
        distinct = list(dict.fromkeys(map(_key, missing)))
        raise LikewiseError(
            f"{len(distinct)} {what} ids of the relevance match no row: {_listed([repr(name) for name in distinct])}"
        )
    return np.array(found, dtype=np.int64)


def _positions(known: Any, what: str) -> dict[str, int]:
    where: dict[str, int] = {}
    for place, key in enumerate(map(_key, np.asarray(known).ravel().tolist())):
        if where.setdefault(key, place) != place:
            raise LikewiseError(f"{what} id {key!r} names rows {where[key]} and {place}: expected one row per id")
    return where


def _key(value: Any) -> str:
    """An id for comparison: 7, 7.0 and "7" are one id, since a file does not distinguish them."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _row_numbers(ids: np.ndarray, what: str) -> np.ndarray:
    if not len(ids):
        return np.zeros(0, dtype=np.int64)
    if ids.dtype.kind not in "iu" and not (ids.dtype.kind == "f" and np.all(ids == np.floor(ids))):
        raise LikewiseError(f"{what} ids of the relevance are {ids.dtype}: expected row numbers, or give {what}_ids")
    if ids.min() < 0:
        raise LikewiseError(f"{what} id {int(ids.min())} of the relevance is negative: expected row numbers from 0")
    return ids.astype(np.int64)


def assembled(
    rows: np.ndarray,
    columns: np.ndarray,
    values: Any,
    shape: tuple[int, int],
    conflicts: str = "error",
) -> sp.csr_array:
    """A CSR matrix with one entry per pair; a pair with two values is an error, or unknown if dropped."""
    if conflicts not in ("error", "drop"):
        raise LikewiseError(f"conflicts={conflicts!r}: expected 'error' or 'drop'")
    values = np.asarray(values, dtype=np.float64).ravel()
    _check_lengths(rows, columns, values, shape)
    key = rows * np.int64(shape[1]) + columns
    order = np.lexsort((values, key))
    key, values = key[order], values[order]
    first = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]]))
    last = np.concatenate([first[1:], [len(key)]]) - 1
    differs = values[first] != values[last]
    if differs.any() and conflicts == "error":
        raise LikewiseError(_conflicts(key[first][differs], values[first][differs], values[last][differs], shape[1]))
    kept = first[~differs]
    return sp.csr_array((values[kept], (key[kept] // shape[1], key[kept] % shape[1])), shape=shape)


def _check_lengths(rows: np.ndarray, columns: np.ndarray, values: np.ndarray, shape: tuple[int, int]) -> None:
    if not len(rows) == len(columns) == len(values):
        raise LikewiseError(
            f"relevance has {len(rows)} queries, {len(columns)} items and {len(values)} grades: "
            "expected as many of each"
        )
    if not len(rows):
        raise LikewiseError("relevance is empty: it holds no pair")
    if not np.isfinite(values).all():
        at = int(np.flatnonzero(~np.isfinite(values))[0])
        raise LikewiseError(
            f"relevance has {int((~np.isfinite(values)).sum())} grades that are not finite, the first {values[at]} "
            f"for the pair ({rows[at]}, {columns[at]}): leave a pair out to say that it is unknown"
        )
    if rows.max() >= shape[0] or columns.max() >= shape[1]:
        raise LikewiseError(
            f"relevance names the pair ({rows.max()}, {columns.max()}): "
            f"expected rows below {shape[0]} and items below {shape[1]}"
        )


def _conflicts(key: np.ndarray, low: np.ndarray, high: np.ndarray, width: int) -> str:
    said = [f"({k // width}, {k % width}) is {b:g} and {a:g}" for k, a, b in zip(key, low, high, strict=True)]
    noun = "pair" if len(said) == 1 else "pairs"
    return f"relevance has {len(said)} conflicting {noun}: {_listed(said, '; ')}"


def _listed(said: list[str], mark: str = ", ") -> str:
    more = f" and {len(said) - _LISTED} more" if len(said) > _LISTED else ""
    return mark.join(said[:_LISTED]) + more
