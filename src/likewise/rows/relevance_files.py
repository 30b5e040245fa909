"""Relevance from a file: triples, pairs, triplets or clicks in CSV, TSV or Parquet, distinguished by their columns."""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from likewise.errors import LikewiseError
from likewise.rows.npy import explained
from likewise.rows.parquet import parquet_frame
from likewise.rows.relevance import Relevance
from likewise.rows.text import is_number, opened, rows_of

# What people call these columns.
_QUERY = ("query", "query_id", "qid", "q")
_ITEM = ("item", "item_id", "document", "doc", "doc_id", "docid", "iid", "gallery")
_GRADE = ("grade", "relevance", "rel", "score", "rating", "label")
_CLICKED = ("clicked", "click", "clicks")
_POSITION = ("position", "rank", "pos")
_SESSION, _TIME, _WEIGHT = ("session", "session_id", "list"), ("time", "timestamp", "date"), ("weight", "count")
_MOST_DAYS = 1e6  # numbers above are seconds
_LEFT, _RIGHT, _LINK = ("a", "left", "first", "item1"), ("b", "right", "second", "item2"), ("link", "alike", "same")
_LINKS = {"must": 1.0, "must-link": 1.0, "cannot": 0.0, "cannot-link": 0.0, "1": 1.0, "0": 0.0}
_EXPECTED = (
    "query, item[, grade]; query, item, clicked[, position, session, time, weight]; anchor, positive, negative; "
    "or a, b[, link]"
)

_ID = re.compile(r"0|[1-9][0-9]{0,17}")

Columns = dict[str, list[str]]


def read_relevance(
    path: str | os.PathLike[str],
    *,
    query_ids: Sequence[Any] | None = None,
    item_ids: Sequence[Any] | None = None,
    shape: tuple[int, int] | None = None,
    half_life: float | None = None,
) -> Relevance:
    """The relevance in a file; its header tells what it holds.

    `query_ids` and `item_ids` name the rows of the two sides; without them the file has row numbers, counted from 0.
    `half_life` is the number of days after which a click counts half.
    """
    path = Path(path)
    columns = _columns(path)
    ids: dict[str, Any] = {"query_ids": query_ids, "item_ids": item_ids, "shape": shape}
    try:
        if "anchor" in columns:
            parts = [_ids(_named(path, columns, (name,))) for name in ("anchor", "positive", "negative")]
            return Relevance.from_triplets(*parts, **ids)
        if _named_as(columns, _LEFT) and _named_as(columns, _RIGHT):
            return _from_links(path, columns, item_ids, shape)
        queries, items = _ids(_named(path, columns, _QUERY)), _ids(_named(path, columns, _ITEM))
        if _named_as(columns, _CLICKED):
            session, time = _named_as(columns, _SESSION), _named_as(columns, _TIME)
            clicked, position, weight = (
                _numbers(path, columns, _named_as(columns, names)) for names in (_CLICKED, _POSITION, _WEIGHT)
            )
            return Relevance.from_clicks(
                queries,
                items,
                clicked,
                position=position,
                session=None if session is None else columns[session],
                time=None if time is None else _days(path, columns, time),
                weight=weight,
                half_life=half_life,
                **ids,
            )
        if half_life is not None:
            raise LikewiseError(f"half_life={half_life!r} is for clicks: {path} has no column of clicks")
        return Relevance.from_triples(queries, items, _numbers(path, columns, _named_as(columns, _GRADE)), **ids)
    except LikewiseError as error:
        raise error if str(path) in str(error) else LikewiseError(f"{path}: {error}") from error


def _days(path: Path, columns: Columns, name: str) -> np.ndarray:
    """Dates, or numbers: seconds if they are too large for days."""
    try:
        values = np.array([float(cell) for cell in columns[name]])
        return values / 86_400 if np.abs(values).max() > _MOST_DAYS else values
    except ValueError:
        pass
    try:
        dates = np.array([cell.removesuffix("Z") for cell in columns[name]], dtype="datetime64[s]")
    except ValueError:
        raise LikewiseError(
            f"{path} has times in {name!r} that are neither numbers nor dates: expected 2026-01-31"
        ) from None
    return (dates - np.datetime64(0, "s")) / np.timedelta64(1, "D")


def _from_links(path: Path, columns: Columns, ids: Any, shape: tuple[int, int] | None) -> Relevance:
    left, right = _ids(_named(path, columns, _LEFT)), _ids(_named(path, columns, _RIGHT))
    link = _named_as(columns, _LINK)
    cells = ["must"] * len(left) if link is None else columns[link]
    odd = next((cell for cell in cells if cell.strip().lower() not in _LINKS), None)
    if odd is not None:
        raise LikewiseError(f"{path} has the link {odd!r}: expected must or cannot, or 1 or 0")
    links, both = np.array([_LINKS[cell.strip().lower()] for cell in cells]), np.stack([left, right], axis=1)
    return Relevance.from_pairs(both[links > 0], both[links == 0], ids=ids, n=None if shape is None else shape[0])


def _columns(path: Path) -> Columns:
    """Cells by column, names in lower case."""
    if not path.is_file():
        raise LikewiseError(f"the relevance file {path} does not exist")
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        frame = parquet_frame(path)
        if not frame.num_rows:
            raise LikewiseError(f"the relevance file {path} is empty: expected one pair per row")
        with explained(path, "Parquet"):
            values = {name.lower(): frame[name].to_pylist() for name in frame.column_names}
        return {name: [str(int(v)) if isinstance(v, bool) else str(v) for v in cells] for name, cells in values.items()}
    if suffix not in (".csv", ".tsv", ".txt"):
        raise LikewiseError(f"the relevance file {path} ends with {suffix}: expected .csv, .tsv or .parquet")
    with opened(path) as file:
        rows = [row for row in rows_of(file, str(path), "\t" if suffix == ".tsv" else None) if any(row)]
    if len(rows) < 2:
        raise LikewiseError(f"the relevance file {path} is empty: expected a header and one pair per row")
    short = next((i for i, row in enumerate(rows, start=1) if len(row) != len(rows[0])), None)
    if short is not None:
        raise LikewiseError(f"row {short} of {path} has {len(rows[short - 1])} cells: expected {len(rows[0])}")
    return {
        name.strip().lower(): [cell.strip() for cell in cells]
        for name, cells in zip(rows[0], zip(*rows[1:], strict=True), strict=True)
    }


def _named_as(columns: Columns, names: Sequence[str]) -> str | None:
    return next((name for name in names if name in columns), None)


def _named(path: Path, columns: Columns, names: Sequence[str]) -> list[str]:
    name = _named_as(columns, names)
    if name is None:
        raise LikewiseError(f"{path} has the columns {', '.join(columns)}: expected {_EXPECTED}")
    return columns[name]


def _ids(cells: list[str]) -> np.ndarray:
    """Ids as whole numbers where all of them are, as text otherwise."""
    if all(_ID.fullmatch(cell) for cell in cells):
        return np.array([int(cell) for cell in cells], dtype=np.int64)
    return np.array(cells, dtype=object)  # of text NumPy would give each the room of the longest


def _numbers(path: Path, columns: Columns, name: str | None) -> np.ndarray | None:
    if name is None:
        return None
    try:
        return np.array([float(cell) for cell in columns[name]])
    except ValueError:
        odd = next(cell for cell in columns[name] if not is_number(cell))
        raise LikewiseError(f"{path} has {odd!r} in the column {name!r}: expected numbers") from None
