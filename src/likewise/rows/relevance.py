"""Relevance of items to queries: from pairs, triples, triplets or clicks, or given as a matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from likewise.errors import LikewiseError
from likewise.rows.clicks import ClickLog, weighted
from likewise.utils.wording import plural

_MOST_ROWS = 50_000_000  # without ids or a shape, the largest number of a row says how many there are


class Relevance:
    """The known relevance of n_g items to n_q queries.

    Parameters
    ----------
    R : (n_q, n_g) matrix, sparse or dense
        Gains as in nDCG: above 0 for what is relevant, 0 or less for what is known to be irrelevant. In a sparse matrix
        a stored entry is known, a stored zero too; in a dense one every entry is.

    Attributes
    ----------
    summary : str
        What was read, in words.

    Examples
    --------
    >>> from likewise.rows import Relevance
    >>> Relevance.from_triples([0, 0, 1], [2, 5, 3], [1, 0, 2], shape=(2, 6))
    Relevance(2 x 6, 3 known pairs)
    """

    one_label_per_row = False

    def __init__(self, R: Any) -> None:
        if sp.issparse(R):
            R = R.tocoo()
            rows, columns, values = np.asarray(R.row, np.int64), np.asarray(R.col, np.int64), R.data
        else:
            R = np.asarray(R, dtype=np.float64)
            if R.ndim != 2:
                raise LikewiseError(
                    f"relevance has shape {R.shape}: expected a matrix, one row per query, one column per item"
                )
            (rows, columns), values = np.indices(R.shape).reshape(2, -1), R.ravel()
        self.R = assembled(rows, columns, values, R.shape)  # in float64; stored zeros are kept
        self._may_grow = False
        self.clicked = False  # whether only items that were shown could be relevant
        relevant, judged = int((self.R.data > 0).sum()), int((np.diff(self.R.indptr) > 0).sum())
        known = f"{plural(relevant, 'relevant pair')} of {plural(judged, 'query')}"
        self.summary = f"{known}, {self.n_known - relevant:,} irrelevant"

    @property
    def shape(self) -> tuple[int, int]:
        return self.R.shape

    @property
    def n_known(self) -> int:
        return int(self.R.nnz)

    def __repr__(self) -> str:
        n_q, n_g = self.shape
        return f"Relevance({n_q} x {n_g}, {self.n_known} known pairs)"

    def fitted_to(self, n_q: int, n_g: int) -> Relevance:
        """This relevance for n_q queries and n_g items; an inferred size grows to them."""
        if self.shape == (n_q, n_g):
            return self
        if not self._may_grow or self.shape[0] > n_q or self.shape[1] > n_g:
            raise LikewiseError(
                f"relevance has shape {self.shape}: expected ({n_q}, {n_g}), one row per query, one column per item"
            )
        grown = self.R.copy()
        grown.resize((n_q, n_g))
        relevance = Relevance(grown)
        relevance.clicked, relevance.summary = self.clicked, self.summary
        return relevance

    @classmethod
    def from_triples(
        cls,
        queries: Any,
        items: Any,
        grades: Any = None,
        *,
        query_ids: Any = None,
        item_ids: Any = None,
        shape: tuple[int, int] | None = None,
        conflicts: str = "error",
    ) -> Self:
        """From lists of (query, item, grade); without grades every pair listed is relevant.

        `query_ids` and `item_ids` name the rows of the two sides, in their order; without them queries and items are
        row numbers. A pair listed with two grades is an error, or left unknown with `conflicts="drop"`.
        """
        rows, columns = places(queries, query_ids, "query"), places(items, item_ids, "item")
        values = np.ones(len(rows)) if grades is None else grades
        size = _shape(rows, columns, query_ids, item_ids, shape)
        relevance = cls(assembled(rows, columns, values, size, conflicts))
        relevance._may_grow = shape is None
        return relevance

    @classmethod
    def from_pairs(
        cls, must_link: Any, cannot_link: Any = (), *, ids: Any = None, n: int | None = None, conflicts: str = "error"
    ) -> Self:
        """From pairs of rows of one set that are alike (`must_link`) or not (`cannot_link`), in either order."""
        alike, unlike = _pairs(must_link, "must_link"), _pairs(cannot_link, "cannot_link")
        both = np.concatenate([part for part in (alike, unlike) if len(part)] or [alike])
        left, right = places(both[:, 0], ids, "item"), places(both[:, 1], ids, "item")
        linked = np.repeat([1.0, 0.0], [len(alike), len(unlike)])
        n = len(ids) if ids is not None else n
        rows, columns = np.concatenate([left, right]), np.concatenate([right, left])
        size = max(1, _counted(rows, "item")) if n is None else n
        relevance = cls(assembled(rows, columns, np.tile(linked, 2), (size, size), conflicts))
        relevance._may_grow = n is None
        return relevance

    @classmethod
    def from_triplets(
        cls,
        anchors: Any,
        positives: Any,
        negatives: Any,
        *,
        query_ids: Any = None,
        item_ids: Any = None,
        shape: tuple[int, int] | None = None,
        conflicts: str = "error",
    ) -> Self:
        """From triplets: the anchor is like the positive and not like the negative."""
        anchors, positives, negatives = (np.asarray(part).ravel() for part in (anchors, positives, negatives))
        if not len(anchors) == len(positives) == len(negatives):
            raise LikewiseError(
                f"triplets have {len(anchors)} anchors, {len(positives)} positives and {len(negatives)} negatives: "
                "expected as many of each"
            )
        return cls.from_triples(
            np.concatenate([anchors, anchors]),
            np.concatenate([positives, negatives]),
            np.repeat([1.0, 0.0], len(anchors)),
            query_ids=query_ids,
            item_ids=item_ids,
            shape=shape,
            conflicts=conflicts,
        )

    @classmethod
    def from_labels(cls, Z: Any) -> Self:
        """From several labels per item, an indicator (n, c): the gain of a pair is the Jaccard index of their labels.

        Pairs without a common label are unknown.
        """
        if not sp.issparse(Z):
            Z = np.asarray(Z)
            if Z.ndim != 2 or Z.dtype.kind not in "biuf":
                expected = "expected labels, or an indicator (n, c)"
                raise LikewiseError(f"y has shape {Z.shape} and dtype {Z.dtype}: {expected}")
        Z = sp.csr_array(Z, dtype=np.float64)
        Z.sum_duplicates()
        Z.eliminate_zeros()
        if not np.all(Z.data == 1.0):
            odd, expected = Z.data[Z.data != 1.0][0], "expected an indicator of zeros and ones, one column per label"
            raise LikewiseError(f"y is a matrix with the value {odd:g}: {expected}")
        if not Z.nnz:
            raise LikewiseError("y is an indicator of zeros: no item has a label")
        shared = sp.csr_array(Z @ Z.T)
        counts = np.diff(Z.indptr)
        of_row = np.repeat(counts, np.diff(shared.indptr))
        shared.data = shared.data / (of_row + counts[shared.indices] - shared.data)
        shared.setdiag(0)
        shared.eliminate_zeros()
        return cls(shared)

    @classmethod
    def from_clicks(
        cls,
        queries: Any,
        items: Any,
        clicked: Any = None,
        *,
        position: Any = None,
        session: Any = None,
        time: Any = None,
        weight: Any = None,
        half_life: float | None = None,
        propensities: Any = None,
        query_ids: Any = None,
        item_ids: Any = None,
        shape: tuple[int, int] | None = None,
    ) -> Self:
        """From a log of items shown for queries, clicked or not; without `clicked` every row is a click.

        Clicks of a pair add up. Where the log has rows that were not clicked, gains are how much the item attracts: a
        place that is seen less often needs fewer clicks, and one click of many views counts little. An item shown and
        never clicked is irrelevant; with `position` only if it was shown above a click, since items below may not have
        been seen.

        Parameters
        ----------
        queries, items : (m,) ids, or row numbers without `query_ids` and `item_ids`
        clicked : (m,) clicks of each row, 0 for none; more than 1 for an action that counts more
        position : (m,) places from 1
        session : (m,) which list the row was shown in; without it all rows of a query are one list
        time : (m,) days, or dates of NumPy, for `half_life`
        weight : (m,) weights of the rows
        half_life : days after which a row counts half
        propensities : how often each place is seen, from the first on; None estimates them from the log
        """
        rows, columns = places(queries, query_ids, "query"), places(items, item_ids, "item")
        size = _shape(rows, columns, query_ids, item_ids, shape)
        log = ClickLog.of(rows, columns, clicked, position, session, weighted(weight, time, half_life, len(rows)))
        assembled(rows, columns, np.zeros(len(rows)), size)  # lengths and places
        gains, summary = log.gains(propensities, size)
        relevance = cls(gains)
        relevance._may_grow, relevance.clicked, relevance.summary = shape is None, True, summary
        return relevance


def _shape(
    rows: np.ndarray, columns: np.ndarray, query_ids: Any, item_ids: Any, shape: tuple[int, int] | None
) -> tuple[int, int]:
    if shape is not None:
        return int(shape[0]), int(shape[1])
    n_q = len(query_ids) if query_ids is not None else _counted(rows, "query")
    n_g = len(item_ids) if item_ids is not None else _counted(columns, "item")
    return n_q, n_g


def _counted(places: np.ndarray, what: str) -> int:
    """The number of rows that row numbers ask for; a matrix takes room for every one of them."""
    n = int(places.max(initial=-1)) + 1
    if n > _MOST_ROWS:
        raise LikewiseError(f"{what} {n - 1:,} of the relevance is above {_MOST_ROWS:,}: give {what}_ids, or a shape")
    return n


def _pairs(pairs: Any, what: str) -> np.ndarray:
    array = np.asarray(pairs)
    if array.size == 0:
        return np.zeros((0, 2), dtype=np.int64)
    if array.ndim != 2 or array.shape[1] != 2:
        raise LikewiseError(f"{what} has shape {array.shape}: expected (m, 2), one pair of rows per line")
    return array


_LISTED = 5  # ids or pairs named in a message


def places(ids: Any, known: Sequence[Any] | np.ndarray | None, what: str) -> np.ndarray:
    """Row numbers of `ids`: their positions in `known`, or the ids themselves if `known` is None."""
    ids = np.asarray(ids).ravel()
    if known is None:
        return _row_numbers(ids, what)
    where: dict[str, int] = {}
    for place, key in enumerate(map(_key, np.asarray(known).ravel().tolist())):
        if where.setdefault(key, place) != place:
            raise LikewiseError(f"{what} id {key!r} names rows {where[key]} and {place}: expected one row per id")
    positions = [where.get(key) for key in map(_key, ids.tolist())]
    missing = [value for value, place in zip(ids.tolist(), positions, strict=True) if place is None]
    if missing:
        distinct = list(dict.fromkeys(map(_key, missing)))
        raise LikewiseError(
            f"{len(distinct)} {what} ids of the relevance match no row: {_listed([repr(name) for name in distinct])}"
        )
    return np.array(positions, dtype=np.int64)


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
    rows: np.ndarray, columns: np.ndarray, values: Any, shape: tuple[int, int], conflicts: str = "error"
) -> sp.csr_array:
    """A CSR matrix with one entry per pair; a pair with two values is an error, or unknown if dropped."""
    if conflicts not in ("error", "drop"):
        raise LikewiseError(f"conflicts={conflicts!r}: expected 'error' or 'drop'")
    values = np.asarray(values, dtype=np.float64).ravel()
    if not len(rows) == len(columns) == len(values):
        sizes = f"{len(rows)} queries, {len(columns)} items and {len(values)} grades"
        raise LikewiseError(f"relevance has {sizes}: expected as many of each")
    if not len(rows):
        raise LikewiseError("relevance is empty: it holds no pair")
    odd = np.flatnonzero(~np.isfinite(values))
    if len(odd):
        example = f"the first {values[odd[0]]} for the pair ({rows[odd[0]]}, {columns[odd[0]]})"
        unknown = "leave a pair out to say that it is unknown"
        raise LikewiseError(f"relevance has {len(odd)} grades that are not finite, {example}: {unknown}")
    if rows.max() >= shape[0] or columns.max() >= shape[1]:
        expected = f"expected rows below {shape[0]} and items below {shape[1]}"
        raise LikewiseError(f"relevance names the pair ({rows.max()}, {columns.max()}): {expected}")
    key = rows * np.int64(shape[1]) + columns
    order = np.lexsort((values, key))
    key, values = key[order], values[order]
    first = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]]))
    last = np.concatenate([first[1:], [len(key)]]) - 1
    differs = values[first] != values[last]
    if differs.any() and conflicts == "error":
        twice = zip(key[first][differs], values[first][differs], values[last][differs], strict=True)
        pairs = [f"({k // shape[1]}, {k % shape[1]}) is {b:g} and {a:g}" for k, a, b in twice]
        raise LikewiseError(f"relevance has {plural(len(pairs), 'conflicting pair')}: {_listed(pairs, '; ')}")
    places = first[~differs]
    return sp.csr_array((values[places], (key[places] // shape[1], key[places] % shape[1])), shape=shape)


def _listed(texts: list[str], mark: str = ", ") -> str:
    more = f" and {len(texts) - _LISTED} more" if len(texts) > _LISTED else ""
    return mark.join(texts[:_LISTED]) + more
