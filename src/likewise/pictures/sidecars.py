"""Keywords written into the XMP sidecars of pictures, and taken back; no picture is ever opened for writing.

Where a picture has no sidecar it gets `photo.jpg.xmp`. Programs that find a list in a sidecar do not look into the
picture, so a new list begins with the keywords inside the picture. Immich does not read dc:subject, so a keyword is
also added to the lists of paths that exist, and if there is none, to a new digiKam:TagsList.
"""

import base64
import glob
import hashlib
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self

from likewise.errors import FileFormatError, LikewiseError
from likewise.pictures.folder import Skipped
from likewise.pictures.keywords import NONE, UNREADABLE, embedded_keywords, find_sidecar, in_xmp, sidecar_bytes
from likewise.pictures.xmp import EMPTY, FIELDS, Xmp, XmpError, checked_keyword
from likewise.utils.files import atomic_write, locked, os_errors, sweep
from likewise.utils.journal import Journal

Progress = Callable[[int], object]
_PATHS = ("digiKam:TagsList", "lr:hierarchicalSubject")
_UNWRITABLE = "sidecars that cannot be written"


@dataclass(kw_only=True)
class _Outcome:
    """Which pictures or sidecars were left out."""

    skipped: list[Skipped] = field(default_factory=list)

    def facts(self) -> dict[str, Any]:
        """Counts, with those left out by kind, the most frequent first."""
        counts = {name: value for name, value in asdict(self).items() if name != "skipped"}
        return {**counts, "skipped": dict(Counter(entry.kind for entry in self.skipped).most_common())}


@dataclass
class Applied(_Outcome):
    """How many sidecars were made and changed, and how many pictures had the keyword already."""

    created: int = 0
    changed: int = 0
    already: int = 0


@dataclass
class Undone(_Outcome):
    """How many sidecars were deleted, brought back byte for byte, or lost only the keyword as others had changed them.

    `untouched` had nothing of ours in them any more; `damaged` counts lines of the list that could not be read.
    """

    deleted: int = 0
    restored: int = 0
    edited: int = 0
    untouched: int = 0
    damaged: int = 0


# -- The undo list -----------------------------------------------------------------------------------------------------


def undo_lists(index: Path, of: Iterable[str] | None = None) -> dict[str, Path]:
    """The undo lists of an index by the end of their names: those that exist, or those of some names."""
    whole = index.absolute()
    stem = whole.name.removesuffix(".index")
    if of is None:
        lists = whole.parent.glob(f"{glob.escape(stem)}.*.undo.sqlite")
        return {path.name.removeprefix(f"{stem}."): path for path in sorted(lists)}
    return {name: whole.with_name(f"{stem}.{name}") for name in of}


def default_undo_list(index: Path, label: str) -> Path:
    """photos.cat.undo.sqlite next to photos.index; a label that cannot be a file name gets part of its hash."""
    whole = index.absolute()
    plain = re.sub(r"[^\w-]+", "-", label)[:40]
    name = plain if plain == label else f"{plain}-{hashlib.sha256(label.encode('utf-8', 'replace')).hexdigest()[:6]}"
    return whole.with_name(f"{whole.name.removesuffix('.index')}.{name}.undo.sqlite")


@dataclass
class Entry:
    """A write: the sidecar before (None: it is new), the digest of it after, and the fields it added to.

    `done` is False if the run was killed before it is known that the sidecar was written.
    """

    sidecar: str
    before: bytes | None
    after: str
    added: list[str]
    done: bool = True


