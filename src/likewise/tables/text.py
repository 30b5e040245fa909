"""CSV and TSV, read as a stream: numeric columns are features, a label column is found by its name."""

import csv
from array import array
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TextIO

import numpy as np

from likewise.errors import FileFormatError, LikewiseError
from likewise.tables.table import LABEL_NAMES, NAME_NAMES, Table, named_column, shortened, tidy_labels

_SNIFFED = 100  # rows examined to tell numbers from text; text in a later one is an error
_MISSING = {"", "na", "n/a", "nan", "null", "none", "?"}


@dataclass(frozen=True)
class _Layout:
    """Positions of the cells of a row."""

    columns: list[str]
    features: list[int]
    label: int | None
    name: int | None
    ignored: list[str]


@contextmanager
def opened(path: Path) -> Iterator[TextIO]:
    """A UTF-8 text file, with or without a byte-order mark."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            yield file
    except UnicodeDecodeError as error:
        raise FileFormatError(f"{path} is not UTF-8 text: byte {error.start} cannot be read") from error


def rows_of(file: Iterable[str], source: str, delimiter: str | None = None) -> Iterator[list[str]]:
    """Rows of cells, the delimiter guessed from the first line if it is not given."""
    lines = iter(file)
    first = next(lines, "")
    mark = delimiter or max(",;\t", key=first.count)
    try:
        yield from csv.reader(chain([first], lines), delimiter=mark)
    except csv.Error as error:
        raise FileFormatError(f"{source} is not a table of text: {error}") from error


def read_csv(file: Iterable[str], source: str, label_column: str | None = None, delimiter: str | None = None) -> Table:
    rows = (row for row in rows_of(file, source, delimiter) if any(cell.strip() for cell in row))
    head = list(islice(rows, _SNIFFED + 1))
    if not head:
        raise LikewiseError(f"{source} is empty: expected rows of numbers")
    has_header = _has_header(head, label_column)
    columns = [cell.strip() for cell in head[0]] if has_header else [str(i + 1) for i in range(len(head[0]))]
    if len(head) == has_header:
        raise LikewiseError(f"{source} has a header and no rows")
    layout = _layout(source, columns, head[has_header:], label_column, has_header)
    return _collect(source, layout, chain(head[has_header:], rows), 1 + has_header)


def _has_header(head: list[list[str]], label_column: str | None) -> bool:
    """The first row is a header if it names the label, or holds text where the second row holds a number."""
    first = [cell.strip() for cell in head[0]]
    named = any(cell.lower() in LABEL_NAMES for cell in first)
    asked = label_column in first and not is_number(label_column)
    counted = first == [str(i) for i in range(len(first))]  # the names pandas gives to columns without one
    if named or asked or counted or not any(map(is_number, first)):
        return True
    return len(head) > 1 and any(not is_number(a) and is_number(b) for a, b in zip(first, head[1], strict=False))


def _layout(
    source: str, columns: list[str], sample: list[list[str]], label_column: str | None, has_header: bool
) -> _Layout:
    named = named_column(source, columns, label_column)
    label = None if named is None else columns.index(named)
    name = next((columns.index(c) for c in columns if has_header and c.lower() in NAME_NAMES), None)
    rest = [i for i in range(len(columns)) if i not in (label, name)]
    numeric = [_is_numeric(sample, i) for i in rest]
    features = [i for i, is_one in zip(rest, numeric, strict=True) if is_one]
    text = [i for i, is_one in zip(rest, numeric, strict=True) if not is_one]
    if label is None and len(text) == 1:
        label, text = text[0], []
    if not features:
        raise LikewiseError(f"{source} has no numeric column: its columns are {', '.join(columns)}")
    return _Layout(columns, features, label, name, [columns[i] for i in text])


def _collect(source: str, layout: _Layout, rows: Iterable[list[str]], first_line: int) -> Table:
    numbers, labels, names = array("d"), list[str](), list[str]()
    for line, row in enumerate(rows, start=first_line):
        if len(row) != len(layout.columns):
            raise LikewiseError(f"row {line} of {source} has {len(row)} cells: expected {len(layout.columns)}")
        try:
            numbers.extend([float(row[i]) for i in layout.features])
        except ValueError:
            # The slow way only where it is needed: an empty cell is a NaN, text is an error.
            numbers.extend([_number(row[i], layout.columns[i], line, source) for i in layout.features])
        labels.append("" if layout.label is None else row[layout.label].strip())
        names.append("" if layout.name is None else row[layout.name])
    X = np.frombuffer(numbers, dtype=np.float64).reshape(len(labels), len(layout.features))
    y = None if layout.label is None else tidy_labels(labels)
    left_out = [*([] if layout.name is None else [layout.columns[layout.name]]), *layout.ignored]
    unused = [column for column in left_out if column]
    notes = [f"{source}: not used as features: {shortened(unused)}"] if unused else []
    return Table(X, y, None if layout.name is None else names, source, notes)


def _is_numeric(sample: list[list[str]], i: int) -> bool:
    """All cells of a column are numbers or missing, and at least one is a number."""
    cells = [row[i].strip() for row in sample if i < len(row)]
    present = [cell for cell in cells if cell.lower() not in _MISSING]
    return bool(present) and all(map(is_number, present))


def is_number(cell: str | None) -> bool:
    try:
        float(cell or "")
    except ValueError:
        return False
    return True


def _number(cell: str, column: str, line: int, source: str) -> float:
    if cell.strip().lower() in _MISSING:
        return float("nan")
    try:
        return float(cell)
    except ValueError:
        raise LikewiseError(f"row {line} of {source} has {cell!r} in column {column!r}: expected a number") from None
