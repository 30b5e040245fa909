"""Which items pass a condition: its columns are the metadata, and the id, the label, the path and the date."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from likewise.errors import LikewiseError
from likewise.search.conditions import parsed, passing
from likewise.search.items import Items


class ItemColumns(Mapping[str, Any]):
    """The columns of items by name, as Arrow arrays, each made when it is asked for.

    `label` is text, whatever the labels are; it is what the items are labelled now.
    """

    def __init__(self, items: Items) -> None:
        self._items = items
        built_in = {"id": items.ids, "label": items.labels, "path": items.paths, "date": items.dates}
        beside = [] if items.metadata is None else items.metadata.names
        self._own = {
            name: c for name, c in built_in.items() if c is not None and not (name == "date" and name in beside)
        }
        self.names = [*self._own, *(name for name in beside if name not in self._own)]

    def __getitem__(self, name: str) -> Any:
        if name not in self._own:
            if self._items.metadata is None:
                raise KeyError(name)
            return self._items.metadata.column(name)
        import pyarrow as pa

        values = self._own[name].tolist()
        if name == "date":
            return pa.array(values, pa.string()).cast(pa.date32())
        if name == "label":
            values = [None if value is None else str(value) for value in values]
        try:
            return pa.array(values)
        except UnicodeEncodeError:  # the name of a file may be no UTF-8
            return pa.array([_text(value) if isinstance(value, str) else value for value in values])

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


def _text(value: str) -> str:
    """Text that is UTF-8."""
    return value.encode("utf-8", "replace").decode("utf-8")


def rows_where(items: Items, where: Any) -> np.ndarray | None:
    """Rows of the items that pass, in order; None if all do because nothing is asked for.

    `where` is a condition such as `price < 20`, several that must all hold, or one boolean per item.
    """
    if where is None:
        return None
    mask = where_mask(items, [where] if isinstance(where, str) else where)
    return np.flatnonzero(mask)


def where_mask(items: Items, where: Any) -> np.ndarray:
    """Whether each item passes all conditions, or the booleans themselves."""
    if isinstance(where, np.ndarray):
        if where.dtype != bool or where.shape != (len(items),):
            raise LikewiseError(f"where has shape {where.shape} and type {where.dtype}; expected {len(items)} booleans")
        return where
    columns, n = ItemColumns(items), len(items)
    masks = [passing(parsed(condition), columns, n) for condition in where]
    return np.logical_and.reduce([np.ones(n, dtype=bool), *masks])
