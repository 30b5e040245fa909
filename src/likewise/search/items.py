"""The items of a gallery: ids, labels where known, paths, content hashes and dates of pictures, and metadata."""

from __future__ import annotations

import json
import logging
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from likewise.errors import FileFormatError, LikewiseError, MissingExtraError
from likewise.rows import Table
from likewise.rows.columns import Columns
from likewise.rows.store import escape, printable
from likewise.utils.arrays import row_hashes
from likewise.utils.validation import is_no_label

log = logging.getLogger("likewise")

_ID = ("id", "ids")
_LABEL = ("label", "labels", "y", "target", "class")
_PATH = ("path", "paths", "file", "name", "names")


@dataclass(frozen=True)
class Items:
    """Unique ids; labels (object, None where unknown), paths, content hashes and dates, each None if no item has one.

    `numbered` says that the ids are row numbers, given for want of others: they change with the gallery. `metadata`
    holds all other columns that the items came with, None if there were none. `id_column` is the column of the ids.
    """

    ids: np.ndarray
    labels: np.ndarray | None = None
    paths: np.ndarray | None = None
    hashes: np.ndarray | None = None
    dates: np.ndarray | None = None
    numbered: bool = False
    metadata: Columns | None = None
    id_column: str | None = None

    def __post_init__(self) -> None:
        if self.ids.dtype.kind == "i":  # without an object for each of a million numbers
            differ = bool((np.diff(self.ids) > 0).all()) or len(np.unique(self.ids)) == len(self.ids)
        else:
            differ = len(set(self.ids.tolist())) == len(self.ids)
        if not differ:
            twice = next(value for value, times in Counter(self.ids.tolist()).items() if times > 1)
            raise LikewiseError(f"items has the id {twice!r} twice; expected ids that are all different")

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def row_of(self) -> dict[int | str, int]:
        """The row of each id."""
        return {value: row for row, value in enumerate(self.ids.tolist())}

    @cached_property
    def own_ids(self) -> bool:
        """Whether ids are the user's own, neither row numbers nor paths: then they say which item is meant."""
        named = self.paths is not None and all(
            path is not None and name == escape(path) for name, path in zip(self.ids, self.paths, strict=True)
        )
        return not self.numbered and not named

    def row_of_text(self, text: str) -> int:
        """The row of an id as somebody types it."""
        name: Any = int(text) if self.ids.dtype.kind == "i" and text.strip().removeprefix("-").isdecimal() else text
        return int(self.rows_of([name])[0])

    def rows_of(self, ids: ArrayLike) -> np.ndarray:
        """Rows of the given ids."""
        wanted = _plain([ids] if isinstance(ids, str | int) else ids)
        unknown = [value for value in wanted if value not in self.row_of]
        if unknown:
            raise LikewiseError(f"the index has no item with the id {unknown[0]!r}")
        return np.array([self.row_of[value] for value in wanted], dtype=np.int64)

    def take(self, rows: np.ndarray) -> Items:
        """The items of the given rows."""
        taken: dict[str, Any] = {name: None if p is None else p[rows] for name, p in self.columns().items()}
        return replace(self, **taken, metadata=None if self.metadata is None else self.metadata.take(rows))

    def plus(self, other: Items) -> Items:
        """These items followed by `other`, whose ids are of the same kind."""
        self.check_ids_of(other)
        ids = _tidy_ids([*self.ids.tolist(), *other.ids.tolist()])
        columns: dict[str, Any] = {"ids": ids}
        for name, first in self.columns().items():
            second = getattr(other, name)
            if name != "ids" and not (first is None and second is None):
                parts = [_objects([None] * len(i)) if p is None else p for i, p in ((self, first), (other, second))]
                columns[name] = np.concatenate(parts)
        if self.metadata is not None or other.metadata is not None:
            columns["metadata"] = (self.metadata or Columns.of({})).plus(other.metadata, len(self), len(other))
        return replace(self, **columns, numbered=self.numbered and other.numbered)

    def check_ids_of(self, other: Items) -> None:
        """Raise unless others have ids where these have, and of the same kind."""
        if not self.numbered and other.numbered:
            column = self.id_column or ("path" if self.paths is not None and not self.own_ids else "id")
            raise LikewiseError(
                f"the new rows have no {column!r}; expected one for each, as the rows of the index have, such as "
                f"{self.ids[:1].tolist()[0]!r}"
            )
        if not self.numbered and len(other) and self.ids.dtype.kind != other.ids.dtype.kind:
            first, second = (items.ids[:1].tolist()[0] for items in (self, other))
            raise LikewiseError(f"the ids of the index are like {first!r}, and those of the new rows like {second!r}")

    def numbered_from(self, start: int) -> Items:
        """The same items; where they are numbered, from `start` on."""
        return replace(self, ids=np.arange(start, start + len(self))) if self.numbered else self

    def with_labels(self, labels: ArrayLike | None) -> Items:
        """The same items with other labels."""
        if labels is self.labels:
            return self
        return replace(self, labels=None if labels is None else as_items({"label": labels}, len(self)).labels)

    def labels_from(self, other: Items) -> list[Any]:
        """Labels of these items as `other` has them, own ones where it has not the item."""
        known = {} if other.labels is None else dict(zip(other.ids.tolist(), other.labels, strict=True))
        labels = [None] * len(self) if self.labels is None else self.labels
        return [known.get(name, label) for name, label in zip(self.ids.tolist(), labels, strict=True)]

    def to_json(self) -> bytes:
        """One JSON object; integers, strings and missing labels are restored as they were.

        Of ids that are the row numbers there is only their number.
        """
        parts = {
            name: None if part is None else part.tolist() for name, part in self.columns().items() if name != "ids"
        }
        is_range = self.ids.dtype.kind == "i" and np.array_equal(self.ids, np.arange(len(self)))
        parts["ids"] = len(self) if is_range else self.ids.tolist()
        named = {} if self.id_column is None else {"id_column": self.id_column}
        return json.dumps({**parts, "numbered": self.numbered, **named}, default=str).encode()

    @classmethod
    def from_json(cls, data: bytes, n: int, metadata: Columns | None = None) -> Items:
        """n items from the output of `to_json`."""
        try:
            parts = json.loads(data)
            ids = np.arange(n) if parts["ids"] == n else _tidy_ids(parts["ids"])
            labels, paths, hashes, dates = (_filled(parts[name]) for name in ("labels", "paths", "hashes", "dates"))
            if any(column is not None and len(column) != n for column in (ids, labels, paths, hashes, dates)):
                raise ValueError(f"a column has not {n} values")
            return cls(ids, labels, paths, hashes, dates, parts["numbered"], metadata, parts.get("id_column"))
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise FileFormatError(f"the items of the index cannot be read: {error!r}") from error

    def columns(self) -> dict[str, np.ndarray | None]:
        """All columns by name."""
        return {name: getattr(self, name) for name in ("ids", "labels", "paths", "hashes", "dates")}


