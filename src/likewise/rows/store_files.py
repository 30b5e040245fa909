"""Where the files of a feature store are, and how they are replaced: one rename decides.

New files are written to `.work/new` inside the store. Then `meta.json` is replaced by one that says in `files` where
each of them is: from this rename on the store is the new one. After it the files get their plain names, `meta.json`
is replaced by one without `files`, and `.work` is removed. Plain names change only while `meta.json` points elsewhere,
so a reader who finds the same `meta.json` before and after reading has read one store; a process killed at any moment
leaves the old store or the new one, and the next writer tidies up.
"""

import json
import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import likewise
from likewise.errors import FileFormatError, LikewiseError
from likewise.utils.files import atomic_write, make_folder, sync

FORMAT = 2  # 2: items have a hash and a date
_MOVING = 3  # of a meta.json with `files`: earlier versions would look for them under their plain names
META, FEATURES, ITEMS, SKIPPED, EXTRACTOR = (
    "meta.json",
    "features.npy",
    "items.csv",
    "skipped.csv",
    "extractor.safetensors",
)
_FILES = (FEATURES, ITEMS, SKIPPED, EXTRACTOR)
WORK = ".work"
_NEW = f"{WORK}/new"
REQUEST = "request.json"  # in .work: the settings of a run that is not finished
_TRIES = 1000  # a store replaced that often while it is opened is more than busy

Result = TypeVar("Result")
Meta = dict[str, Any]


def is_store(path: Path) -> bool:
    return (path / META).is_file()


# ---------------------------------------------------------------------------------------------------------------------
# Reading


def read_store(path: Path, read: Callable[[Meta, Callable[[str], Path]], Result]) -> Result:
    """What `read` makes of the meta.json of a store and of the places of its files, all of one state of the store."""
    for _ in range(_TRIES):
        state = _state(path)
        try:
            meta = read_meta(path)
            found = read(meta, lambda name, meta=meta: place(path, meta, name))  # type: ignore[misc]
        except (LikewiseError, OSError):
            if _state(path) == state:
                raise
            continue
        if _state(path) == state:
            return found
    raise LikewiseError(f"{path} is being replaced again and again: it cannot be read")


def _state(path: Path) -> tuple[int, ...] | None:
    """What tells one meta.json from the next, even if their content is the same."""
    with suppress(OSError):
        facts = os.stat(path / META)
        return facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns
    return None


def read_meta(path: Path) -> Meta:
    """The content of `meta.json` of the store in the folder `path`."""
    if not path.exists():
        raise LikewiseError(f"{path} does not exist")
    if not is_store(path):
        raise FileFormatError(f"{path} is not a feature store: it has no {META}")
    try:
        meta: Meta = json.loads((path / META).read_text("utf-8"))
        _check_meta(meta)
    except (ValueError, KeyError, TypeError, RecursionError, OSError) as error:
        raise FileFormatError(f"{path / META} is damaged: {error!r}") from error
    if meta["format"] > _MOVING:
        raise FileFormatError(
            f"{path} has format {meta['format']}; likewise {likewise.__version__} reads up to {FORMAT}: "
            "upgrade likewise"
        )
    return meta


_KINDS: dict[str, tuple[type, ...]] = {
    "format": (int,), "n_items": (int,), "n_features": (int,), "n_classes": (int,), "n_unlabelled": (int,),
    "n_skipped": (int,), "dtype": (str,), "root": (str, type(None)), "labels": (str, type(None)),
    "extractor": (dict, type(None)), "request": (dict, type(None)), "files": (dict,),
}  # fmt: skip


def _check_meta(meta: Any) -> None:
    if not isinstance(meta, dict):
        raise ValueError(f"it holds a {type(meta).__name__} where an object is expected")
    for name in ("format", "n_items"):
        meta[name]
    for name, kinds in _KINDS.items():
        if name in meta and (not isinstance(meta[name], kinds) or isinstance(meta[name], bool)):
            raise ValueError(f"its field {name!r} is {str(meta[name])[:50]!r}")
    for name, where in meta.get("files", {}).items():
        if name not in _FILES or where not in (name, f"{_NEW}/{name}"):
            raise ValueError(f"its field 'files' names {str(name)[:50]!r} at {str(where)[:50]!r}")


def settled(meta: Mapping[str, Any]) -> Meta:
    """A meta.json as it is once the files have their plain names."""
    return {**{key: value for key, value in meta.items() if key != "files"}, "format": min(meta["format"], FORMAT)}


