"""Atomic writing of files."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from likewise.errors import LikewiseError

__all__ = ["atomic_write", "sync"]


def atomic_write(path: str | os.PathLike[str], content: bytes | Callable[[BinaryIO], None]) -> Path:
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


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def sync(path: Path) -> None:
    """Wait until a file or folder is on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