class ItemColumns(Mapping[str, Any]):
    """The columns of items by name, as Arrow arrays, each built on its first access.

    `label` is text, whatever the labels are; the current ones.
    """

    def __init__(self, items: Items) -> None:
        self._items = items
        built_in = {"id": items.ids, "label": items.labels, "path": items.paths, "date": items.dates}
        metadata = [] if items.metadata is None else items.metadata.names
        if "date" in metadata:
            del built_in["date"]
        if items.id_column is not None:
            built_in[items.id_column] = items.ids  # under the name that the table has for it, too
        self._built_in = {name: column for name, column in built_in.items() if column is not None}
        self.names = [*self._built_in, *(name for name in metadata if name not in self._built_in)]
        self._arrays: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._arrays:
            self._arrays[name] = self._array(name)
        return self._arrays[name]

    def _array(self, name: str) -> Any:
        if name not in self._built_in:
            if self._items.metadata is None:
                raise KeyError(name)
            return self._items.metadata.column(name)
        import pyarrow as pa

        values = self._built_in[name].tolist()
        if name == "date":
            return pa.array(values, pa.string()).cast(pa.date32())
        if name == "label":
            values = [None if value is None else str(value) for value in values]
        try:
            return pa.array(values)
        except UnicodeEncodeError:  # file names are not always UTF-8
            return pa.array([v.encode("utf-8", "replace").decode() if isinstance(v, str) else v for v in values])

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


