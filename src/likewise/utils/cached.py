"""Files that are made once and kept in the user's cache folder, each beside its checksum."""

import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from likewise.errors import LikewiseError
from likewise.utils.files import atomic_write


def cache_folder() -> Path:
    """Folder of cached files: $LIKEWISE_CACHE, or `likewise` in the cache folder of the user."""
    given = os.environ.get("LIKEWISE_CACHE")
    return Path(given) if given else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "likewise"


def cached_file(name: str, make: Callable[[], bytes], folder: Path | None = None) -> Path | None:
    """The file of that name with a matching checksum, made if need be; None if the folder cannot be written."""
    file = (folder or cache_folder()) / name
    if _is_whole(file):
        return file
    data = make()
    with suppress(OSError, LikewiseError):
        file.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(file, data)
        atomic_write(_proof(file), hashlib.sha256(data).hexdigest().encode() + b"\n")
        return file
    return None


def cached_bytes(name: str, make: Callable[[], bytes], folder: Path | None = None) -> bytes:
    """As `cached_file`, its content; where it cannot be kept, it is made again next time."""
    made: list[bytes] = []

    def once() -> bytes:
        made.append(make())
        return made[0]

    file = cached_file(name, once, folder)
    return made[0] if made or file is None else file.read_bytes()


def _proof(file: Path) -> Path:
    return file.with_suffix(".sha256")


def _is_whole(file: Path) -> bool:
    with suppress(OSError, UnicodeDecodeError), open(file, "rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest() == _proof(file).read_text().strip()
    return False
