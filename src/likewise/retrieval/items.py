"""The items of a gallery: ids, labels where known, paths of pictures."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from likewise.errors import FileFormatError, LikewiseError
from likewise.tables import Table

_ID = ("id", "ids")
_LABEL = ("label", "labels", "y", "target", "class")
_PATH = ("path", "paths", "file", "name", "names")


@dataclass(frozen=True)
class Items:
    """Unique ids; labels (object, None where unknown) and paths, each None if no item has one."""

    ids: np.ndarray
    labels: np.ndarray | None = None
    paths: np.ndarray | None = None

    def __post_init__(self) -> None:
        ids = self.ids.tolist()
        if len(set(ids)) != len(ids):
            twice = next(value for value, times in Counter(ids).items() if times > 1)
            raise LikewiseError(f"items has the id {twice!r} twice; expected ids that are all different")

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def row_of(self) -> dict[Any, int]:
        """The row of each id."""
        return {value: row for row, value in enumerate(self.ids.tolist())}

    def rows_of(self, ids: Any) -> np.ndarray:
        """Rows of the given ids."""
        wanted = _plain([ids] if isinstance(ids, str | int) else ids)
        unknown = [value for value in wanted if value not in self.row_of]
        if unknown:
            raise LikewiseError(f"the index has no item with the id {unknown[0]!r}")
        return np.array([self.row_of[value] for value in wanted], dtype=np.int64)

    def take(self, rows: np.ndarray) -> Items:
        """The items of the given rows."""
        taken: dict[str, Any] = {name: None if p is None else p[rows] for name, p in self.columns().items()}
        return Items(**taken)

    def plus(self, other: Items) -> Items:
        """These items followed by `other`."""
        ids = _tidy_ids([*self.ids.tolist(), *other.ids.tolist()])
        return Items(ids, self._joined(other, "labels"), self._joined(other, "paths"))

    def to_json(self) -> bytes:
        """One JSON object; integers, strings and missing labels are restored as they were."""
        parts = {name: None if part is None else part.tolist() for name, part in self.columns().items()}
        return json.dumps(parts, default=str).encode()

    @classmethod
    def from_json(cls, data: bytes) -> Items:
        """Items from the output of `to_json`."""
        try:
            parts = json.loads(data)
            ids, labels, paths = (parts[name] for name in ("ids", "labels", "paths"))
            return cls(_tidy_ids(ids), None if labels is None else _objects(labels), _column(paths))
        except (ValueError, KeyError, TypeError) as error:
            raise FileFormatError(f"the items of the index cannot be read: {error}") from error

    def columns(self) -> dict[str, Any]:
        """Ids, labels and paths by name."""
        return {"ids": self.ids, "labels": self.labels, "paths": self.paths}

    def _joined(self, other: Items, name: str) -> np.ndarray | None:
        first, second = getattr(self, name), getattr(other, name)
        if first is None and second is None:
            return None
        parts = [p if p is not None else _objects([None] * len(i)) for i, p in ((self, first), (other, second))]
        return np.concatenate(parts)


def as_items(items: Any, n: int, start: int = 0) -> Items:
    """Items of n rows from ids, mappings, a table or a data frame; ids default to row numbers from `start` on."""
    if isinstance(items, Items):
        found = items
    else:
        columns = _columns(items)
        ids = columns.get("ids")
        found = Items(
            np.arange(start, start + n) if ids is None else _tidy_ids(ids),
            _labels(columns.get("labels")),
            _column(columns.get("paths")),
        )
    for name, part in found.columns().items():
        if part is not None and len(part) != n:
            raise LikewiseError(f"items has {len(part)} {name}; expected {n}, one per row of the gallery")
    return found


def _columns(items: Any) -> dict[str, Any]:
    """Columns under our names: ids, labels and paths."""
    if items is None:
        return {}
    if isinstance(items, Table):
        return {"labels": items.y, "paths": items.names}
    if isinstance(items, Mapping) or hasattr(items, "columns"):
        return {ours: _found(items, names) for ours, names in (("ids", _ID), ("labels", _LABEL), ("paths", _PATH))}
    if isinstance(items, str | bytes) or not isinstance(items, Sequence | np.ndarray):
        raise LikewiseError(f"items is {type(items).__name__}; expected ids, a table, or columns id, label and path")
    first = items[0] if len(items) else None
    if isinstance(first, Mapping):
        return _columns({key: [item.get(key) for item in items] for item in items for key in item})
    if hasattr(first, "_asdict"):  # named tuples, such as the items of a feature store
        return _columns([item._asdict() for item in items])
    return {"ids": items}


def _found(table: Any, names: Sequence[str]) -> Any:
    keys = {str(key).lower(): key for key in (table.columns if hasattr(table, "columns") else table)}
    return next((list(table[keys[name]]) for name in names if name in keys), None)


def _labels(values: Any) -> np.ndarray | None:
    """Labels as objects, None for '', None and NaN; None if no label is known."""
    if values is None:
        return None
    labels = [None if _missing(value) else value for value in _plain(values)]
    return _objects(labels) if any(label is not None for label in labels) else None


def _missing(value: Any) -> bool:
    return value is None or value != value or (isinstance(value, str) and not value.strip())


def _column(values: Any) -> np.ndarray | None:
    return None if values is None else _objects([v if v is None else os.fspath(v) for v in values])


def _objects(values: Any) -> np.ndarray:
    plain = _plain(values)
    array = np.empty(len(plain), dtype=object)
    array[:] = plain
    return array


def _plain(values: Any) -> list[Any]:
    """Values as Python's own types."""
    return [value.item() if isinstance(value, np.generic) else value for value in values]


def _tidy_ids(values: Any) -> np.ndarray:
    """Integers as int64, anything else as strings."""
    plain = _plain(values)
    if all(isinstance(value, int) and not isinstance(value, bool) for value in plain):
        return np.array(plain, dtype=np.int64)
    return np.array([value if isinstance(value, str) else str(value) for value in plain], dtype=object)
