"""Names, folders and pictures of the items, and the facets and columns they can be filtered by."""

import html
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePath
from typing import Any, Literal

import numpy as np
from typing_extensions import TypedDict

from likewise.pictures.decoding import Decoded, DecoderLimits, Decoders
from likewise.pictures.images import EXTENSIONS, ImageError, looks_like_image
from likewise.rows.store import escape
from likewise.search.cards import card_layout, shown_value
from likewise.search.filters import Condition
from likewise.search.index import BaseIndex
from likewise.search.items import Items
from likewise.search.rank import NotFoundError
from likewise.serve.settings import Limits

MediaKind = Literal["picture", "audio", "video", "item"]
# What browsers play; the type comes from this table, never from the file.
_TYPES = {
    ".mp3": "audio/mpeg", ".ogg": "audio/ogg", ".oga": "audio/ogg", ".opus": "audio/ogg", ".wav": "audio/wav",
    ".flac": "audio/flac", ".m4a": "audio/mp4", ".aac": "audio/aac",
    ".mp4": "video/mp4", ".m4v": "video/mp4", ".webm": "video/webm", ".ogv": "video/ogg", ".mov": "video/quicktime",
}  # fmt: skip
_MOST_COLUMNS = 24
_FEW = 60  # values that are listed
_FEW_NUMBERS = 6  # more numbers than that are a range
_FIRST_VALUES = 10_000  # say whether a column is worth counting
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
        return Filters(**{**vars(self), "where": [text for text in self.where if Condition(text).columns != {name}]})


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

    def counts(self, mask: np.ndarray) -> dict[str, int]:
        """The number of items of each name among those of a mask; names without any are left out."""
        counts = np.bincount(self.codes[mask & (self.codes >= 0)], minlength=len(self.names)).tolist()
        return {name: count for name, count in zip(self.names, counts, strict=True) if count}


class Catalogue:
    """File names, folders and dates of the items of an index, and what their cards show.

    `show` names the columns of a card; without it they are chosen.
    """

    def __init__(self, index: BaseIndex, show: Sequence[str] = ()) -> None:
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
        exist = [path.is_file() for row in rows if (path := self.index.image_path(row)) is not None]
        if not exist or 2 * sum(exist) >= len(exist):
            return None
        return {"root": str(self.index.root or Path()), "hint": "likewise serve INDEX --root NEW"}


# -- columns ----------------------------------------------------------------------------------------------------------


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
        return [column for column in map(self._column, names[:_MOST_COLUMNS]) if column is not None]

    def _column(self, name: str) -> tuple[ColumnFacet, np.ndarray | None] | None:
        import pyarrow.compute as pc

        assert self._items.metadata is not None
        values, kind = self._items.metadata.column(name), self._items.metadata.kinds[name]
        facet: ColumnFacet = {"name": name, "kind": kind, "counts": None, "low": None, "high": None}
        labels = self._items.labels
        if labels is not None and kind == "text":
            texts = [None if label is None else str(label) for label in labels]
            if texts[:_FIRST_VALUES] == values[:_FIRST_VALUES].to_pylist() and texts == values.to_pylist():
                return None  # labels have a facet already
        few = _FEW_NUMBERS if kind in ("number", "date") else _FEW
        # The first of a long column say whether it is worth counting them all.
        if all(
            pc.count_distinct(part).as_py() <= min(few, len(values) / 2) for part in (values[:_FIRST_VALUES], values)
        ):
            return self._counted(facet, values)
        if kind in ("number", "date"):
            ends = pc.min_max(values).as_py()
            facet["low"], facet["high"] = shown_value(ends["min"]), shown_value(ends["max"])
        return facet, None

    def _counted(self, facet: ColumnFacet, values: Any) -> tuple[ColumnFacet, np.ndarray]:
        encoded = values.combine_chunks().dictionary_encode()
        # As a condition spells values, without the quotes of a text.
        values = encoded.dictionary.to_pylist()
        texts = [str(value).lower() if isinstance(value, bool) else str(shown_value(value)) for value in values]
        order = np.argsort(np.array(texts, dtype=object), kind="stable") if texts else np.arange(0)
        place = np.empty(len(texts), dtype=np.int64)
        place[order] = np.arange(len(texts))
        codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        facet["counts"] = {texts[i]: 0 for i in order}
        return facet, np.where(codes < 0, -1, place[codes] if len(texts) else -1)

    @property
    def names(self) -> list[str]:
        return [facet["name"] for facet, _ in self._columns]

    def counted(self, masks: dict[str, np.ndarray]) -> list[ColumnFacet]:
        """The columns with the number of items of each value, among those of the mask of each column."""
        facets = []
        for facet, codes in self._columns:
            counts = facet["counts"]
            if codes is not None and counts is not None:
                numbers = np.bincount(codes[masks[facet["name"]] & (codes >= 0)], minlength=len(counts)).tolist()
                facet = {**facet, "counts": dict(zip(counts, numbers, strict=True))}
            facets.append(facet)
        return facets


