"""CSV and TSV, read as a stream: numeric columns are features, a label column is found by its name."""

import csv
import re
from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import chain, islice
from pathlib import Path
from typing import TextIO

import numpy as np

from likewise.errors import FileFormatError, LikewiseError
from likewise.rows import table as tables
from likewise.rows.columns import MISSING, SPELLED, Columns, chunks
from likewise.rows.table import ID_NAMES, LABEL_NAMES, NAME_NAMES, Table, named_column, tidy_labels

_SNIFFED = 100  # rows examined to tell numbers from text; text in a later one is an error


@dataclass(frozen=True)
class _Layout:
    """Positions of the cells of a row."""

    columns: list[str]
    features: list[int]
    label: int | None
    name: int | None
    id: int | None
    ignored: list[str]
    metadata: list[int]


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


@dataclass(frozen=True)
class CsvOptions:
    """Which column is the label, which the id, which are no features though they are numbers; whether to keep them."""

    label: str | None = None
    id: str | None = None
    metadata: Sequence[str] = ()
    keep: bool = True


def read_csv(
    file: Iterable[str], source: str, delimiter: str | None = None, options: CsvOptions = CsvOptions()
) -> Table:
    rows = (row for row in rows_of(file, source, delimiter) if any(cell.strip() for cell in row))
    head = list(islice(rows, _SNIFFED + 1))
    if not head:
        raise LikewiseError(f"{source} is empty: expected rows of numbers")
    has_header = _has_header(head, options.label)
    columns = [cell.strip() for cell in head[0]] if has_header else [str(i + 1) for i in range(len(head[0]))]
    if len(head) == has_header:
        raise LikewiseError(f"{source} has a header and no rows")
    layout = _layout(source, columns, head[has_header:], options, has_header)
    return _collect(source, layout, chain(head[has_header:], rows), 1 + has_header, options.keep)


def _has_header(head: list[list[str]], label_column: str | None) -> bool:
    """The first row is a header if it names the label, or holds text where the second row holds a number."""
    first = [cell.strip() for cell in head[0]]
    named = any(cell.lower() in LABEL_NAMES for cell in first)
    is_chosen = label_column in first and not is_number(label_column)
    counted = first == [str(i) for i in range(len(first))]  # the names pandas gives to columns without one
    if named or is_chosen or counted or not any(map(is_number, first)):
        return True
    return len(head) > 1 and any(not is_number(a) and is_number(b) for a, b in zip(first, head[1], strict=False))


def _layout(source: str, columns: list[str], sample: list[list[str]], options: CsvOptions, has_header: bool) -> _Layout:
    known = {
        "label": named_column(source, columns, options.label),
        "id": named_column(source, columns, options.id, ID_NAMES if has_header else ()),
        "path": next((column for column in columns if has_header and column.lower() in NAME_NAMES), None),
    }
    chosen = {column for column in options.metadata if named_column(source, columns, column)}
    rest = [i for i, column in enumerate(columns) if column not in {*known.values(), *chosen}]
    numeric = [_is_numeric(sample, i) for i in rest]
    features = [i for i, is_one in zip(rest, numeric, strict=True) if is_one]
    text = [columns[i] for i, is_one in zip(rest, numeric, strict=True) if not is_one]
    if known["label"] is None:
        words = []  # columns that are neither dates nor booleans
        for column in text:
            i = columns.index(column)
            present = [cell for row in sample if i < len(row) and (cell := row[i].strip()).lower() not in MISSING]
            is_typed = any(all(re.match(pattern, cell) for cell in present) for pattern, _ in SPELLED)
            words += [] if present and is_typed else [column]
        known["label"] = tables.sole_label(words) if has_header else words[0] if len(words) == 1 else None
        text = [column for column in text if column != known["label"]]
    if not features:
        raise LikewiseError(f"{source} has no numeric column: its columns are {', '.join(columns)}")
    used, places = set(features), {column: i for i, column in reversed(list(enumerate(columns)))}
    unused = dict.fromkeys(column for i, column in enumerate(columns) if i not in used)
    metadata = [places[column] for column in tables.without_built_in(list(unused), known)]
    named = (known[role] for role in ("label", "path", "id"))
    label, name, id_ = (None if column is None else places[column] for column in named)
    return _Layout(columns, features, label, name, id_, text, metadata if has_header else [])


def _collect(source: str, layout: _Layout, rows: Iterable[list[str]], first_line: int, keep: bool) -> Table:
    numbers, labels, names, ids = array("d"), list[str](), list[str](), list[str]()

    def metadata_cells() -> Iterator[list[str]]:
        """Read everything; give the cells that are metadata."""
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
            ids.append("" if layout.id is None else row[layout.id].strip())
            yield [row[i] for i in layout.metadata]

    cells, metadata = metadata_cells(), None
    if keep and layout.metadata and find_spec("pyarrow") is not None:
        kept_names = [layout.columns[i] for i in layout.metadata]
        metadata = Columns.of_text(dict(zip(kept_names, chunks(cells, len(kept_names)), strict=True)))
    else:
        deque(cells, maxlen=0)
    X = np.frombuffer(numbers, dtype=np.float64).reshape(len(labels), len(layout.features))
    y = None if layout.label is None else tidy_labels(labels)
    left_out = [*([] if layout.name is None else [layout.columns[layout.name]]), *layout.ignored]
    unused = [column for column in left_out if column]
    notes = [f"{source}: not used as features: {tables.shortened(unused)}"] if unused else []
    if keep and layout.metadata and metadata is None:
        notes.append(f"{source}: only the extra 'parquet' keeps them with an index: pip install 'likewise[parquet]'")
    roles = {"label": layout.label, "id": layout.id, "path": layout.name}
    return Table(
        X,
        y,
        None if layout.name is None else names,
        source,
        notes,
        None if layout.id is None else _ids(ids, layout.columns[layout.id], source),
        None if metadata is None else lambda: metadata,
        {role: None if i is None else layout.columns[i] for role, i in roles.items()},
    )


def _ids(cells: list[str], column: str, source: str) -> list[str | int]:
    """Whole numbers where all ids are, text otherwise."""
    return [
        value.item() if isinstance(value, np.generic) else value
        for value in tidy_labels(tables.checked_ids(cells, column, source))
    ]


def _is_numeric(sample: list[list[str]], i: int) -> bool:
    """All cells of a column are numbers or missing, and at least one is a number."""
    cells = [row[i].strip() for row in sample if i < len(row)]
    present = [cell for cell in cells if cell.lower() not in MISSING]
    return bool(present) and all(map(is_number, present))


def is_number(cell: str | None) -> bool:
    try:
        float(cell or "")
    except ValueError:
        return False
    return True


def _number(cell: str, column: str, line: int, source: str) -> float:
    if cell.strip().lower() in MISSING:
        return float("nan")
    try:
        return float(cell)
    except ValueError:
        raise LikewiseError(f"row {line} of {source} has {cell!r} in column {column!r}: expected a number") from None
