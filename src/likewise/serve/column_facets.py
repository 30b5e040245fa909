"""Columns that the page can filter by: a few values with their counts, a range of numbers or dates, or words."""

from functools import cached_property
from typing import Any

import numpy as np
from typing_extensions import TypedDict

from likewise.search.cards import shown_value
from likewise.search.items import Items

_MOST_COLUMNS = 24
_FEW = 60  # values that are listed
_FEW_NUMBERS = 6  # more numbers than that are a range
_SAMPLE = 10_000


class ColumnFacet(TypedDict):
    """A column: its values with their counts if they are few; else, of numbers and dates, the least and greatest."""

    name: str
    kind: str
    counts: dict[str, int] | None
    low: float | int | str | None
    high: float | int | str | None


class ColumnFacets:
    """The columns of an index, looked at once."""

    def __init__(self, items: Items) -> None:
        self._items = items

    @cached_property
    def _columns(self) -> list[tuple[ColumnFacet, np.ndarray | None]]:
        """Each column, and for each item the place of its value among the values that are counted, -1 without one."""
        metadata = self._items.metadata
        names = [] if metadata is None else metadata.names
        found = [self._column(name) for name in names[:_MOST_COLUMNS]]
        return [column for column in found if column is not None]

    def _column(self, name: str) -> tuple[ColumnFacet, np.ndarray | None] | None:
        import pyarrow.compute as pc

        assert self._items.metadata is not None
        values, kind = self._items.metadata.column(name), self._items.metadata.kinds[name]
        facet: ColumnFacet = {"name": name, "kind": kind, "counts": None, "low": None, "high": None}
        if self._is_label(name):
            return None  # labels have a facet of their own
        few = _FEW_NUMBERS if kind in ("number", "date") else _FEW
        # The first of a long column say whether it is worth counting them all.
        if all(pc.count_distinct(part).as_py() <= min(few, len(values) / 2) for part in (values[:_SAMPLE], values)):
            return self._counted(facet, values)
        if kind in ("number", "date"):
            ends = pc.min_max(values).as_py()
            facet["low"], facet["high"] = shown_value(ends["min"]), shown_value(ends["max"])
        return facet, None

    def _counted(self, facet: ColumnFacet, values: Any) -> tuple[ColumnFacet, np.ndarray]:
        encoded = values.combine_chunks().dictionary_encode()
        texts = [_text(value) for value in encoded.dictionary.to_pylist()]
        order = np.argsort(np.array(texts, dtype=object), kind="stable") if texts else np.arange(0)
        place = np.empty(len(texts), dtype=np.int64)
        place[order] = np.arange(len(texts))
        codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        facet["counts"] = {texts[i]: 0 for i in order}
        return facet, np.where(codes < 0, -1, place[codes] if len(texts) else -1)

    def _is_label(self, name: str) -> bool:
        labels = self._items.labels
        if labels is None or self._items.metadata is None or self._items.metadata.kinds[name] != "text":
            return False
        values = self._items.metadata.column(name)
        known = [None if label is None else str(label) for label in labels]
        return bool(known[:_SAMPLE] == values[:_SAMPLE].to_pylist() and known == values.to_pylist())

    @property
    def names(self) -> list[str]:
        return [facet["name"] for facet, _ in self._columns]

    def counted(self, kept: dict[str, np.ndarray]) -> list[ColumnFacet]:
        """The columns with the number of kept items of each value; `kept` has booleans for each column."""
        found = []
        for facet, codes in self._columns:
            counts = facet["counts"]
            if codes is not None and counts is not None:
                numbers = np.bincount(codes[kept[facet["name"]] & (codes >= 0)], minlength=len(counts)).tolist()
                facet = {**facet, "counts": dict(zip(counts, numbers, strict=True))}
            found.append(facet)
        return found


def _text(value: Any) -> str:
    """A value as a condition spells it, without the quotes of a text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(shown_value(value))