# -- media ------------------------------------------------------------------------------------------------------------


def media_kind(path: str | None) -> MediaKind:
    """What a file is by its name."""
    suffix = "" if path is None else os.path.splitext(path)[1].lower()
    if suffix in EXTENSIONS:
        return "picture"
    return _TYPES[suffix].partition("/")[0] if suffix in _TYPES else "item"  # type: ignore[return-value]


def shown_file(index: BaseIndex, row: int) -> Path | None:
    """The file of a picture to be decoded, so that only pixels leave the machine: its path is inside the folder."""
    path = index.image_path(row)
    root = os.path.abspath(index.root or "")
    return path if path is not None and Path(os.path.abspath(path)).is_relative_to(root) else None


def original_file(index: BaseIndex, row: int) -> Path | None:
    """The file of an item that may be sent as it is: picture, sound or film inside the folder, wherever links lead.

    An index may come from somebody else, and its paths may lead anywhere.
    """
    path = index.image_path(row)
    if path is None or index.root is None:
        return None
    file = Path(os.path.realpath(path))
    is_inside = file.is_relative_to(os.path.realpath(index.root)) and file.is_file()
    return file if is_inside and (file.suffix.lower() in _TYPES or looks_like_image(file)) else None


def media_file(index: BaseIndex, row: int) -> tuple[Path, str]:
    """The file of a sound or film, which is sent as it is, and its type."""
    path = index.image_path(row)
    if path is None or media_kind(os.fspath(path)) not in ("audio", "video"):
        raise NotFoundError(f"item {row} is not an audio or video file")
    file = original_file(index, row)
    if file is None or file.suffix.lower() not in _TYPES:
        raise NotFoundError(
            f"the file of item {row} is not in the folder of the index: likewise serve INDEX --root DIR"
        )
    return file, _TYPES[file.suffix.lower()]


SIZES = {"small": 288, "large": 1280}
# One process more than uploads may keep busy: thumbnails never wait for uploads.
_PROCESSES, _UPLOADS = 3, 2
Picture = tuple[bytes, str]  # bytes and media type


class PictureDecoders(Decoders):
    """Decodes thumbnails and uploads in processes with limits of memory and time."""

    def __init__(self, limits: Limits) -> None:
        super().__init__(_PROCESSES, DecoderLimits(limits.picture_bytes, limits.picture_seconds))
        self._max_pixels = limits.pixels
        self._uploading = threading.Semaphore(_UPLOADS)

    def picture_of_file(self, path: Path, size: str) -> Picture | None:
        """The picture in a file, or None if it cannot be read."""
        try:
            return self.thumbnail(path, SIZES[size], self._max_pixels), "image/jpeg"
        except ImageError:
            return None

    def upload(self, data: bytes, at_least: int) -> Decoded:
        """Pixels of an uploaded picture; an `ImageError` says what is wrong with it."""
        try:
            with self._uploading:
                return self.pixels(data, at_least, self._max_pixels, reduced=True)
        except ImageError as error:
            raise type(error)(f"the picture {error}") from error


def placeholder(name: Any) -> Picture:
    """A grey tile with the name of an item that has no picture."""
    text = html.escape(str(name)[-16:])
    svg = (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 288 288"><rect width="288" height="288" fill="#8a93a3"'
        ' fill-opacity=".18"/><text x="144" y="152" font-family="system-ui,sans-serif" font-size="28" fill="#8a93a3"'
        f' text-anchor="middle">{text}</text></svg>'
    )
    return svg.encode(), "image/svg+xml"
