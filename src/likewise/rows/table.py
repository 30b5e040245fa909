"""A table: rows, their labels if there are any, and what each row is called."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from likewise.errors import LikewiseError
from likewise.rows.columns import Columns
from likewise.utils.validation import is_absent, is_missing

# What people call these columns, in the order of preference.
LABEL_NAMES = ("label", "labels", "y", "target", "class", "category")
_LONG_LABEL, _MOST_TEXT = 256, 1 << 28  # characters of one, bytes of all: NumPy gives each the room of the longest
MOST_COLUMNS = 100_000_000  # one vector of that width takes 0.8 GB; a larger one is a damaged number
PATH_NAMES = ("path", "paths", "file", "files", "filename")
ID_NAMES = ("id", "ids")
NAME_NAMES = ("path", "name", "file", "filename", "id", "index", "item", "")
# What cards show first; such a column is not a label, although it is text.
TITLE_NAMES = ("title", "name", "headline", "subject")
TEXT_NAMES = ("text", "body", "abstract", "description", "content", "summary", "document")
URL_NAMES = ("url", "link", "href", "uri", "homepage")
_FILE_NAME = re.compile(r"[^\s]\.[A-Za-z0-9]{2,4}$")
_SAMPLE = 100
_LISTED = 10  # invalid rows that are named


@dataclass(frozen=True)
class Table:
    """Rows X of shape (n, d), dense or CSR, labels or None, row names or None, and notes on the reading.

    `ids` are those of a column of ids; `metadata` reads the other columns, None if there are none. `known` names
    the columns of the labels, the ids and the paths, as far as they have names.
    """

    X: Any
    y: np.ndarray | None = None
    names: list[str] | None = None
    source: str = "X"
    notes: list[str] = field(default_factory=list)
    ids: list[Any] | None = None
    metadata: Callable[[], Columns] | None = None
    known: Mapping[str, str | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.y is not None and len(self.y) != self.X.shape[0]:
            raise LikewiseError(
                f"{self.source} has {self.X.shape[0]} rows but {len(self.y)} labels: expected one per row"
            )

    @property
    def paths(self) -> list[str | None] | None:
        """The names of rows, if they are names of files; None for a row without one."""
        column = (self.known.get("path") or "").lower() or None
        some = [name for name in (self.names or [])[:_SAMPLE] if name]
        is_file = column is None or column in PATH_NAMES or (column == "name" and all(map(_FILE_NAME.search, some)))
        return [name or None for name in self.names] if self.names is not None and is_file else None

    def unlabelled(self) -> np.ndarray:
        """True for the rows without a label; a table without any label is an error."""
        if self.y is None:
            raise LikewiseError(
                f"{self.source} has no labels: name a file with --labels or a column with --label-column"
            )
        missing = is_missing(self.y)
        if missing.all():
            raise LikewiseError(f"{self.source} has {len(missing)} rows and not one of them has a label")
        return missing

    def label_notes(self) -> list[str]:
        """How many rows have no label, if any."""
        missing = self.unlabelled()
        if not missing.any():
            return []
        n = int(missing.sum())
        verbs = ("has", "is") if n == 1 else ("have", "are")
        return [f"{self.source}: {n} of {len(missing)} rows {verbs[0]} no label and {verbs[1]} left out"]

    def labelled(self) -> Self:
        """Only the rows that have a label; a table without any is an error."""
        missing = self.unlabelled()
        if self.y is None or not missing.any():
            return self
        good = np.flatnonzero(~missing)
        return replace(self.take(good), y=tidy_labels(self.y[good]), notes=[*self.notes, *self.label_notes()])

    def take(self, rows: np.ndarray) -> Self:
        """Some of the rows."""
        names, ids = (None if v is None else [v[row] for row in rows] for v in (self.names, self.ids))
        y, columns = None if self.y is None else self.y[rows], self.metadata
        metadata = None if columns is None else lambda: columns().take(rows)
        return replace(self, X=self.X[rows], y=y, names=names, ids=ids, metadata=metadata)

    def finite(self, drop: bool) -> Self:
        """The rows without NaN or infinity; unless `drop`, any other is an error that names the first ten of them.

        Rows on disk are checked when they are read.
        """
        if isinstance(self.X, np.memmap) or not (sp.issparse(self.X) or isinstance(self.X, np.ndarray)):
            return self
        with np.errstate(over="ignore", invalid="ignore"):
            total = self.X.sum(axis=1, dtype=np.float64)
        suspects = np.flatnonzero(~np.isfinite(total))
        values = self.X[suspects].toarray() if sp.issparse(self.X) else self.X[suspects]
        bad = suspects[~np.isfinite(values).all(axis=1)]
        if not len(bad):
            return self
        names = self.ids or self.names or [f"row {row}" for row in range(1, len(total) + 1)]
        listed = ", ".join(str(names[row]) for row in bad[:_LISTED]) + (", …" if len(bad) > _LISTED else "")
        what = f"{self.source}: {len(bad):,} of {len(total):,} rows have NaN or infinity ({listed})"
        if not drop:
            raise LikewiseError(f"{what}; --drop-invalid leaves them out")
        good = np.setdiff1d(np.arange(len(total)), bad)
        if not len(good):
            raise LikewiseError(f"{what}: no row is left")
        rows = self.take(good)
        return replace(rows, notes=[*self.notes, f"{what} and are left out"])


def named_column(source: Any, columns: list[str], wanted: str | None, usual: Sequence[str] = LABEL_NAMES) -> str | None:
    """The column asked for, which must be there, else the first with a usual name in any case, else None."""
    if wanted is not None and wanted not in columns:
        raise LikewiseError(f"{source} has no column {wanted!r}: its columns are {shortened(columns)}")
    lowered = {column.lower(): column for column in reversed(columns)}
    return wanted if wanted is not None else next((lowered[name] for name in usual if name in lowered), None)


def sole_label(text_columns: Sequence[str]) -> str | None:
    """The only text column that is no title, text or address; None if there is no such column, or several."""
    prose = (*TITLE_NAMES, *TEXT_NAMES, *URL_NAMES)
    left = [column for column in text_columns if column.lower() not in prose]
    return left[0] if len(left) == 1 else None


def checked_ids(values: Sequence[Any], column: str, source: Any) -> list[Any]:
    """Ids that are all there and all different, whole numbers or text."""
    ids = [int(value) if isinstance(value, float) and value.is_integer() else value for value in values]
    missing = next((row for row, value in enumerate(ids, start=1) if is_absent(value)), None)
    if missing is not None:
        raise LikewiseError(f"row {missing} of {source} has no {column!r}: expected an id in every row")
    if len(set(ids)) != len(ids):
        twice = next(value for value, times in Counter(ids).items() if times > 1)
        rows = [row for row, value in enumerate(ids, start=1) if value == twice]
        raise LikewiseError(
            f"{source} has the {column} {twice!r} in rows {rows[0]} and {rows[1]}: expected ids that are all different"
        )
    return ids


def without_built_in(columns: Sequence[str], taken: dict[str, str | None]) -> list[str]:
    """Columns to keep as metadata: not those that are the id, the label or the path under that very name."""
    return [column for column in columns if column and taken.get(column.lower()) != column]


def shortened(columns: list[str], most: int = 8) -> str:
    more = f" and {len(columns) - most} more" if len(columns) > most else ""
    return ", ".join(columns[:most]) + more


def check_width(d: int, what: str) -> None:
    """Raise for a sparse table that claims more columns than anything can be computed in."""
    if d > MOST_COLUMNS:
        raise LikewiseError(f"{what} has a column number {d - 1:,}: expected at most {MOST_COLUMNS:,} columns")


def checked_rows(X: np.ndarray, what: str, notes: list[str]) -> np.ndarray:
    """X as numeric rows: images are flattened with a note, anything else that is not a matrix is an error."""
    if X.dtype.kind not in "biuf":
        raise LikewiseError(f"{what} has dtype {X.dtype}: expected real numbers")
    if X.ndim < 2:
        raise LikewiseError(f"{what} has shape {X.shape}: expected a matrix with one row per example")
    if X.ndim > 2:
        notes.append(f"{what} has shape {X.shape}: each example was flattened to one row")
        X = X.reshape(len(X), -1)
    if 0 in X.shape:
        raise LikewiseError(f"{what} is empty: its shape is {X.shape}")
    return X


def tidy_labels(values: Sequence[Any] | np.ndarray) -> np.ndarray:
    """Labels as whole numbers where all of them are, as text otherwise; a missing one becomes ''."""
    y = values if isinstance(values, np.ndarray) else np.fromiter(values, dtype=object, count=len(values))
    if y.dtype.kind in "biu":
        return y
    if y.dtype.kind == "U":  # distinct labels are few
        names, codes = np.unique(y, return_inverse=True)
        return _tidy_text(names.tolist())[codes]
    if y.dtype.kind == "f":
        whole = np.isfinite(y) & (y == np.floor(y))
        if whole.all():
            return y.astype(np.int64)
        return np.array([_text(value) for value in y.tolist()])
    return _tidy_text([_text(value) for value in y.tolist()])


def _tidy_text(text: list[str]) -> np.ndarray:
    """Text as whole numbers where all of it is."""
    longest = max(map(len, text), default=0)
    if longest > _LONG_LABEL and 4 * longest * len(text) > _MOST_TEXT:
        raise LikewiseError(
            f"a label has {longest:,} characters: expected at most {_LONG_LABEL} for {len(text):,} rows"
        )
    try:
        # Only the shortest spelling counts as a number: "007" and "1_0" are names.
        numbers = [int(value) for value in text]
        return np.array(numbers, dtype=np.int64) if [str(i) for i in numbers] == text else np.array(text)
    except (ValueError, OverflowError):
        return np.array(text)


def _text(value: Any) -> str:
    if value is None or (isinstance(value, float) and value != value):
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
