"""Files that are either old or new, never in between; folders with one writer at a time; cached files."""

import hashlib
import io
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import numpy as np
from filelock import FileLock, Timeout

from likewise.errors import LikewiseError

StrPath = str | os.PathLike[str]
_BLOCK = 1 << 22
_TEMPORARY = re.compile(r"\.(.+)\.[a-z0-9_]{8}\.tmp", re.DOTALL)  # as mkstemp names them


@contextmanager
def os_errors(what: str, then: str = "") -> Iterator[None]:
    """Say in a sentence what the system refuses: "cannot write marks.csv: No space left on device"."""
    try:
        yield
    except OSError as error:
        raise LikewiseError(f"{what}: {error.strerror or error}{then}") from error


def atomic_write(path: StrPath, content: bytes | Callable[[BinaryIO], None], mode: int | None = None) -> Path:
    """Write `content` (bytes, or a function that writes to a file) next to `path`, sync it, then rename it there.

    `mode` is what the file permits; by default what the system gives to a new one.
    """
    path = Path(path)
    with os_errors(f"cannot write {path}"):
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with os_errors(f"cannot write {path}", "; nothing was changed"):
            with os.fdopen(handle, "wb") as file:
                file.write(content) if isinstance(content, bytes) else content(file)
                file.flush()
                os.fsync(file.fileno())
            if mode is None:
                os.umask(umask := os.umask(0))
                mode = 0o666 & ~umask
            os.chmod(temporary, mode)
            os.replace(temporary, path)
            with suppress(OSError):  # makes the rename itself durable, where the system allows it
                sync(path.parent)
    finally:
        with suppress(OSError):
            os.unlink(temporary)
    return path


def sweep(paths: Iterable[Path]) -> None:
    """Delete what `atomic_write` left next to these files if its process was killed; each folder is listed once."""
    folders: dict[Path, set[str]] = {}
    for path in paths:
        folders.setdefault(path.parent, set()).add(path.name)
    for folder, names in folders.items():
        with suppress(OSError):
            for name in os.listdir(folder):
                left = _TEMPORARY.fullmatch(name)
                if left is not None and left[1] in names:
                    os.unlink(folder / name)


def make_folder(path: Path) -> None:
    """Create a folder and its parents, unless it exists."""
    with os_errors(f"cannot create the folder {path}"):
        path.mkdir(parents=True, exist_ok=True)


def append_synced(path: Path, data: bytes) -> None:
    """Append to a file; the data is on disk when this returns."""
    with open(path, "ab") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def locked(path: Path, lock_file: Path | None = None) -> Iterator[None]:
    """Lock a folder, which is created, or what has a lock file; the lock ends with the process, even if killed."""
    lock = FileLock(path / ".lock" if lock_file is None else lock_file)
    with os_errors(f"cannot write to {path}"):
        if lock_file is None:
            path.mkdir(parents=True, exist_ok=True)
        try:
            # A process that was killed while it started another one may leave the lock to that one for a moment.
            lock.acquire(timeout=1)
        except Timeout as error:
            raise LikewiseError(f"{path} is being written by another process; wait for it to end") from error
    try:
        yield
    finally:
        lock.release()


def link(source: Path, target: Path) -> None:
    """Give a file a second name; a copy where the file system has no links."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def reserve(path: Path) -> None:
    """Give a sparse file its room on disk: a mapped page that finds the disk full would end the process (SIGBUS)."""
    with open(path, "r+b") as file:
        size = os.fstat(file.fileno()).st_size
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, max(1, size))
            return
        for first in range(0, size, _BLOCK):
            file.seek(first)
            block = file.read(_BLOCK)
            file.seek(first)
            file.write(block)


def sync(path: Path) -> None:
    """Wait until a file or folder is on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# -- Files that are made once and stored in the user's cache folder, each next to its checksum -------------------------


def cache_folder() -> Path:
    """Folder of cached files: $LIKEWISE_CACHE, or `likewise` in the cache folder of the user."""
    folder = os.environ.get("LIKEWISE_CACHE")
    return Path(folder) if folder else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "likewise"


def cached_file(name: str, make: Callable[[], bytes], folder: Path | None = None) -> Path | bytes:
    """The file of that name with a matching checksum, made if need be; where it cannot be stored, its content."""
    file = (folder or cache_folder()) / name
    checksum = file.with_suffix(".sha256")
    with suppress(OSError, UnicodeDecodeError), open(file, "rb") as opened:
        if hashlib.file_digest(opened, "sha256").hexdigest() == checksum.read_text().strip():
            return file
    data = make()
    with suppress(OSError, LikewiseError):
        file.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(file, data)
        atomic_write(checksum, hashlib.sha256(data).hexdigest().encode() + b"\n")
        return file
    return data


def cached_bytes(name: str, make: Callable[[], bytes], folder: Path | None = None) -> bytes:
    """The content of `cached_file`."""
    cached = cached_file(name, make, folder)
    return cached if isinstance(cached, bytes) else cached.read_bytes()


def cached_array(name: str, compute: Callable[[], np.ndarray]) -> np.ndarray:
    """The array in the cached file of that name, memory-mapped where it could be stored."""

    def content() -> bytes:
        buffer = io.BytesIO()
        np.save(buffer, compute(), allow_pickle=False)
        return buffer.getvalue()

    cached = cached_file(name, content)
    if isinstance(cached, bytes):
        return np.asarray(np.load(io.BytesIO(cached), allow_pickle=False))
    mapped: np.ndarray = np.load(cached, mmap_mode="r", allow_pickle=False)
    return mapped
