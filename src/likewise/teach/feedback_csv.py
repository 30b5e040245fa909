"""Marks and labels as CSV: for a spreadsheet, and to teach another index that has the same items."""

import csv
import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from likewise.errors import LikewiseError
from likewise.search.identity import ItemRef
from likewise.search.index import BaseIndex
from likewise.teach.feedback import Event

COLUMNS = ("time", "who", "kind", "query", "item", "right", "label")
_FORMULA = ("=", "+", "-", "@")
_RIGHT: dict[str, bool | None] = {
    "true": True,
    "1": True,
    "yes": True,
    "false": False,
    "0": False,
    "no": False,
    "": None,
}


def feedback_to_csv(events: Iterable[Event]) -> str:
    """One line per item of a label, and per query and item of a mark."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for event in events:
        for query in event.queries or (None,):
            for item in event.items:
                cells = (event.time, event.who, event.kind, query, item, event.right, event.label)
                writer.writerow([_cell(value) for value in cells])
    return text.getvalue()


def feedback_from_csv(path: Path, index: BaseIndex) -> tuple[list[Event], int]:
    """Marks and labels about items of an index, by their ids; and the number of lines about other items."""
    try:
        rows = list(csv.DictReader(io.StringIO(path.read_text("utf-8-sig"), newline="")))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise LikewiseError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
    if not rows or not {"kind", "item"} <= set(rows[0]):
        raise LikewiseError(f"{path} has no marks: expected the columns {', '.join(COLUMNS)}, as the page exports them")
    row_of = {str(name): row for row, name in enumerate(index.ids.tolist())}
    events = [_event(line, number, path, row_of, index) for number, line in enumerate(rows, start=2)]
    known = [event for event in events if event is not None]
    return known, len(events) - len(known)


def _event(line: dict[str, str], number: int, path: Path, row_of: dict[str, int], index: BaseIndex) -> Event | None:
    values = {name: _read(line.get(name) or "") for name in COLUMNS}
    kind, who = values["kind"], values["who"]
    item = _reference(values["item"], row_of, index)
    if kind == "label":
        return None if item is None else Event("label", items=(item,), label=values["label"] or None, who=who)
    if kind != "mark" or values["right"].lower() not in _RIGHT:
        raise LikewiseError(f"line {number} of {path} is neither a mark, right or wrong, nor a label")
    query = _reference(values["query"], row_of, index)
    if item is None or query is None:
        return None
    return Event("mark", (query,), (item,), _RIGHT[values["right"].lower()], who=who)


def _reference(name: str, row_of: dict[str, int], index: BaseIndex) -> ItemRef | None:
    return index.identities.reference(row_of[name]) if name in row_of else None


def _read(cell: str) -> str:
    return cell[1:] if cell.startswith(tuple(f"'{sign}" for sign in _FORMULA)) else cell


def _cell(value: Any) -> Any:
    if isinstance(value, ItemRef):
        value = value.id
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str) and value[:1] in _FORMULA:
        return "'" + value  # or a spreadsheet would take it for a formula
    return "" if value is None else value
