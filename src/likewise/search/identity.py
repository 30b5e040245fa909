"""Which item is which in a gallery that changes: files and rows by their content, other items by the user's own ids."""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from likewise.rows.store import escape
from likewise.search.items import Items
from likewise.utils.arrays import row_hashes

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
        name = self.items.ids[[row]].tolist()[0]
        if self.items.own_ids:
            return ItemRef(name)
        of_file = None if self.items.hashes is None else self.items.hashes[row]
        return ItemRef(name, of_file or f"{_ROW}{int(row_hashes(self._raw[[row]])[0]):016x}")

    def row(self, reference: ItemRef, aliases: Mapping[str, str] | None = None) -> int | None:
        """The row of an item, None if it is not here; `aliases` leads from the hash of a file to that of its edit.

        The content decides. Of several rows with the same content, the one that still has the same id is taken.
        """
        if reference.hash is None:
            return self.items.row_of.get(reference.id) if self.items.own_ids else None
        rows = self._rows(reference.hash)
        seen = set[str]()
        found = reference.hash
        while not rows and aliases and found in aliases and found not in seen:
            seen.add(found)
            found = aliases[found]
            rows = self._rows(found)
        same = self.items.row_of.get(reference.id)
        return same if same in rows else (rows[0] if rows else None)

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
        """The row of a key; also of one that an own id had in addresses of earlier versions."""
        if self.items.own_ids:
            number = int(key) if self.items.ids.dtype.kind == "i" and key.isdecimal() else key
            found = self.items.row_of.get(number)
            if found is not None and self.key(found) == key:
                return found
        elif self.items.hashes is None:
            rows = self._rows(f"{_ROW}{key}")
            if rows and self.key(rows[0]) == key:
                return rows[0]
        return self._rows_by_key.get(key)

    @cached_property
    def _rows_by_key(self) -> dict[str, int]:
        earlier = [_digest(str(name)) for name in self.items.ids.tolist()] if self.items.own_ids else []
        return {key: row for keys in (earlier, self.keys) for row, key in enumerate(keys)}

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
        found: dict[str, list[int]] = {}
        for row, content in enumerate([] if self.items.hashes is None else self.items.hashes):
            if content:
                found.setdefault(content, []).append(row)
        return found


def edited(
    named: Iterable[ItemRef], old: Identities, new: Identities, aliases: Mapping[str, str]
) -> Iterator[tuple[ItemRef, ItemRef]]:
    """Items whose content is no longer there, but whose file is, with nearly the same features: references of both.

    A file of the same name with other features is another picture.
    """
    for reference in named:
        row = None if new.row(reference, aliases) is not None else old.row(reference, aliases)
        if row is None or reference.hash is None or old.items.paths is None:
            continue
        path = old.items.paths[row]
        now = None if path is None else new.items.row_of.get(escape(path))
        if now is not None and not new.items.own_ids and _alike(old._raw[row], new._raw[now]):
            yield reference, new.reference(now)


def _alike(one: np.ndarray, two: np.ndarray) -> bool:
    if one.shape != two.shape:
        return False
    one, two = np.asarray(one, np.float64), np.asarray(two, np.float64)
    return bool(one @ two >= _SAME * np.linalg.norm(one) * np.linalg.norm(two))


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
