"""The undo list of sidecars: what each was before a keyword was written into it, on disk before the write.

One JSON object per line. The first says which keyword; then, per sidecar, what is about to be written, that it was, and
that it was taken back. A line torn by a crash belongs to a write that never began.
"""

import base64
import hashlib
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from likewise.errors import FileFormatError, LikewiseError
from likewise.pictures.xmp import FIELDS
from likewise.utils.files import append_synced, atomic_write, parsed_json

_KIND = "undo list of sidecars"


def default_undo_list(index: Path, label: str) -> Path:
    """photos.cat.undo.jsonl beside photos.index; a label that is no name of a file gets a few letters of its hash."""
    whole = index.absolute()
    plain = re.sub(r"[^\w-]+", "-", label)[:40]
    name = plain if plain == label else f"{plain}-{hashlib.sha256(label.encode('utf-8', 'replace')).hexdigest()[:6]}"
    return whole.with_name(f"{whole.name.removesuffix('.index')}.{name}.undo.jsonl")


@dataclass
class Entry:
    """A write: the sidecar before (None: it is new), the digest of it after, and the fields it added to."""

    sidecar: str
    before: bytes | None
    after: str
    added: list[str] = field(default_factory=list)
    done: bool = False


class UndoList:
    """An undo list, read if it is there; `keyword` is checked against it, or begins a new one."""

    def __init__(self, path: Path, keyword: str | None = None) -> None:
        self.path, self.entries, self.damaged = path, dict[str, list[Entry]](), 0
        self._is_torn = False  # whether the last line lacks its end
        lines = self._lines()
        given = _keyword(path, lines[0]) if lines else keyword
        if given is None:
            raise LikewiseError(f"{path} is empty; expected an undo list of likewise apply")
        self.keyword: str = given
        if keyword not in (None, self.keyword):
            raise LikewiseError(f"{path} is the undo list of {self.keyword!r}, not of {keyword!r}; choose another")
        self._is_new = not lines
        for line in lines[1:]:
            self._replay(parsed_json(line))

    def begin(self, entry: Entry) -> None:
        """Remember a write; it is on disk when this returns."""
        if self._is_new:
            head = {"likewise": _KIND, "format": 1, "keyword": self.keyword}
            atomic_write(self.path, json.dumps(head).encode() + b"\n")
            self._is_new = False
        before = None if entry.before is None else base64.b64encode(entry.before).decode()
        self._append({"sidecar": entry.sidecar, "before": before, "after": entry.after, "added": entry.added})
        self.entries.setdefault(entry.sidecar, []).append(entry)

    def finish(self, entry: Entry) -> None:
        """The write is done; lost in a crash, this is known again from the sidecar itself."""
        self._append({"done": entry.sidecar}, synced=False)
        entry.done = True

    def forget(self, sidecar: str) -> None:
        """All writes into a sidecar were taken back."""
        self._append({"undone": sidecar}, synced=False)
        self.entries.pop(sidecar, None)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One process at a time."""
        lock = FileLock(self.path.with_name(f".{self.path.name}.lock"))
        try:
            lock.acquire(timeout=1)
        except Timeout as error:
            raise LikewiseError(f"{self.path} is being written by another process; wait for it to end") from error
        except OSError as error:
            raise LikewiseError(f"cannot write {self.path}: {error.strerror or error}") from error
        try:
            yield
        finally:
            lock.release()
            with suppress(OSError):
                os.unlink(lock.lock_file)

    def _lines(self) -> list[bytes]:
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise LikewiseError(f"cannot read {self.path}: {error.strerror or error}") from error
        self._is_torn = bool(data) and not data.endswith(b"\n")
        return data.splitlines()

    def _append(self, value: dict[str, Any], synced: bool = True) -> None:
        line = b"\n" * self._is_torn + json.dumps(value).encode() + b"\n"
        self._is_torn = False
        try:
            if synced:
                append_synced(self.path, line)
            else:
                with open(self.path, "ab") as file:
                    file.write(line)
        except OSError as error:
            raise LikewiseError(f"cannot write {self.path}: {error.strerror or error}") from error

    def _replay(self, value: Any) -> None:
        found = value if isinstance(value, dict) else {}
        name = found.get("done") or found.get("undone")
        if isinstance(name, str) and "done" in found:
            for entry in self.entries.get(name, [])[-1:]:
                entry.done = True
        elif isinstance(name, str):
            self.entries.pop(name, None)
        else:
            read = _entry(found)
            self.damaged += read is None
            if read is not None:
                self.entries.setdefault(read.sidecar, []).append(read)


def _keyword(path: Path, line: bytes) -> str:
    head = parsed_json(line)
    if not isinstance(head, dict) or head.get("likewise") != _KIND or not isinstance(head.get("keyword"), str):
        raise FileFormatError(f"{path} is not an undo list of likewise apply")
    if head.get("format") != 1:
        raise FileFormatError(f"{path} has the format {head.get('format')!r}; this version reads 1")
    return str(head["keyword"])


def _entry(found: dict[str, Any]) -> Entry | None:
    """An entry from its line, or None if that is damaged: nothing but sidecars is ever touched."""
    try:
        added = [str(short) for short in found["added"]]
        sidecar, after = found["sidecar"], found["after"]
        before = None if found["before"] is None else base64.b64decode(found["before"])
    except (KeyError, TypeError, ValueError):
        return None
    sound = isinstance(sidecar, str) and sidecar.lower().endswith(".xmp") and "\0" not in sidecar
    sound = sound and isinstance(after, str) and set(added) <= FIELDS.keys()
    return Entry(sidecar, before, after, added) if sound else None