def as_items(items: object, n: int, id_column: str | None = None) -> Items:
    """Items of n rows from ids, mappings, a table or a data frame; ids default to row numbers."""
    if isinstance(items, Items):
        result = items
    else:
        columns = _columns(items, id_column)
        ids, paths = columns.get("ids"), columns.get("paths")
        result = Items(
            np.arange(n) if ids is None else _tidy_ids(ids),
            _labels(columns.get("labels")),
            None if paths is None else _objects([path if path is None else os.fspath(path) for path in paths]),
            numbered=ids is None,
            metadata=_metadata(items, columns),
            id_column=columns.get("id_column"),
        )
    for name, part in {**result.columns(), "rows of metadata": result.metadata}.items():
        if part is not None and len(part) != n:
            raise LikewiseError(f"items has {len(part)} {name}; expected {n}, one per row of the gallery")
    return result


def _metadata(items: object, taken: dict[str, Any]) -> Columns | None:
    """The columns that are no id, label or path under that very name."""
    if isinstance(items, Table):
        return None if items.metadata is None else items.metadata().without(items.known.get("id"))
    rest = {name: values for name, values in taken.get("rest", {}).items() if not isinstance(values, str)}
    if not rest:
        return None
    try:
        metadata = Columns.of(rest)
    except MissingExtraError as error:
        log.warning("%s; without it these columns are not kept: %s", error, ", ".join(rest))
        return None
    return metadata if metadata.names else None


def _columns(items: Any, id_column: str | None = None) -> dict[str, Any]:
    """Columns under our names: ids, labels and paths; and the name of the column of ids."""
    if items is None:
        return {}
    if isinstance(items, Table):
        return {"ids": items.ids, "labels": items.y, "paths": items.paths, "id_column": items.known.get("id")}
    if hasattr(items, "to_pydict"):  # an Arrow table, whose `columns` are not their names
        columns = dict(zip(items.column_names, map(list, items.to_pydict().values()), strict=True))
        return _columns(columns, id_column)
    if isinstance(items, Mapping) or hasattr(items, "columns"):
        usual = {"ids": _ID if id_column is None else (id_column.lower(),), "labels": _LABEL, "paths": _PATH}
        names = list(items.columns if hasattr(items, "columns") else items)
        lowered = {str(name).lower(): name for name in names}
        named = {
            ours: next((lowered[name] for name in known if name in lowered), None) for ours, known in usual.items()
        }
        columns = {ours: None if name is None else list(items[name]) for ours, name in named.items()}
        # The other columns, and those that have a name of their own for the id, the label or the path.
        built_in = {ours[:-1]: name for ours, name in named.items()}
        rest = {str(name): items[name] for name in names if built_in.get(str(name).lower()) != name}
        return {**columns, "id_column": None if named["ids"] is None else str(named["ids"]), "rest": rest}
    if isinstance(items, str | bytes) or not isinstance(items, Sequence | np.ndarray):
        raise LikewiseError(f"items is {type(items).__name__}; expected ids, a table, or columns id, label and path")
    first = items[0] if len(items) else None
    if isinstance(first, Mapping):
        return _columns({key: [item.get(key) for item in items] for item in items for key in item}, id_column)
    if hasattr(first, "_asdict"):  # named tuples, such as the items of a feature store
        return {**_columns([item._asdict() for item in items], id_column), "rest": {}}
    return {"ids": items}


def _labels(values: Any) -> np.ndarray | None:
    """Labels as objects, None where one is missing; None if no label is known."""
    if values is None:
        return None
    if set(map(type, values)) <= {str, type(None)}:  # each text is looked at once
        known = {value: None if is_no_label(value) else _shown(value) for value in set(values)}
        labels = [known[value] for value in values]
    else:
        labels = [None if is_no_label(value) else _shown(value) for value in _plain(values)]
    return _filled(labels) if any(label is not None for label in labels) else None


def _shown(label: Any) -> Any:
    """A label as pages and models take it: it may come from the name of a folder, which is bytes."""
    return printable(label) if isinstance(label, str) else label


def _objects(values: Any) -> np.ndarray:
    array = _filled(_plain(values))
    assert array is not None
    return array


def _filled(values: list[Any] | None) -> np.ndarray | None:
    """A list of Python's own values as an array of objects."""
    if values is None:
        return None
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _plain(values: Any) -> list[Any]:
    """Values as Python's own types."""
    return [value.item() if isinstance(value, np.generic) else value for value in values]


def _tidy_ids(values: Any) -> np.ndarray:
    """Integers as int64, anything else as strings."""
    plain = values if set(map(type, values)) <= {int, str} else _plain(values)
    types = set(map(type, plain))
    if types <= {int}:
        return np.array(plain, dtype=np.int64)
    return _objects(plain if types == {str} else [value if isinstance(value, str) else str(value) for value in plain])


