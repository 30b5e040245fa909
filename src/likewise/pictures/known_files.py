"""The rows that a store already has, by file and by content, so that a renamed or touched file keeps its features."""

from collections.abc import Collection, Iterator

from likewise.pictures.contents import ReadFile
from likewise.pictures.folder import ImageFile
from likewise.rows.store import Item


class KnownRows:
    """Rows of the store of an earlier run; `present` are the paths that are still there."""

    def __init__(self, items: list[Item], present: Collection[str]) -> None:
        self.items = items
        self.paths = {item.path for item in items}
        files = {ImageFile(item.path, item.size, item.mtime_ns): row for row, item in enumerate(items) if not item.hash}
        by_hash = {item.hash: row for row, item in enumerate(items) if item.hash}
        vanished = {item.hash: row for row, item in enumerate(items) if item.hash and item.path not in present}
        self._without_hash = files
        self._by_hash = {**by_hash, **vanished}  # a renamed file takes its own row rather than that of a copy

    def unread(self) -> Iterator[tuple[ReadFile, int]]:
        """Files with a hash, and their rows: while size and time stay the same, these need not be read."""
        for row, item in enumerate(self.items):
            if item.hash:
                yield ReadFile(ImageFile(item.path, item.size, item.mtime_ns), item.hash, item.taken), row

    def row_of(self, read: ReadFile) -> int | None:
        """The row of a file that was read: the same file in a store without hashes, or one with the same content."""
        return self._without_hash.get(read.file, self._by_hash.get(read.hash))
