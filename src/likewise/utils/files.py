"""Files that are either old or new, never in between; and folders with one writer at a time."""

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from filelock import FileLock, Timeout

from likewise.errors import LikewiseError

StrPath = str | os.PathLike[str]


def atomic_write(path: StrPath, content: bytes | Callable[[BinaryIO], None]) -> Path:
    """Write `content` (bytes, or a function that writes to a file) beside `path`, sync it, then rename it there."""
    path = Path(path)
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    except OSError as error:
        raise LikewiseError(f"cannot write {path}: {error.strerror or error}") from error
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content) if isinstance(content, bytes) else content(file)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
        with suppress(OSError):  # makes the rename itself durable, where the system allows it
            sync(path.parent)
    except OSError as error:
        raise LikewiseError(f"cannot write {path}: {error.strerror or error}; nothing was changed") from error
    finally:
        with suppress(OSError):
            os.unlink(temporary)
    return path


def make_folder(path: Path) -> None:
    """Create a folder and its parents, unless it exists."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LikewiseError(f"cannot create the folder {path}: {error.strerror or error}") from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def parsed_json(line: bytes) -> Any:
    """A line of JSON, or None if it is damaged."""
    try:
        return json.loads(line)
    except ValueError:
        return None


def append_synced(path: Path, data: bytes) -> None:
    """Append to a file; the data is on disk when this returns."""
    with open(path, "ab") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Create the folder and lock it for writing; the lock ends with the process, even if it is killed."""
    lock = FileLock(folder / ".lock")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire(blocking=False)
    except Timeout as error:
        raise LikewiseError(f"{folder} is being written by another process; wait for it to end") from error
    except OSError as error:
        raise LikewiseError(f"cannot write to {folder}: {error.strerror or error}") from error
    try:
        yield
    finally:
        lock.release()


def sync(path: Path) -> None:
    """Wait until a file or folder is on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