# -- Which item is which -----------------------------------------------------------------------------------------------


_SAME = 0.99  # cosine of the features of a picture before and after a small edit; other pictures rarely reach .9
_PLAIN = re.compile(r"[A-Za-z0-9._-]{1,64}")
_ROW = "row:"  # before the hash of a row of numbers; that of a file has nothing before it


class ItemRef(NamedTuple):
    """An item as a journal names it: its id when it was written, and its content unless the id is the user's own."""

    id: Any
    hash: str | None = None


class Identities:
    """References to the items of an index, and back: from references to the rows where these items are now."""

    def __init__(self, items: Items, raw: np.ndarray) -> None:
        self.items, self._raw = items, raw

    def reference(self, row: int) -> ItemRef:
        """The reference of a row."""
        return self.references([row])[0]

    def references(self, rows: Sequence[int]) -> list[ItemRef]:
        """The references of rows."""
        ids, hashes = self.items.ids[rows].tolist(), self.items.hashes
        if self.items.own_ids:
            return [ItemRef(name) for name in ids]
        of_files = [None] * len(ids) if hashes is None else hashes[rows].tolist()
        if all(of_files):
            return [ItemRef(*pair) for pair in zip(ids, of_files, strict=True)]
        codes = row_hashes(self._raw[rows]).tolist()
        contents = [of_file or f"{_ROW}{code:016x}" for of_file, code in zip(of_files, codes, strict=True)]
        return [ItemRef(*pair) for pair in zip(ids, contents, strict=True)]

    def exact(self, reference: ItemRef) -> int | None:
        """The row with this id, unless its content is another."""
        row = self.items.row_of.get(reference.id)
        if row is None or reference.hash is None:
            return row if self.items.own_ids else None
        of_file = None if self.items.hashes is None else self.items.hashes[row]
        content = of_file or f"{_ROW}{int(self._row_codes[0][row]):016x}"
        return row if not self.items.own_ids and content == reference.hash else None

    def alike(self, reference: ItemRef) -> list[int]:
        """The rows with the content of a reference, in order."""
        return [] if reference.hash is None else self._rows(reference.hash)

    def is_edit_of(self, row: int, before: Identities, old_row: int) -> bool:
        """Whether a row has nearly the features of one before, and content that was not there before."""
        if before._raw.shape[1] != self._raw.shape[1] or before.alike(self.reference(row)):
            return False
        one, two = (np.asarray(raw, np.float64) for raw in (before._raw[old_row], self._raw[row]))
        return bool(one @ two >= _SAME * np.linalg.norm(one) * np.linalg.norm(two))

    def key(self, row: int) -> str:
        """A short name for a row, the same in every index that has the item: for addresses.

        An id that reads well in an address is its own name. Names of all rows are made only where files have hashes.
        """
        if self.items.own_ids:
            name = str(self.items.ids[row])
            return name if _PLAIN.fullmatch(name) else _digest(name)
        if self.items.hashes is not None:
            return self.keys[row]
        code = f"{int(self._row_codes[0][row]):016x}"
        place = self._rows(f"{_ROW}{code}").index(row)
        return code if not place else self._told_apart(code, place + 1, row)

    @cached_property
    def keys(self) -> list[str]:
        """The keys of all rows."""
        if self.items.own_ids or self.items.hashes is None:
            return [self.key(row) for row in range(len(self.items))]
        of_rows = None if all(self.items.hashes) else self._row_codes[0].tolist()
        codes = [h[:16] if h else f"{of_rows[row]:016x}" for row, h in enumerate(self.items.hashes)]  # type: ignore[index]
        times: dict[str, int] = {}
        for row, code in enumerate(codes):
            times[code] = times.get(code, 0) + 1
            if times[code] > 1:
                codes[row] = self._told_apart(code, times[code], row)
        return codes

    def row_of_key(self, key: str) -> int | None:
        """The row of a key; None if there is none."""
        if self.items.own_ids:
            number = int(key) if self.items.ids.dtype.kind == "i" and key.isdecimal() else key
            row = self.items.row_of.get(number)
            if row is not None and self.key(row) == key:
                return row
        elif self.items.hashes is None:
            rows = self._rows(f"{_ROW}{key}")
            if rows and self.key(rows[0]) == key:
                return rows[0]
        return self._rows_by_key.get(key)

    @cached_property
    def _rows_by_key(self) -> dict[str, int]:
        return {key: row for row, key in enumerate(self.keys)}

    def _told_apart(self, code: str, times: int, row: int) -> str:
        """The key of a copy of some content: by its id, or by its order where ids are row numbers."""
        return _digest(f"{code} {times if self.items.numbered else self.items.ids[[row]].tolist()[0]}")

    def _rows(self, content: str) -> list[int]:
        """Rows with this content, in order."""
        if content.startswith(_ROW):
            codes, order = self._row_codes
            try:
                wanted = np.uint64(int(content.removeprefix(_ROW), 16))
            except (ValueError, OverflowError):
                return []
            first, last = (np.searchsorted(codes, wanted, side, sorter=order) for side in ("left", "right"))
            return sorted(order[first:last].tolist())
        return self._file_rows.get(content, [])

    @cached_property
    def _row_codes(self) -> tuple[np.ndarray, np.ndarray]:
        """The hash of each row of numbers, and the rows sorted by it."""
        codes = row_hashes(self._raw)
        return codes, np.argsort(codes, kind="stable")

    @cached_property
    def _file_rows(self) -> dict[str, list[int]]:
        rows: dict[str, list[int]] = {}
        for row, content in enumerate([] if self.items.hashes is None else self.items.hashes):
            if content:
                rows.setdefault(content, []).append(row)
        return rows


