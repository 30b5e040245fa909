"""A folder that is replaced as a whole: one subfolder per version, and a small pointer file that names the current one.

A new version is written next to the old one and synced; then the pointer is replaced by one rename. A process killed at
any moment leaves the old version or the new one. An old version is removed when no process reads it any longer; of some
kinds the one before the current version stays, for a rollback.
"""

import json
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar

try:
    import fcntl
except ImportError:  # Windows does not remove files that are open
    fcntl = None  # type: ignore[assignment]

import likewise
from likewise.errors import FileFormatError, LikewiseError
from likewise.utils.files import atomic_write, sweep, sync

META = "meta.json"
_PREFIX = "version-"
_NAME = re.compile(rf"{_PREFIX}[0-9a-f]{{12}}")
_TRIES = 1000  # a folder replaced that often while it is read is more than busy

Result = TypeVar("Result")
Facts = dict[str, Any]


class Hold:
    """A version that is being read: its files stay until this object is gone, or the process."""

    def __init__(self, version: Path) -> None:
        self.version = version
        self._handle = -1 if fcntl is None else os.open(version, os.O_RDONLY)
        if fcntl is not None:
            with suppress(OSError):  # some network file systems have no locks
                fcntl.flock(self._handle, fcntl.LOCK_SH | fcntl.LOCK_NB)

    def __del__(self) -> None:
        if getattr(self, "_handle", -1) >= 0:
            os.close(self._handle)


