"""A folder that is replaced as a whole: one subfolder per version, and a small pointer file that names the current one.

A new version is written next to the old one and synced; then the pointer is replaced by one rename, and the old version
is removed. A process killed at any moment leaves the old version or the new one.
"""

import json
import re
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar

import likewise
from likewise.errors import FileFormatError, LikewiseError
from likewise.utils.files import atomic_write, sweep, sync

META = "meta.json"
_PREFIX = "version-"
_NAME = re.compile(rf"{_PREFIX}[0-9a-f]{{12}}")
_TRIES = 1000  # a folder replaced that often while it is read is more than busy

Result = TypeVar("Result")
Facts = dict[str, Any]


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
    """

    kind: str
    pointer: str
    parts: Set[str]
    format: int
    required: Mapping[str, type | UnionType]
    optional: Mapping[str, type | UnionType]

    def current(self, folder: Path) -> Path | None:
        """The folder of the current version, or None if there is no valid pointer."""
        with suppress(OSError, UnicodeDecodeError):
            name = (folder / self.pointer).read_text("utf-8").strip()
            return folder / name if _NAME.fullmatch(name) else None  # a name must not lead out of the folder
        return None

    def is_free(self, folder: Path, others: Set[str] = frozenset()) -> bool:
        """Whether a folder is of this kind, empty, or left by an interrupted first write; `others` are ignored."""
        return self.current(folder) is not None or all(
            path.name in {".lock", *others} or path.match(f".{self.pointer}.*.tmp") or self._is_version(path)
            for path in folder.iterdir()
        )

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
                raise FileFormatError(f"{folder} is not {self.kind}: it has no {self.pointer}")
            try:
                return read(version)
            except (LikewiseError, OSError) as error:  # a file may vanish between any two steps of a reader
                if self.current(folder) != version:
                    continue
                if isinstance(error, LikewiseError):
                    raise
                raise FileFormatError(f"{folder} cannot be read: {error}") from error
        raise LikewiseError(f"{folder} is being replaced again and again: it cannot be read")

    @contextmanager
    def replace(self, folder: Path) -> Iterator[Path]:
        """A new subfolder to write to; it becomes the current version if the block ends without an error.

        The caller holds the lock of the folder.
        """
        self.clean(folder)
        version = folder / f"{_PREFIX}{secrets.token_hex(6)}"
        try:
            version.mkdir()
            yield version
            for path in (*version.iterdir(), version, folder):
                sync(path)
            atomic_write(folder / self.pointer, f"{version.name}\n".encode())
        except BaseException as error:
            if self.current(folder) != version:
                shutil.rmtree(version, ignore_errors=True)
            if isinstance(error, OSError):
                reason = error.strerror or error
                raise LikewiseError(f"cannot write {folder}: {reason}; nothing was changed") from error
            raise
        self.clean(folder)

    def clean(self, folder: Path) -> None:
        """Remove all versions but the current one: earlier ones, and what a killed process left."""
        sweep([folder / self.pointer])
        current = self.current(folder)
        for path in folder.glob(f"{_PREFIX}*"):
            if path != current and self._is_version(path):
                shutil.rmtree(path, ignore_errors=True)

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