class Place(NamedTuple):
    """The row of an item; not its own if that of a file with the same content."""

    row: int
    own: bool


class Places:
    """Where the items that a journal names are in an index.

    Parameters
    ----------
    identities : of the index
    named : for each item the names that its file has had, the newest first; items in the order in which they choose

    An item is the file that has its name and its content; failing that, a file with a name and content that it had
    before; failing that, one with the same content, if possible one that no other item is.
    """

    def __init__(self, identities: Identities, named: Iterable[Sequence[ItemRef]]) -> None:
        self.identities = identities
        self._names: dict[ItemRef, dict[ItemRef, None]] = {}
        for names in named:
            self._names.setdefault(names[0], {}).update(dict.fromkeys(names))
        self._places: dict[ItemRef, Place | None] = {}
        for latest in self._names:
            if (row := identities.exact(latest)) is not None:
                self._places[latest] = Place(row, True)
        self._taken = {place.row for place in self._places.values() if place is not None}
        for look in (self._by_earlier_name, self._by_content):
            for latest in self._names:
                if latest not in self._places and (place := look(latest)) is not None:
                    self._places[latest] = place
                    self._taken.add(place.row)

    def _by_earlier_name(self, latest: ItemRef) -> Place | None:
        rows = (self.identities.exact(name) for name in self._names[latest])
        return next((Place(row, True) for row in rows if row is not None and row not in self._taken), None)

    def _by_content(self, latest: ItemRef) -> Place | None:
        rows = [row for name in self._names[latest] for row in self.identities.alike(name)]
        free = next((row for row in rows if row not in self._taken), None)
        return Place(rows[0] if free is None else free, False) if rows else None

    def __getitem__(self, latest: ItemRef) -> Place | None:
        """The place of an item by its latest name; None if it is not in the index."""
        if latest not in self._names:
            self._names[latest] = {latest: None}
            row = self.identities.exact(latest)
            self._places[latest] = self._by_content(latest) if row is None else Place(row, True)
        return self._places.get(latest)

    def became(self, old: Places) -> Iterator[tuple[ItemRef, ItemRef]]:
        """Items whose files were edited or renamed since an earlier version of the index: their names then and now.

        A file of the same name with other features, or with content that another file had, is another picture.
        """
        before, now = old.identities, self.identities
        if now.items.paths is None or now.items.own_ids or before.items.own_ids:
            return
        taken = {row for latest in self._names if (row := now.exact(latest)) is not None}
        for latest, place in old._places.items():
            if place is None or not place.own or now.exact(latest) is not None:
                continue
            row = now.items.row_of.get(before.reference(place.row).id)
            if row is None or not now.is_edit_of(row, before, place.row):
                alike = (row for name in self._names.get(latest, (latest,)) for row in now.alike(name))
                new = (row for row in alike if row not in taken and before.exact(now.reference(row)) is None)
                row = next(new, None)  # not a copy that was there before
            if row is not None:
                taken.add(row)
                yield latest, now.reference(row)


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