@dataclass(frozen=True)
class Versions:
    """A kind of versioned folder.

    Parameters
    ----------
    kind : what such a folder is, with its article, for error messages
    pointer : name of the file that names the current version; it tells the kinds apart
    parts : names of the files that a version may have
    format : format of the files that this release reads and writes
    required, optional : the fields of `meta.json` and their types
    keeps_previous : whether the version before the current one stays; the second line of the pointer names it
    """

    kind: str
    pointer: str
    parts: Set[str]
    format: int
    required: Mapping[str, type | UnionType]
    optional: Mapping[str, type | UnionType]
    keeps_previous: bool = False

    def current(self, folder: Path) -> Path | None:
        """The folder of the current version, or None if there is no valid pointer."""
        return self._named(folder, 0)

    def previous(self, folder: Path) -> Path | None:
        """The version before the current one, if it was kept."""
        version = self._named(folder, 1)
        return version if version is not None and version.is_dir() else None

    def _named(self, folder: Path, line: int) -> Path | None:
        with suppress(OSError, UnicodeDecodeError):
            names = [name.strip() for name in (folder / self.pointer).read_text("utf-8").splitlines()]
            if all(map(_NAME.fullmatch, names)):  # a name must not lead out of the folder
                return folder / names[line] if line < len(names) else None
        return None

    def is_free(self, folder: Path, others: Set[str] = frozenset()) -> bool:
        """Whether a folder is of this kind, empty, or left by an interrupted first write; `others` are ignored."""
        return self.current(folder) is not None or all(
            path.name in {".lock", *others} or path.match(f".{self.pointer}.*.tmp") or self._is_version(path)
            for path in folder.iterdir()
        )

    def versions(self, folder: Path) -> list[Path]:
        """All versions on disk: the current one, the one before, then others, the last one written first."""
        first = [self.current(folder), self.previous(folder)]
        others = [path for path in folder.glob(f"{_PREFIX}*") if path not in first and self._is_version(path)]
        others.sort(key=lambda path: path.stat().st_mtime_ns, reverse=True)
        return [path for path in (*first, *others) if path is not None and path.is_dir()]

    def _is_version(self, path: Path) -> bool:
        """Whether a folder is a version and contains nothing but its parts."""
        return (
            _NAME.fullmatch(path.name) is not None
            and path.is_dir()
            and not path.is_symlink()
            and all(entry.name in self.parts or entry.match(".*.tmp") for entry in path.iterdir())
        )

    def read(self, folder: Path, read: Callable[[Path], Result]) -> Result:
        """The result of `read(version)` for the current version, even if versions are replaced meanwhile."""
        for _ in range(_TRIES):
            version = self.current(folder)
            if version is None:
                if not folder.exists():
                    raise LikewiseError(f"{folder} does not exist")
                if self.versions(folder):
                    raise FileFormatError(
                        f"{folder} is damaged: its {self.pointer} is lost; likewise check {folder} --repair"
                    )
                raise FileFormatError(f"{folder} is not {self.kind}: it has no {self.pointer}")
            try:
                return read(version)
            except (LikewiseError, OSError) as error:  # a file may vanish between any two steps of a reader
                if self.current(folder) != version:
                    continue
                if isinstance(error, LikewiseError) and "damaged" not in str(error):
                    raise
                reason = error if isinstance(error, LikewiseError) else f"{folder} is damaged: {error}"
                raise FileFormatError(f"{reason}; likewise check {folder} --repair") from error
        raise LikewiseError(f"{folder} is being replaced again and again: it cannot be read")

    @contextmanager
    def replace(self, folder: Path) -> Iterator[Path]:
        """A new subfolder to write to; it becomes the current version if the block ends without an error.

        The caller holds the lock of the folder.
        """
        self.clean(folder)
        version, before = folder / f"{_PREFIX}{secrets.token_hex(6)}", self.current(folder)
        try:
            version.mkdir()
            yield version
            for path in (*version.iterdir(), version, folder):
                sync(path)
            self.point(folder, version, before)
        except BaseException as error:
            if self.current(folder) != version:
                shutil.rmtree(version, ignore_errors=True)
            if isinstance(error, OSError):
                reason = error.strerror or error
                raise LikewiseError(f"cannot write {folder}: {reason}; nothing was changed") from error
            raise
        self.clean(folder)

    def point(self, folder: Path, current: Path, before: Path | None) -> None:
        """Make a version the current one; the caller has the lock."""
        names = [current.name, *([before.name] if before is not None and self.keeps_previous else [])]
        atomic_write(folder / self.pointer, "".join(f"{name}\n" for name in names).encode())

    def rollback(self, folder: Path) -> Path:
        """Make the version before the current one the current one, and the other way round; the caller has the lock."""
        current, before = self.current(folder), self.previous(folder)
        if current is None:
            raise FileFormatError(f"{folder} is not {self.kind}: it has no {self.pointer}")
        if before is None:
            raise LikewiseError(f"{folder} has no earlier version to go back to")
        self.point(folder, before, current)
        return before

    def clean(self, folder: Path) -> None:
        """Remove what a killed process left, and all versions but the current one, the kept one and those in use."""
        sweep([folder / self.pointer])
        spared = {self._named(folder, line) for line in range(1 + self.keeps_previous)}
        for path in folder.glob(f"{_PREFIX}*"):
            if path not in spared and self._is_version(path):
                with suppress(OSError):  # a process reads it
                    handle = -1 if fcntl is None else os.open(path, os.O_RDONLY)
                    try:
                        if fcntl is not None:
                            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        shutil.rmtree(path, ignore_errors=True)
                    finally:
                        if handle >= 0:
                            os.close(handle)

    def read_facts(self, version: Path) -> Facts:
        """The content of `meta.json` of a version; a damaged field is named."""
        path = version / META
        try:
            facts: Any = json.loads(path.read_bytes())
        except FileNotFoundError as error:
            raise FileFormatError(f"{version.parent} is damaged: {path} is missing") from error
        except (ValueError, RecursionError, OSError) as error:
            raise FileFormatError(f"{path} is damaged: {error!r}") from error
        if not isinstance(facts, dict):
            raise FileFormatError(f"{path} is damaged: it contains no object")
        number = facts.get("format")
        if isinstance(number, int) and number > self.format:
            raise FileFormatError(
                f"{version.parent} has format {number}; likewise {likewise.__version__} reads up to {self.format}: "
                "upgrade likewise"
            )
        for name, kind in {"format": int, **self.required, **self.optional}.items():
            if name not in facts and name not in self.optional:
                raise FileFormatError(f"{path} is damaged: its field {name!r} is missing")
            value = facts.get(name)
            if name in facts and (not isinstance(value, kind) or (value is True)):
                raise FileFormatError(f"{path} is damaged: its field {name!r} is {str(value)[:60]!r}")
        return facts

    def facts_to_json(self, facts: Mapping[str, Any]) -> bytes:
        """`meta.json` as bytes; nothing in it depends on when or how fast it was written."""
        card = {"format": self.format, "likewise": likewise.__version__, **facts}
        return (json.dumps(card, indent=2, sort_keys=True) + "\n").encode()
