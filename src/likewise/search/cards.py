"""What is shown of an item that has metadata: a title, a text, an address and some fields."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any
from urllib.parse import urlsplit

from likewise.errors import LikewiseError
from likewise.rows.columns import Columns
from likewise.rows.table import TEXT_NAMES, TITLE_NAMES, URL_NAMES
from likewise.search.items import Items

_MOST_FIELDS = 4
_SHORT = 60  # characters of a text that is shown as a field
_SAMPLE = 50  # items looked at to see how long texts are
_PREVIEW = 360  # characters of a text on a card


@dataclass(frozen=True)
class CardLayout:
    """The columns that are shown as title, text and address, and those shown with their names."""

    title: str | None = None
    text: str | None = None
    url: str | None = None
    fields: tuple[str, ...] = ()

    @property
    def columns(self) -> list[str]:
        """All columns that a card shows."""
        parts = (self.title, self.text, self.url, *self.fields)
        return list(dict.fromkeys(name for name in parts if name is not None))


@dataclass(frozen=True)
class Card:
    """What is shown of one item."""

    title: str | None = None
    text: str | None = None
    url: str | None = None
    fields: tuple[tuple[str, Any], ...] = ()


def card_layout(items: Items, show: Sequence[str] = ()) -> CardLayout:
    """The columns named, of which those with usual names are title, text and address; without names, a choice."""
    columns = items.metadata
    if columns is None:
        if show:
            raise LikewiseError(f"--show {','.join(show)}: the index has no metadata, so there is nothing more to show")
        return CardLayout()
    unknown = [name for name in show if name not in columns.names]
    if unknown:
        raise LikewiseError(f"--show: there is no column {unknown[0]!r}; the columns are {', '.join(columns.names)}")
    names, kinds = list(show) or columns.names, columns.kinds
    texts = [name for name in names if kinds[name] == "text"]
    lowered = {name.lower(): name for name in reversed(texts)}
    usual = (TITLE_NAMES, TEXT_NAMES, URL_NAMES)
    title, text, url = (next((lowered[name] for name in names if name in lowered), None) for names in usual)
    if show and title is None:
        title = next((name for name in texts if name not in (text, url)), None)
    rest = [name for name in names if name not in (title, text, url)]
    if not show:
        rest = _short_columns(items, columns, rest)[:_MOST_FIELDS]
    return CardLayout(title, text, url, tuple(rest))


def cards(items: Items, layout: CardLayout, rows: Sequence[int], whole: bool = False) -> list[Card | None]:
    """The cards of some rows, None without metadata; with `whole`, texts in full and all columns."""
    if items.metadata is None:
        return [None] * len(rows)
    fields = layout.fields
    if whole:
        fields = tuple(name for name in items.metadata.names if name not in (layout.title, layout.text, layout.url))
    result: list[Card | None] = []
    for values in items.metadata.rows(rows, None if whole else layout.columns):
        title, text, url = (None if name is None else values[name] for name in (layout.title, layout.text, layout.url))
        if text is not None and not whole and len(text) > _PREVIEW:
            text = text[:_PREVIEW].rsplit(None, 1)[0] + " …"
        shown = ((name, shown_value(values[name])) for name in fields)
        result.append(Card(title, text, safe_url(url), tuple(pair for pair in shown if pair[1] is not None)))
    return result


def safe_url(url: str | None) -> str | None:
    """An address that may be a link: of the web, and nothing that a browser would run."""
    if url is None:
        return None
    try:
        parts = urlsplit(url.strip())
    except ValueError:
        return None
    return url.strip() if parts.scheme in ("http", "https") and parts.netloc else None


def shown_value(value: Any) -> str | int | float | bool | None:
    """A value as JSON has it; dates as ISO writes them."""
    if isinstance(value, date):  # times too
        return value.isoformat()
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _short_columns(items: Items, columns: Columns, names: Sequence[str]) -> list[str]:
    """Columns of short values that do not repeat the label or the id."""
    sample = range(min(_SAMPLE, len(items)))
    rows = columns.rows(sample, names)
    elsewhere = [[None if c is None else str(c[row]) for row in sample] for c in (items.labels, items.ids)]
    short = []
    for name in names:
        values = [None if row[name] is None else str(row[name]) for row in rows]
        if values not in elsewhere and max((len(value) for value in values if value), default=0) <= _SHORT:
            short.append(name)
    return short
