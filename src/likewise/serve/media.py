"""What an item is: a picture, sound, a film, or none of these; and the files of sound and film, as they are."""

import os
from pathlib import Path
from typing import Literal

from likewise.pictures.images import EXTENSIONS
from likewise.search import Index
from likewise.search.rank import NotFoundError

MediaKind = Literal["picture", "audio", "video", "item"]
# What browsers play; the type comes from this table, never from the file.
_TYPES = {
    ".mp3": "audio/mpeg", ".ogg": "audio/ogg", ".oga": "audio/ogg", ".opus": "audio/ogg", ".wav": "audio/wav",
    ".flac": "audio/flac", ".m4a": "audio/mp4", ".aac": "audio/aac",
    ".mp4": "video/mp4", ".m4v": "video/mp4", ".webm": "video/webm", ".ogv": "video/ogg", ".mov": "video/quicktime",
}  # fmt: skip


def media_kind(path: str | None) -> MediaKind:
    """What a file is by its name."""
    suffix = "" if path is None else os.path.splitext(path)[1].lower()
    if suffix in EXTENSIONS:
        return "picture"
    return _TYPES[suffix].partition("/")[0] if suffix in _TYPES else "item"  # type: ignore[return-value]


def media_file(index: Index, row: int) -> tuple[Path, str]:
    """The file of a sound or film and its type; it must be inside the folder of the index, wherever links lead.

    A picture is decoded and encoded again, so that only pixels leave the machine; these files are sent as they are.
    """
    path = index.image_path(row)
    if path is None or media_kind(os.fspath(path)) not in ("audio", "video"):
        raise NotFoundError(f"item {row} is no sound and no film")
    found = Path(os.path.realpath(path))
    if index.root is None or not found.is_relative_to(os.path.realpath(index.root)) or not found.is_file():
        raise NotFoundError(
            f"the file of item {row} is not in the folder of the index: likewise serve INDEX --root DIR"
        )
    if found.suffix.lower() not in _TYPES:  # a link to something else
        raise NotFoundError(f"item {row} is no sound and no film")
    return found, _TYPES[found.suffix.lower()]