class UndoList:
    """What each sidecar was before a keyword was written into it; a record is on disk before the write.

    The first record has the keyword. The others are writes, writes that failed, sidecars that were restored, and the
    end of a run. `keyword` is checked against an existing list, or begins a new one. Who writes uses `opened`.
    """

    @classmethod
    @contextmanager
    def opened(cls, path: Path, keyword: str | None = None) -> Iterator[Self]:
        """The list for writing, by one process at a time: it is read under its lock, whose file stays for others."""
        with locked(path, path.with_name(f".{path.name}.lock")):
            yield cls(path, keyword)

    def __init__(self, path: Path, keyword: str | None = None) -> None:
        self.path, self.entries, self.damaged = path, dict[str, list[Entry]](), 0
        self._journal = Journal(path)
        head, *records = [record.value for record in self._journal.read()] or [None]
        is_new = head is None and not records
        if is_new and keyword is None:
            raise LikewiseError(f"{path} is empty; expected an undo list of likewise apply")
        stored = keyword if is_new else head.get("keyword") if isinstance(head, dict) else None
        if not isinstance(stored, str):
            raise FileFormatError(f"{path} is not an undo list of likewise apply")
        if keyword not in (None, stored):
            raise LikewiseError(f"{path} is the undo list of {stored!r}, not of {keyword!r}; choose another")
        self.keyword = stored
        self._head = [{"keyword": stored}] if is_new else []
        for number, value in enumerate(records):
            self._replay(value, is_last=number == len(records) - 1)

    def begin(self, entry: Entry) -> None:
        """Remember a write; it is on disk when this returns."""
        before = None if entry.before is None else base64.b64encode(entry.before).decode()
        self._append({"sidecar": entry.sidecar, "before": before, "after": entry.after, "added": entry.added})
        self.entries.setdefault(entry.sidecar, []).append(entry)

    def fail(self, entry: Entry) -> None:
        """The write has failed, and the sidecar is as before."""
        self._append({"failed": entry.sidecar})
        self.entries[entry.sidecar].remove(entry)

    def end(self) -> None:
        """All writes of a run are finished."""
        if self.entries:
            self._append({"end": True})

    def forget(self, sidecars: Iterable[str]) -> None:
        """All writes into these sidecars were taken back."""
        self._append(*({"undone": sidecar} for sidecar in sidecars))

    def _append(self, *values: dict[str, Any]) -> None:
        self._journal.append([*self._head, *values])
        self._head = []

    def _replay(self, value: Any, is_last: bool) -> None:
        facts = value if isinstance(value, dict) else {}
        failed, undone = facts.get("failed"), facts.get("undone")
        if isinstance(failed, str):
            del self.entries.get(failed, [])[-1:]
        elif isinstance(undone, str):
            self.entries.pop(undone, None)
        elif "end" not in facts:
            entry = _entry(facts, done=not is_last)
            self.damaged += entry is None
            if entry is not None:
                self.entries.setdefault(entry.sidecar, []).append(entry)


def _entry(facts: dict[str, Any], done: bool) -> Entry | None:
    """A write from its record, or None if that is damaged: only sidecars are ever touched."""
    try:
        added = [str(short) for short in facts["added"]]
        sidecar, after = facts["sidecar"], facts["after"]
        before = None if facts["before"] is None else base64.b64decode(facts["before"])
    except (KeyError, TypeError, ValueError):
        return None
    sound = isinstance(sidecar, str) and sidecar.lower().endswith(".xmp") and "\0" not in sidecar
    sound = sound and isinstance(after, str) and set(added) <= FIELDS.keys()
    return Entry(sidecar, before, after, added, done) if sound else None


# -- Applying ----------------------------------------------------------------------------------------------------------


def apply_keyword(
    pictures: Iterable[Path], keyword: str, undo: Path | None, progress: Progress = lambda steps: None
) -> Applied:
    """Write a keyword into the sidecars of pictures; `undo` is the undo list, and None writes nothing, but counts.

    Killed, it goes on when called again: pictures that have the keyword are left alone.
    """
    keyword, outcome, folders = checked_keyword(keyword), Applied(), _Folders()
    with nullcontext() if undo is None else UndoList.opened(undo, keyword) as writes:
        if writes is not None:
            _sweep(writes.entries)
        for picture in pictures:
            progress(1)
            try:
                _apply_one(picture, keyword, folders, writes, outcome)
            except XmpError as error:
                outcome.skipped.append(Skipped(str(picture), f"its sidecar {error}", UNREADABLE))
        if writes is not None:
            writes.end()
    return outcome


class _Plan(NamedTuple):
    sidecar: Path
    before: bytes | None
    after: bytes
    added: list[str]


def _apply_one(picture: Path, keyword: str, folders: "_Folders", writes: UndoList | None, outcome: Applied) -> None:
    if not picture.is_file():
        outcome.skipped.append(Skipped(str(picture), "the picture is not there", "pictures that are not there"))
        return
    plan = _planned(picture, keyword, folders)
    if plan is None:
        outcome.already += 1
    elif not os.access(plan.sidecar.parent, os.W_OK):
        outcome.skipped.append(Skipped(str(picture), "its folder is read-only", "in read-only folders"))
    else:
        if writes is not None:
            entry = Entry(os.path.abspath(plan.sidecar), plan.before, _digest(plan.after), plan.added)
            writes.begin(entry)
            try:
                _replace(plan.sidecar, plan.after)
            except LikewiseError as error:
                writes.fail(entry)
                outcome.skipped.append(Skipped(entry.sidecar, str(error), _UNWRITABLE))
                return
        outcome.created += plan.before is None
        outcome.changed += plan.before is not None


