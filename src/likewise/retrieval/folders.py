"""A folder that is replaced as a whole: each version in a subfolder, and one small file that says which one counts.

`CURRENT` names the subfolder. A new version is written beside the old one, synced, and then `CURRENT` is renamed into
place; only after that the old one is removed. Whoever is killed in between leaves the old version or the new one.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

import likewise
from likewise.errors import FileFormatError, LikewiseError, MissingExtraError
from likewise.utils.files import atomic_write
from likewise.utils.locks import locked

__all__ = ["FORMAT", "check_free", "mapped", "opened", "read_faiss", "replaced"]

FORMAT = 1
_POINTER = "CURRENT"
_PREFIX = "version-"
_META = "meta.json"


def replaced(folder: Path, write: Callable[[Path], dict[str, Any]]) -> Path:
    """Let `write` fill a new version and return its facts, make it the current one, and return its subfolder."""
    with locked(folder):
        _forget(folder, keep=_current(folder))
        new = folder / f"{_PREFIX}{secrets.token_hex(6)}"
        new.mkdir()
        try:
            facts = write(new)
            _seal(new, facts)
            atomic_write(folder / _POINTER, f"{new.name}\n".encode())
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise
        _forget(folder, keep=new.name)
    return new


@contextmanager
def opened(folder: Path, verify: bool = True) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The current version and its facts; files that are damaged or missing are named in the error."""
    name = _current(folder)
    if name is None:
        raise (
            FileFormatError(f"{folder} is not an index: it has no {_POINTER}")
            if folder.exists()
            else LikewiseError(f"{folder} does not exist")
        )
    version = folder / name
    facts = _read_facts(version)
    for file, digest in facts["files"].items():
        _check(version / file, digest if verify else None)
    yield version, facts


def _current(folder: Path) -> str | None:
    with suppress(OSError, UnicodeDecodeError):
        name = (folder / _POINTER).read_text("utf-8").strip()
        # The name comes from a file: it must not lead out of the folder.
        return name if name.startswith(_PREFIX) and name == os.path.basename(name) else None
    return None


def _forget(folder: Path, keep: str | None) -> None:
    """Remove versions that do not count: earlier ones, and what a killed process left."""
    for path in folder.glob(f"{_PREFIX}*"):
        if path.name != keep:
            shutil.rmtree(path, ignore_errors=True)


def _seal(version: Path, facts: dict[str, Any]) -> None:
    """Write the facts with a checksum of every file, and sync all of it."""
    files = {path.name: _digest(path) for path in sorted(version.iterdir())}
    card = {"format": FORMAT, "likewise": likewise.__version__, **facts, "files": files}
    atomic_write(version / _META, (json.dumps(card, indent=2, sort_keys=True) + "\n").encode())
    for path in (*version.iterdir(), version, version.parent):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _read_facts(version: Path) -> dict[str, Any]:
    try:
        facts: dict[str, Any] = json.loads((version / _META).read_bytes())
        newest, _ = int(facts["format"]), facts["files"].items()
    except FileNotFoundError as error:
        raise FileFormatError(f"{version.parent} is damaged: {version / _META} is missing") from error
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        raise FileFormatError(f"{version / _META} is damaged: {error!r}") from error
    if newest > FORMAT:
        raise FileFormatError(
            f"{version.parent} has format {newest}; likewise {likewise.__version__} reads up to {FORMAT}: upgrade it"
        )
    return facts


def _check(path: Path, digest: str | None) -> None:
    if not path.is_file():
        raise FileFormatError(f"{path.parent.parent} is damaged: {path} is missing")
    if digest is not None and _digest(path) != digest:
        raise FileFormatError(f"{path} has been altered or damaged: its checksum does not match its content")


def _digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_free(folder: Path) -> None:
    """Whether an index may be saved there: in a new folder, an empty one, or in place of another index."""
    if folder.is_file():
        raise LikewiseError(f"{folder} is a file; an index is a folder")
    if folder.is_dir() and not (folder / _POINTER).exists() and _occupied(folder):
        raise LikewiseError(f"{folder} is a folder with other files in it; give an index a folder of its own")


def _occupied(folder: Path) -> bool:
    """Whether a folder holds anything but what an interrupted first save has left."""
    return any(not path.name.startswith((_PREFIX, ".", "feedback")) for path in folder.iterdir())


def mapped(path: Path) -> np.ndarray:
    """An array that stays on the disk until it is used."""
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise FileFormatError(f"{path} is damaged or truncated: {error}") from error


def read_faiss(path: Path) -> Any:
    """An approximate index as faiss wrote it."""
    try:
        import faiss
    except ImportError as error:
        raise MissingExtraError("an approximate index", "serve") from error
    return faiss.read_index(os.fspath(path))
