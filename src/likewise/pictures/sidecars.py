"""Keywords written into XMP sidecars beside pictures, and taken back; no picture is ever opened for writing.

Where a picture has no sidecar it gets `photo.jpg.xmp`. Programs that find a list in a sidecar do not look into the
picture, so a new list begins with the keywords inside the picture. Immich reads no dc:subject: a keyword goes into the
lists of paths that are there too, and if there is none into a new digiKam:TagsList.
"""

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from likewise.errors import LikewiseError
from likewise.pictures.folder import Skipped
from likewise.pictures.keywords import (
    NONE,
    UNREADABLE,
    Keywords,
    embedded_keywords,
    find_sidecar,
    in_xmp,
    read_sidecar,
    sidecar_bytes,
)
from likewise.pictures.undo_list import Entry, UndoList
from likewise.pictures.xmp import EMPTY, Xmp, XmpError, checked_keyword
from likewise.utils.files import atomic_write, sweep

Progress = Callable[[int], object]
_PATHS = ("digiKam:TagsList", "lr:hierarchicalSubject")


@dataclass
class Applied:
    """How many sidecars were made and changed, how many pictures had the keyword already, and which were left out."""

    created: int = 0
    changed: int = 0
    already: int = 0
    skipped: list[Skipped] = field(default_factory=list)

    def facts(self) -> dict[str, Any]:
        return _facts(self)


@dataclass
class Undone:
    """How many sidecars were deleted, brought back byte for byte, or lost only the keyword as others had changed them.

    `untouched` had nothing of ours in them any more; `damaged` counts lines of the list that could not be read.
    """

    deleted: int = 0
    restored: int = 0
    edited: int = 0
    untouched: int = 0
    damaged: int = 0
    skipped: list[Skipped] = field(default_factory=list)

    def facts(self) -> dict[str, Any]:
        return _facts(self)


def _facts(outcome: Applied | Undone) -> dict[str, Any]:
    """Counts, with those left out by kind, the most frequent first."""
    kinds = Counter(entry.kind for entry in outcome.skipped)
    return {**asdict(outcome), "skipped": dict(kinds.most_common())}


def apply_keyword(
    pictures: Iterable[Path], keyword: str, undo: Path | None, progress: Progress = lambda steps: None
) -> Applied:
    """Write a keyword into the sidecars of pictures; `undo` is the undo list, and None writes nothing, but counts.

    Killed, it goes on when called again: pictures that have the keyword are left alone.
    """
    keyword, outcome, folders = checked_keyword(keyword), Applied(), _Folders()
    journal = None if undo is None else UndoList(undo, keyword)
    with nullcontext() if journal is None else journal.locked():
        if journal is not None:
            _sweep(journal.entries)
        for picture in pictures:
            progress(1)
            try:
                _apply_one(picture, keyword, folders, journal, outcome)
            except XmpError as error:
                outcome.skipped.append(Skipped(str(picture), f"its sidecar {error}", UNREADABLE))
    return outcome


class _Plan(NamedTuple):
    sidecar: Path
    before: bytes | None
    after: bytes
    added: list[str]


def _apply_one(picture: Path, keyword: str, folders: "_Folders", journal: UndoList | None, outcome: Applied) -> None:
    if not picture.is_file():
        outcome.skipped.append(Skipped(str(picture), "the picture is not there", "pictures that are not there"))
        return
    plan = _planned(picture, keyword, folders)
    if plan is None:
        outcome.already += 1
    elif not os.access(plan.sidecar.parent, os.W_OK):
        outcome.skipped.append(Skipped(str(picture), "its folder is read-only", "in read-only folders"))
    elif journal is None or _written(plan, journal, outcome):
        outcome.created += plan.before is None
        outcome.changed += plan.before is not None


def _planned(picture: Path, keyword: str, folders: "_Folders") -> _Plan | None:
    """What a sidecar will be; None if the picture has the keyword already."""
    sidecar = folders.sidecar(picture)
    before = sidecar_bytes(sidecar) if os.path.lexists(sidecar) else None
    xmp = Xmp(EMPTY if before is None else before)
    hidden = _hidden(picture, sidecar, before)
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


