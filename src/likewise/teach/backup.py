"""Backups of what people said about an index, and the way back: to the same index, or to another of the same items."""

import hashlib
import json
import re
import zipfile
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import likewise
from likewise.errors import FileFormatError, LikewiseError
from likewise.pictures.sidecars import undo_lists
from likewise.search.index import BaseIndex
from likewise.search.items import ItemRef
from likewise.search.storage import MARKS, is_left_of_index, read_facts
from likewise.teach.feedback import Event, Feedback
from likewise.teach.groups import Resolver
from likewise.utils.files import StrPath, atomic_write, link, locked
from likewise.utils.journal import Journal
from likewise.utils.versions import Facts

_ABOUT = "backup.json"
_NAMES = re.compile(
    rf"{re.escape(MARKS)}|undo/[^/\\\0]+\.undo\.sqlite"
)  # what somebody else wrote must not land elsewhere
_MOST_BYTES = 1 << 30  # of a file in a backup
_SETTINGS = ("approximate", "neighbors", "root", "source")


class Backup(NamedTuple):
    """What a backup holds: steps of users, lessons, undo lists of keywords, and settings of the index."""

    steps: int
    lessons: int
    undo_lists: int
    settings: Facts


def back_up(folder: StrPath, output: StrPath) -> Backup:
    """Write marks, labels, lessons, undo lists and settings of an index to a ZIP: what cannot be computed again.

    The index may be served meanwhile. Only its journal has to be sound.
    """
    folder, output = Path(folder), Path(output)
    if not is_left_of_index(folder):
        raise LikewiseError(f"{folder} is not an index: expected a folder with marks")
    if problem := Journal(folder / MARKS).problem():
        raise LikewiseError(f"{problem}; likewise check {folder} --repair comes before a backup")
    facts: Facts = {}
    with suppress(LikewiseError):  # of a damaged index, the marks alone
        facts = read_facts(folder)
    feedback = Feedback(folder)
    settings = {name: facts[name] for name in _SETTINGS if facts.get(name) is not None}
    with TemporaryDirectory(prefix="likewise-") as temporary:
        copy = Path(temporary) / MARKS
        Journal(folder / MARKS).copy_to(copy)
        files = {MARKS: copy} if copy.exists() else {}
        lists = undo_lists(folder)
        files |= {f"undo/{name}": path for name, path in lists.items()}
        about = {
            "format": 1, "likewise": likewise.__version__, "settings": settings,
            "files": {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items()},
        }  # fmt: skip

        def write(file: Any) -> None:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr(_ABOUT, json.dumps(about, indent=2, sort_keys=True))
                for name, path in files.items():
                    archive.write(path, name)

        atomic_write(output, write)
    return Backup(len(feedback.events()), len(feedback.lessons), len(lists), settings)


def restore(file: StrPath, folder: StrPath) -> Backup:
    """Bring a backup to an index, which may have other features or none of the marks; steps of its own are not lost.

    Raises if the index has steps that the backup has not.
    """
    file, folder = Path(file), Path(folder)
    if not is_left_of_index(folder):
        raise LikewiseError(f"{folder} is not an index: expected one of the items that the backup is about")
    content, about = _read(file)
    with TemporaryDirectory(prefix="likewise-") as temporary, locked(folder):
        (Path(temporary) / MARKS).write_bytes(content.pop(MARKS, b""))
        backup = Feedback(temporary) if (Path(temporary) / MARKS).stat().st_size else Feedback()
        if backup.damaged:
            raise FileFormatError(f"{file} is damaged: {backup.damaged} records of its marks cannot be read")
        known = {event.id for event in backup.history()}
        others = sum(event.id not in known for event in Feedback(folder).history())
        if others:
            raise LikewiseError(
                f"{folder} has {others:,} steps that {file} has not; expected an index without: likewise backup "
                f"{folder} saves these, and without {folder / MARKS} the backup can be restored"
            )
        if backup.folder is not None:
            Journal(backup.path).copy_to(folder / MARKS)
    lists = undo_lists(folder, of=[Path(name).name for name in content])
    for name, path in lists.items():
        if not path.exists():
            atomic_write(path, content[f"undo/{name}"])
    return Backup(len(backup.events()), len(backup.lessons), len(lists), about["settings"])


