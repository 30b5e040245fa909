"""Results as files: a CSV of the results, and a ZIP of the pictures."""

import io
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from likewise.serve.catalogue import original_file
from likewise.serve.session import Recent, Session
from likewise.utils.wording import csv_text

MOST_FILES = 500
MOST_BYTES = 2**30
_PIECE = 1 << 20
_HEAD = ("rank", "id", "path", "label", "score")


@dataclass(frozen=True)
class Export:
    """Rows and scores to download, the pictures for the ZIP, and a note on those left out."""

    rows: list[int]
    scores: list[float] | None
    pictures: list[Path]
    note: str | None


class Exports:
    """The last exports, by name; files are generated while they are downloaded."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._recent: Recent[Export] = Recent(32, "this export is no longer available; prepare it again")

    def add(self, rows: list[int], scores: list[float] | None = None) -> tuple[str, Export]:
        """Keep rows for a download, under a new name."""
        paths = [path for row in rows if (path := original_file(self.session.index, row)) is not None]
        sizes = np.cumsum([path.stat().st_size for path in paths[:MOST_FILES]])
        pictures = paths[: int((sizes <= MOST_BYTES).sum())]
        note = None
        if len(pictures) < len(paths):
            limit = f"{MOST_FILES} pictures or {MOST_BYTES >> 30} GB"
            note = f"The ZIP has the first {len(pictures)} of {len(paths):,} pictures: it holds at most {limit}."
        export = Export(rows, scores, pictures, note)
        return self._recent.add(export), export

    def get(self, name: str) -> Export:
        return self._recent[name]

    def csv(self, export: Export) -> str:
        """Rank, id, path, label and score of each item, and the columns that the items came with."""
        session, index = self.session, self.session.index
        columns = index.metadata
        more = columns.rows(export.rows) if columns is not None else [{}] * len(export.rows)
        lines = []
        for place, (row, fields) in enumerate(zip(export.rows, more, strict=True)):
            score = None if export.scores is None else round(export.scores[place], 6)
            path = None if index.paths is None else index.paths[row]
            lines.append((place + 1, index.ids[row], path, session.labels[row], score, *fields.values()))
        names = [f"item {name}" if name in _HEAD else name for name in (columns.names if columns is not None else ())]
        return csv_text((*_HEAD, *names), lines)


def zipped(paths: list[Path]) -> Iterator[bytes]:
    """A ZIP of files as they are, piece by piece; names that occur twice are numbered."""
    out = _Pieces()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:  # pictures are compressed already
        for path, name in zip(paths, unique_names(paths), strict=True):
            try:
                source = path.open("rb")
            except OSError:
                continue  # deleted in the meantime
            with source, archive.open(zipfile.ZipInfo(name), "w") as target:
                while piece := source.read(_PIECE):
                    target.write(piece)
                    yield out.take()
    yield out.take()


def unique_names(paths: Iterable[Path]) -> list[str]:
    """File names, the later ones of the same name numbered: a.jpg, a (2).jpg."""
    names: list[str] = []
    taken: set[str] = set()
    for path in paths:
        name, number = path.name, 1
        while name.lower() in taken:
            number += 1
            name = f"{path.stem} ({number}){path.suffix}"
        taken.add(name.lower())
        names.append(name)
    return names


class _Pieces(io.RawIOBase):
    """A write-only buffer whose content is taken piece by piece."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        part = bytes(data)  # type: ignore[call-overload]
        self._parts.append(part)
        return len(part)

    def take(self) -> bytes:
        whole, self._parts = b"".join(self._parts), []
        return whole