def place(path: Path, meta: Mapping[str, Any], name: str) -> Path:
    """Where a file of a store is; one that the store does not have is not there."""
    files = meta.get("files")
    return path / (name if files is None else files.get(name, f"{_NEW}/none"))


# ---------------------------------------------------------------------------------------------------------------------
# Writing


def meta_to_json(meta: Mapping[str, Any]) -> bytes:
    """`meta.json` as bytes; nothing in it depends on when or how fast a run was."""
    meta = {"format": FORMAT, "likewise": likewise.__version__, **meta}
    return (json.dumps(meta, indent=2, sort_keys=True, ensure_ascii=True) + "\n").encode()


def check_free(folder: Path) -> None:
    """Refuse a file, and a folder that holds anything but a feature store or an unfinished one."""
    if folder.exists() and not folder.is_dir():
        raise LikewiseError(f"{folder} is a file; features are a folder")
    if folder.is_dir() and not is_ours(folder):
        raise LikewiseError(f"{folder} is a folder with other files in it; give features a folder of their own")


def is_ours(folder: Path) -> bool:
    """Whether a folder is empty, a feature store, or what an interrupted run has left."""
    if is_store(folder):
        with suppress(ValueError, OSError):
            meta = json.loads((folder / META).read_bytes())
            return isinstance(meta, dict) and {"format", "likewise", "n_items"} <= meta.keys()
        return False
    work, names = folder / WORK, {entry.name for entry in folder.iterdir()}
    begun = (work / REQUEST).is_file() and b'"likewise"' in (work / REQUEST).read_bytes()
    if work.is_dir() and not begun and not all(path.name.startswith(f".{REQUEST}.") for path in work.iterdir()):
        return False
    return names - {".lock", WORK} <= ({SKIPPED} if begun else set())


def new_files(store: Path) -> Path:
    """An empty folder for the new files of a store, in one that is marked as ours."""
    new = store / _NEW
    make_folder(store / WORK)
    if not (store / WORK / REQUEST).exists():
        atomic_write(store / WORK / REQUEST, meta_to_json({}))
    shutil.rmtree(new, ignore_errors=True)
    make_folder(new)
    return new


def commit(store: Path, meta: Mapping[str, Any], kept: tuple[str, ...] = ()) -> None:
    """Make a store of the files in `.work/new` and of those `kept` from the old one."""
    new = store / _NEW
    written = [name for name in _FILES if (new / name).exists()]
    files = {name: name for name in kept if (store / name).exists()} | {name: f"{_NEW}/{name}" for name in written}
    try:
        for path in (*(new / name for name in written), new, store / WORK, store):
            sync(path)
        _put_meta(store, {**meta, "format": _MOVING, "files": files})
    except OSError as error:
        raise LikewiseError(f"cannot write {store}: {error.strerror or error}; nothing was changed") from error
    with suppress(OSError, LikewiseError):  # the store is the new one already; the next writer tries again
        recover(store)


def recover(store: Path) -> None:
    """Give the files of a store their plain names, where a writer was interrupted; remove half-written ones."""
    try:
        meta = read_meta(store) if is_store(store) else {}
    except FileFormatError:
        return  # of a damaged store nothing is known: its writer says so, or replaces it
    files: dict[str, str] | None = meta.get("files")
    if files is None:
        shutil.rmtree(store / _NEW, ignore_errors=True)
        return
    for name, where in files.items():
        if where != name:
            _give_name(store / where, store / name)
    for name in set(_FILES) - files.keys():
        (store / name).unlink(missing_ok=True)
    for path in (store / WORK).iterdir():  # the journal has become the store
        if path.is_file():
            path.unlink()
    sync(store)
    _put_meta(store, settled(meta))
    shutil.rmtree(store / WORK, ignore_errors=True)


def _put_meta(store: Path, meta: Mapping[str, Any]) -> None:
    """Replace meta.json; what a killed process leaves of a new one is in `.work`."""
    os.replace(atomic_write(store / WORK / META, meta_to_json(meta)), store / META)
    with suppress(OSError):
        sync(store)


def _give_name(source: Path, target: Path) -> None:
    """Let a file have a second name, which replaces what had it; a copy where the file system has no links."""
    temporary = source.parent / f".{target.name}.tmp"
    temporary.unlink(missing_ok=True)
    try:
        os.link(source, temporary)
    except OSError:
        shutil.copyfile(source, temporary)
        sync(temporary)
    os.replace(temporary, target)