def _planned(picture: Path, keyword: str, folders: "_Folders") -> _Plan | None:
    """What a sidecar will be; None if the picture has the keyword already."""
    sidecar = folders.sidecar(picture)
    before = sidecar_bytes(sidecar) if os.path.lexists(sidecar) else None
    xmp = Xmp(EMPTY if before is None else before)
    # Keywords that a list in the sidecar hides: inside the picture, or in a sidecar shared with another file.
    shared = find_sidecar(picture) if before is None else None
    hidden = in_xmp(Xmp(sidecar_bytes(shared))) if shared is not None and shared != sidecar else NONE
    hidden = embedded_keywords(picture) if hidden == NONE else hidden
    subjects = xmp.words("dc:subject") if xmp.has("dc:subject") else hidden.fields.get("dc:subject", [])
    if keyword in subjects:
        return None
    paths = [short for short in _PATHS if xmp.has(short) or short in hidden.fields]
    wanted = {"dc:subject": [*subjects, keyword]}
    for short in paths or _PATHS[:1]:
        inherited = hidden.fields.get(short, []) if paths else subjects
        wanted[short] = [*([] if xmp.has(short) else inherited), keyword]
    added = [short for short in wanted if keyword not in xmp.words(short)]
    xmp.add(wanted)
    return _Plan(sidecar, before, xmp.to_bytes(), added)


def _replace(sidecar: Path, data: bytes) -> None:
    """Write a sidecar where it really is, with the permissions that it has."""
    place = Path(os.path.realpath(sidecar))
    atomic_write(place, data, mode=place.stat().st_mode & 0o777 if place.exists() else None)


def _sweep(sidecars: Iterable[str]) -> None:
    """Delete the temporary files of killed runs."""
    sweep(Path(os.path.realpath(sidecar)) for sidecar in sidecars)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class _Folders:
    """The sidecar of each picture; each folder is listed once."""

    def __init__(self) -> None:
        self._stems: dict[Path, Counter[str]] = {}

    def sidecar(self, picture: Path) -> Path:
        """An existing one; but `photo.xmp` only if it can be no other file's, such as `photo.cr2`."""
        existing = find_sidecar(picture)
        default = picture.with_name(f"{picture.name}.xmp")
        if existing is None or existing.stem == picture.name:
            return existing or default
        if picture.parent not in self._stems:
            names = (os.path.splitext(name) for name in os.listdir(picture.parent))
            self._stems[picture.parent] = Counter(stem for stem, suffix in names if suffix.lower() != ".xmp")
        return default if self._stems[picture.parent][picture.stem] > 1 else existing


# -- Taking back -------------------------------------------------------------------------------------------------------


def undo_keyword(undo: Path, progress: Progress = lambda steps: None) -> Undone:
    """Take back the writes in an undo list: whole sidecars, or the keyword alone if others have changed them."""
    if not undo.is_file():
        raise LikewiseError(f"{undo} {'is not a file' if undo.exists() else 'does not exist'}; expected an undo list")
    with UndoList.opened(undo) as writes:
        outcome, restored = Undone(damaged=writes.damaged), list[str]()
        _sweep(writes.entries)
        for sidecar, entries in writes.entries.items():
            progress(1)
            try:
                ends = [_taken_back(entry, writes.keyword) for entry in reversed(entries)]
                # Each sidecar counts once, by the strongest thing that happened to it.
                strongest = next(kind for kind in ("deleted", "restored", "edited", "untouched") if kind in ends)
                setattr(outcome, strongest, getattr(outcome, strongest) + 1)
                restored.append(sidecar)
            except LikewiseError as error:
                kind = UNREADABLE if isinstance(error, XmpError) else _UNWRITABLE
                outcome.skipped.append(Skipped(sidecar, str(error), kind))
        writes.forget(restored)
    return outcome


def n_writes(undo: Path) -> int:
    """Number of sidecars in an undo list."""
    return len(UndoList(undo).entries)


def _taken_back(entry: Entry, keyword: str) -> str:
    """Undo a write; in a sidecar that was changed since, what it inherited from the picture stays."""
    sidecar = Path(entry.sidecar)
    if not os.path.lexists(sidecar):
        return "untouched"
    data = sidecar_bytes(sidecar)
    digest = _digest(data)
    if data == entry.before or (digest != entry.after and not entry.done):
        return "untouched"
    if digest == entry.after:
        if entry.before is not None:
            _replace(sidecar, entry.before)
            return "restored"
        with os_errors(f"cannot delete {sidecar}"):
            sidecar.unlink()
        return "deleted"
    xmp = Xmp(data)
    if not xmp.remove({short: [keyword] for short in entry.added}):
        return "untouched"
    _replace(sidecar, xmp.to_bytes())
    return "edited"
