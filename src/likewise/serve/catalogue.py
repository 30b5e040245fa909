"""What the page says of each item (key, file name, folder, date, card), and the facets it can be filtered by."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePath

import numpy as np

from likewise.rows.store import escape
from likewise.search import Index
from likewise.search.cards import card_layout
from likewise.search.conditions import columns_of, parsed
from likewise.search.rank import NotFoundError
from likewise.serve.column_facets import ColumnFacets
from likewise.serve.media import MediaKind, media_kind

_SAMPLE = 50  # files looked for to see whether the folder of the pictures is there


@dataclass(frozen=True)
class Filters:
    """Wanted labels, folders and months: any of each, and all three at once; an empty list wants everything.

    `where` has conditions on the columns of the items, which must all hold.
    """

    labels: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    months: list[str] = field(default_factory=list)
    where: list[str] = field(default_factory=list)

    def without(self, name: str) -> "Filters":
        """The other filters, for the counts that a facet shows."""
        return Filters(**{**vars(self), name: []})

    def without_column(self, name: str) -> "Filters":
        """The filters but for the conditions that speak of this column alone."""
        return Filters(**{**vars(self), "where": [text for text in self.where if columns_of(parsed(text)) != {name}]})


class Facet:
    """A value per item out of a few names: `codes` has its position in the sorted `names`, -1 without one."""

    def __init__(self, what: str, values: Sequence[str | None]) -> None:
        self.what = what
        self.names = sorted(value for value in set(values) if value is not None)
        self._places: dict[str | None, int] = {name: place for place, name in enumerate(self.names)}
        places = {**self._places, None: -1}
        self.codes = np.fromiter(map(places.__getitem__, values), np.int32, len(values))

    def mask(self, wanted: list[str]) -> np.ndarray:
        """Whether each item has one of the wanted values, as booleans."""
        unknown = sorted(set(wanted) - self._places.keys())
        if unknown:
            raise NotFoundError(f"no item has the {self.what} {unknown[0]!r}")
        return np.isin(self.codes, [self._places[name] for name in wanted])

    def counts(self, kept: np.ndarray) -> dict[str, int]:
        """The number of kept items of each name; names without any are left out."""
        counts = np.bincount(self.codes[kept & (self.codes >= 0)], minlength=len(self.names)).tolist()
        return {name: count for name, count in zip(self.names, counts, strict=True) if count}


class Catalogue:
    """File names, folders, dates and stable keys of the items of an index, and what their cards show.

    `show` names the columns of a card; without it they are chosen.
    """

    def __init__(self, index: Index, show: Sequence[str] = ()) -> None:
        self.index = index
        self.layout = card_layout(index.items, show)
        self.columns = ColumnFacets(index.items)
        self.has_pictures = index.paths is not None and any(media_kind(path) == "picture" for path in index.paths)

    def path(self, row: int) -> str | None:
        """The path of an item; bytes in it that are not UTF-8 are spelled, since they have no JSON."""
        path = None if self.index.paths is None else self.index.paths[row]
        return None if path is None else escape(path)

    def name(self, row: int) -> str:
        """The name of a file, or the id of an item without one."""
        path = self.path(row)
        return str(self.index.ids[row]) if path is None else PurePath(path).name

    def folder(self, row: int) -> str | None:
        path = self.path(row)
        return None if path is None else PurePath(path).parent.as_posix()

    def date(self, row: int) -> str | None:
        dates = self.index.items.dates
        return None if dates is None else dates[row]

    def kind(self, row: int) -> MediaKind:
        return media_kind(self.path(row))

    def key(self, row: int) -> str:
        """A short name, the same in every index that has the item."""
        return self.index.identities.key(row)

    def row_of(self, key: str) -> int | None:
        """The row of a key."""
        return self.index.identities.row_of_key(key)

    @cached_property
    def folder_facet(self) -> Facet:
        rows = range(len(self.index))
        return Facet("folder", [None] * len(rows) if self.index.paths is None else [self.folder(row) for row in rows])

    @cached_property
    def month_facet(self) -> Facet:
        """Year and month of the dates, such as 2023-05."""
        dates = self.index.items.dates
        months = [None] * len(self.index) if dates is None else [None if date is None else date[:7] for date in dates]
        return Facet("month", months)

    def missing(self) -> dict[str, str] | None:
        """The folder of the pictures and what to do, if most of its files are not there."""
        paths = self.index.paths
        if paths is None or not len(paths):
            return None
        rows = np.unique(np.linspace(0, len(paths) - 1, _SAMPLE).astype(int)).tolist()
        found = [path.is_file() for row in rows if (path := self.index.image_path(row)) is not None]
        if not found or 2 * sum(found) >= len(found):
            return None
        root = str(self.index.root or Path())
        return {"root": root, "hint": "likewise serve INDEX --root NEW"}