def _read(file: Path) -> tuple[dict[str, bytes], dict[str, Any]]:
    """The files of a backup, whose checksums match, and what it says about itself."""
    try:
        with zipfile.ZipFile(file) as archive:
            if any(info.file_size > _MOST_BYTES for info in archive.infolist()):
                raise ValueError("a file in it is too large")
            about = json.loads(archive.read(_ABOUT))
            if other := next((name for name in about["files"] if not _NAMES.fullmatch(name)), None):
                raise ValueError(f"{other} is not a file of a backup")
            content = {str(name): archive.read(name) for name in about["files"]}
        if not isinstance(about["settings"], dict) or about["format"] != 1:
            raise ValueError(f"format {about['format']}, and 1 is expected")
        for name, data in content.items():
            if hashlib.sha256(data).hexdigest() != about["files"][name]:
                raise ValueError(f"the checksum of {name} does not match")
    except FileNotFoundError as error:
        raise LikewiseError(f"{file} does not exist") from error
    except (zipfile.BadZipFile, OSError, ValueError, KeyError, TypeError, AttributeError, NotImplementedError) as error:
        raise FileFormatError(f"{file} is not a backup, or it is damaged: {error}") from error
    return content, about


# ---------------------------------------------------------------------------------------------------------------------
# Steps about items that are not in the index


class Parked(NamedTuple):
    """A step about an item that is not in the index, and the name that the item had."""

    event: Event
    reference: ItemRef

    @property
    def words(self) -> str:
        """A description for people."""
        who = f" by {self.event.who}" if self.event.who else ""
        return f"{self.reference.id}: {self.event.words}{who}"


def parked(index: BaseIndex, feedback: Feedback) -> list[Parked]:
    """The steps that do not count, since an item of them is not in the index."""
    resolver = Resolver(index, feedback)
    return [Parked(event, ref) for event in feedback.events() for ref in resolver.parked(event)]


def place(index: BaseIndex, feedback: Feedback, old: str, new: str) -> int:
    """Say that the item that was called `old` is the one called `new` now; returns how many steps count again."""
    steps = [step for step in parked(index, feedback) if str(step.reference.id) == old]
    if not steps:
        raise LikewiseError(f"--place {old}: no step about an item of this name is parked")
    names = {str(name): row for row, name in enumerate(index.ids.tolist())}
    if new not in names:
        raise LikewiseError(f"--place {old} {new}: no item has the id {new}")
    now = index.identities.reference(names[new])
    latest = dict.fromkeys(feedback.names(step.reference, step.event)[0] for step in steps)
    feedback.extend([Event("became", items=(reference, now)) for reference in latest])
    return len(steps)


def marks_problem(folder: StrPath) -> str | None:
    """What is damaged in the marks of an index; None if nothing is."""
    path = Path(folder) / MARKS
    if problem := Journal(path).problem():
        return problem
    damaged = Feedback(folder).damaged if path.exists() else 0
    return f"{path} is damaged: {damaged} of its records are not steps" if damaged else None


def repair_marks(folder: StrPath) -> str:
    """Write the marks that can be read to a new file, and leave the damaged one next to it; says how many there are."""
    path = Path(folder) / MARKS
    number = next(i for i in range(1, 10**6) if not path.with_name(f"{MARKS}.damaged-{i}").exists())
    other = path.with_name(f"{MARKS}.damaged-{number}")
    with locked(Path(folder)):
        link(path, other)
        n = Journal(path).copy_to(path)
        if not n:
            path.unlink()
    return f"{n:,} records of {path} were read; the damaged file is {other}"