def _hidden(picture: Path, sidecar: Path, before: bytes | None) -> Keywords:
    """Keywords that a list in the sidecar hides: inside the picture, or in the sidecar of another file beside it."""
    shared = find_sidecar(picture) if before is None else None
    if shared is not None and shared != sidecar:
        found = in_xmp(read_sidecar(shared))
        if found != NONE:
            return found
    return embedded_keywords(picture)


def _written(plan: _Plan, journal: UndoList, outcome: Applied) -> bool:
    """Write a sidecar, behind its line in the undo list; False if it cannot be written."""
    sidecar = os.path.abspath(plan.sidecar)
    entry = Entry(sidecar, plan.before, _digest(plan.after), plan.added)
    journal.begin(entry)
    try:
        _replace(plan.sidecar, plan.after)
    except LikewiseError as error:
        outcome.skipped.append(Skipped(sidecar, str(error), "sidecars that cannot be written"))
        return False
    journal.finish(entry)
    return True


def _replace(sidecar: Path, data: bytes) -> None:
    """Write a sidecar where it really is, with the permissions that it has."""
    place = Path(os.path.realpath(sidecar))
    atomic_write(place, data, mode=place.stat().st_mode & 0o777 if place.exists() else None)


def _sweep(sidecars: Iterable[str]) -> None:
    """Delete what killed runs have left beside sidecars."""
    sweep(Path(os.path.realpath(sidecar)) for sidecar in sidecars)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class _Folders:
    """Which sidecar is a picture's own; each folder is listed once."""

    def __init__(self) -> None:
        self._stems: dict[Path, Counter[str]] = {}

    def sidecar(self, picture: Path) -> Path:
        """An existing one; but `photo.xmp` only if it can be no other file's, such as `photo.cr2`."""
        found = find_sidecar(picture)
        own = picture.with_name(f"{picture.name}.xmp")
        if found is None or (found.stem != picture.name and self._of(picture.parent)[picture.stem] > 1):
            return own
        return found

    def _of(self, folder: Path) -> Counter[str]:
        if folder not in self._stems:
            names = (os.path.splitext(name) for name in os.listdir(folder))
            self._stems[folder] = Counter(stem for stem, suffix in names if suffix.lower() != ".xmp")
        return self._stems[folder]


# ---------------------------------------------------------------------------------------------------------------------
# Taking back


def undo_keyword(undo: Path, progress: Progress = lambda steps: None) -> Undone:
    """Take back what an undo list says: exactly the keywords that were added, and sidecars that nobody else changed."""
    if not undo.is_file():
        raise LikewiseError(f"{undo} {'is not a file' if undo.exists() else 'does not exist'}; expected an undo list")
    journal = UndoList(undo)
    outcome = Undone(damaged=journal.damaged)
    with journal.locked():
        _sweep(journal.entries)
        for sidecar, entries in list(journal.entries.items()):
            progress(1)
            try:
                _count(outcome, [_taken_back(entry, journal.keyword) for entry in reversed(entries)])
                journal.forget(sidecar)
            except XmpError as error:
                outcome.skipped.append(Skipped(sidecar, str(error), UNREADABLE))
            except LikewiseError as error:
                outcome.skipped.append(Skipped(sidecar, str(error), "sidecars that cannot be written"))
    return outcome


def n_writes(undo: Path) -> int:
    """How many sidecars an undo list speaks of."""
    return len(UndoList(undo).entries)


def _count(outcome: Undone, ends: Sequence[str]) -> None:
    """Each sidecar counts once, by the strongest thing that happened to it."""
    strongest = next(kind for kind in ("deleted", "restored", "edited", "untouched") if kind in ends)
    setattr(outcome, strongest, getattr(outcome, strongest) + 1)


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
        if entry.before is None:
            return _deleted(sidecar)
        _replace(sidecar, entry.before)
        return "restored"
    xmp = Xmp(data)
    if not xmp.remove({short: [keyword] for short in entry.added}):
        return "untouched"
    _replace(sidecar, xmp.to_bytes())
    return "edited"


def _deleted(sidecar: Path) -> str:
    try:
        sidecar.unlink()
    except OSError as error:
        raise LikewiseError(f"cannot delete {sidecar}: {error.strerror or error}") from error
    return "deleted"
