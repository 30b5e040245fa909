"""The folder of an index: its files, their checksums, and the facts that have no file of their own."""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from likewise.errors import FileFormatError, LikewiseError
from likewise.learn.base import SimilarityModel
from likewise.learn.base import load as load_model
from likewise.rows.columns import Columns
from likewise.rows.npy import mapped
from likewise.search.approximate import KINDS, read_approximate, serialized
from likewise.search.gallery import EXTRACTOR, GalleryRows, write_rows
from likewise.search.items import Items
from likewise.search.neighbors import Neighbors, SmoothedGallery
from likewise.utils.files import atomic_write, locked
from likewise.utils.threads import n_cores
from likewise.utils.versions import META, Facts, Hold, Versions

if TYPE_CHECKING:
    from likewise.search.index import Index

log = logging.getLogger("likewise")
MODEL = "model.likewise"
RAW, _VECTORS, _ITEMS = "raw.npy", "vectors.npy", "items.json"
LESSONS, MARKS = "lessons", "marks.sqlite"
_METADATA = "metadata.arrow"
_APPROXIMATE = "approximate.faiss"
_SMOOTHED, _REACH = "smoothed.npy", "reach.npy"  # only of an index with neighbours; vectors.npy is always plain
_SAMPLE = 100  # pictures looked for when the root of an index is changed
INDEX = Versions(
    kind="an index",
    pointer="CURRENT",
    parts=frozenset({MODEL, RAW, _VECTORS, _SMOOTHED, _REACH, _ITEMS, _METADATA, EXTRACTOR, _APPROXIMATE, META}),
    format=1,
    required={
        "files": dict, "n_items": int, "root": str | None, "extractor": dict | None, "approximate": bool | str,
        "recall": float | int | None,
    },
    optional={"neighbors": dict | None, "source": dict | None},
    keeps_previous=True,
)  # fmt: skip

# -- Writing -----------------------------------------------------------------------------------------------------------


def write_index(
    index: Index, folder: Path, on_replace: Callable[[Path, GalleryRows], None] | None = None
) -> tuple[Path, dict[str, str]]:
    """Write a new version of an index, make it the current one, and return its subfolder and checksums.

    `on_replace` is called with the folder and the rows of the index that is about to be replaced, if there is one.
    """
    if folder.is_file():
        raise LikewiseError(f"{folder} is a file; an index is a folder")
    if folder.is_dir() and not is_free(folder):
        raise LikewiseError(f"{folder} is a folder with other files in it; give an index a folder of its own")
    with locked(folder), INDEX.replace(folder) as version:
        facts = _write_parts(index, version)
        files = {path.name: _digest(path) for path in sorted(version.iterdir())}
        atomic_write(version / META, INDEX.facts_to_json({**facts, "files": files}))
        if on_replace is not None and INDEX.current(folder) is not None:
            try:
                before = read_index(folder, verify=False).parts["gallery"]
            except FileFormatError as error:
                log.warning("files that were renamed since the version before are not followed: %s", error)
            else:
                on_replace(folder, before)
    return version, files


def _write_parts(index: Index, version: Path) -> dict[str, Any]:
    """Write the files of an index; return the facts that have no file of their own."""
    index.model.save(version / MODEL)
    atomic_write(version / RAW, lambda file: write_rows(file, index.raw))
    _write_array(version / _VECTORS, index.plain_vectors)
    if index._smoothed is not None:
        _write_array(version / _SMOOTHED, index._smoothed.vectors)
        _write_array(version / _REACH, index._smoothed.reach)
    atomic_write(version / _ITEMS, index.items.to_json())
    if index.items.metadata is not None:
        atomic_write(version / _METADATA, index.items.metadata.write)
    if index.extractor_file is not None:
        shutil.copyfile(index.extractor_file, version / EXTRACTOR)
    if index.approximate:
        atomic_write(version / _APPROXIMATE, serialized(index.engine))
    return {
        "n_items": len(index),
        "root": None if index.root is None else os.fspath(index.root),
        "extractor": index.extractor,
        "approximate": index.approximate,
        "recall": index.recall,
        **({} if index.neighbors is None else {"neighbors": asdict(index.neighbors)}),
        **({} if index.source is None else {"source": index.source}),
    }


def _write_array(path: Path, values: np.ndarray) -> None:
    atomic_write(path, lambda file: np.save(file, values, allow_pickle=False))


def repoint(folder: Path, root: Path) -> None:
    """Keep `root` as the folder that the pictures of an index are in, once half of a sample of them is found there."""
    if not is_index(folder):
        raise FileFormatError(f"{folder} is not an index: it has no {INDEX.pointer}")

    def write(version: Path) -> None:
        facts = _checked_facts(version, verify=False)
        items = _read_gallery(version, facts).items
        paths = [] if items.paths is None else [path for path in items.paths if path is not None]
        if not paths:
            raise LikewiseError(f"root={root}: {folder} was built from numbers and has no pictures")
        sample = paths[:: -(-len(paths) // _SAMPLE)]
        missing = [root / path for path in sample if not (root / path).is_file()]
        if len(missing) > len(sample) / 2:
            raise LikewiseError(f"root={root} does not hold the pictures of {folder}: {missing[0]} does not exist")
        atomic_write(version / META, INDEX.facts_to_json({**facts, "root": os.path.realpath(root)}))

    with locked(folder):
        INDEX.read(folder, write)


# -- Reading -----------------------------------------------------------------------------------------------------------


def is_index(folder: Path) -> bool:
    return (folder / INDEX.pointer).is_file()


def is_free(folder: Path) -> bool:
    """Whether an index may be written to a folder: it is one, or empty, or has the marks of one that was lost."""
    return INDEX.is_free(folder, {LESSONS, *(path.name for path in folder.glob(f"{MARKS}*"))})


def is_left_of_index(folder: Path) -> bool:
    """Whether a folder was an index: it has versions or marks, even if nothing says which version is current."""
    return is_index(folder) or (folder / MARKS).is_file() or bool(folder.is_dir() and INDEX.versions(folder))


def read_facts(folder: Path) -> Facts:
    """The facts of the index in a folder, without reading the index."""
    return INDEX.read(folder, lambda version: _checked_facts(version, verify=False))


class SavedIndex(NamedTuple):
    """The current version of an index: the arguments of its `Index`, its facts, and its faiss index, if it has one.

    Its files are there as long as `hold` is.
    """

    parts: dict[str, Any]
    facts: dict[str, Any]
    approximate: Any
    hold: Hold


def read_index(folder: Path, verify: bool = True) -> SavedIndex:
    """The current version; damaged or missing files are named. The raw rows stay on disk."""
    return INDEX.read(folder, lambda version: read_version(version, verify))


def read_version(version: Path, verify: bool = True) -> SavedIndex:
    """A version of an index, which may be another than the current one."""
    hold = Hold(version)
    facts = _checked_facts(version, verify)
    parts = _read_parts(version, facts)
    kind, path = facts["approximate"], version / _APPROXIMATE
    engine = read_approximate(path, kind, *parts["vectors"].shape) if kind else None
    return SavedIndex(parts, facts, engine, hold)


def read_sources(version: Path, facts: Facts) -> tuple[SimilarityModel, GalleryRows]:
    """What the other parts of a version can be computed from; raises if a file of it is missing or damaged."""
    for name in (MODEL, RAW, _ITEMS, *facts["files"].keys() & {_METADATA, EXTRACTOR}):
        _check_file(version / name, facts["files"].get(name))
    return load_model(version / MODEL), _read_gallery(version, facts)


def _read_gallery(version: Path, facts: Facts) -> GalleryRows:
    raw, metadata, extractor = _matrix(version / RAW), version / _METADATA, version / EXTRACTOR
    columns = Columns.open(metadata, len(raw)) if metadata.is_file() else None
    try:
        items = Items.from_json((version / _ITEMS).read_bytes(), len(raw), columns)
    except LikewiseError as error:
        raise FileFormatError(f"{version / _ITEMS}: {error}") from error
    root = None if facts.get("root") is None else Path(facts["root"])
    return GalleryRows(raw, items, root, facts.get("extractor"), extractor if extractor.is_file() else None)


def rollback(folder: str | os.PathLike[str]) -> None:
    """Make the version of an index before the last save the current one; called again, the other way round."""
    folder = Path(folder)
    if not is_index(folder):
        raise FileFormatError(f"{folder} is not an index: it has no {INDEX.pointer}")
    with locked(folder):
        if (before := INDEX.previous(folder)) is not None:
            _checked_facts(before, verify=True)
        INDEX.rollback(folder)


class QueryExtractor(Protocol):
    """An extractor that is ready for queries."""

    def transform(self, X: Sequence[object]) -> np.ndarray:
        """Features of images."""

    def at_least(self) -> int | None:
        """Smallest side in pixels that a large JPEG may be decoded to."""


def live_extractor(index: Index, trust: bool = False) -> QueryExtractor:
    """The extractor saved with an index, ready to use; one that is not known here runs in a process with limits."""
    if index.extractor_file is None:
        raise LikewiseError(
            "the index was built from numbers, not from pictures, and cannot embed one: search by rows instead"
        )
    from likewise.pictures.base import is_known, load_extractor
    from likewise.pictures.decoding import LimitedExtractor

    path = index.extractor_file
    if index.folder is not None and not path.is_file():  # that of the version that the index was loaded from is gone
        saved = read_index(index.folder, verify=False)
        if saved.facts["files"].get(EXTRACTOR) != index.checksums.get(EXTRACTOR):
            raise LikewiseError(f"{index.folder} was replaced by an index with another extractor: load it again")
        path = saved.parts["gallery"].extractor_file
    extractor = load_extractor(path, trust)
    if not is_known(extractor):
        return LimitedExtractor(path)
    extractor.prepare()
    return extractor


def _checked_facts(version: Path, verify: bool) -> Facts:
    """The facts of a version whose files are all there; `verify` compares their checksums."""
    facts = INDEX.read_facts(version)
    if not facts["files"].keys() <= INDEX.parts or facts["approximate"] not in (False, *KINDS):
        raise FileFormatError(f"{version / META} is damaged: its field 'files' or 'approximate' is not known")
    with ThreadPoolExecutor(n_cores()) as threads:  # hashing gives up the interpreter: a gigabyte takes a second
        checks = [threads.submit(_check_file, version / file, digest if verify else None)
                  for file, digest in facts["files"].items()]  # fmt: skip
    for check in checks:
        check.result()
    return facts


def _check_file(path: Path, digest: str | None) -> None:
    if not path.is_file():
        raise FileFormatError(f"{path.parent.parent} is damaged: {path} is missing")
    if digest is not None and _digest(path) != digest:
        raise FileFormatError(f"{path} has been altered or damaged: its checksum does not match its content")


def _digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read_parts(version: Path, facts: Facts) -> dict[str, Any]:
    model, vectors, gallery = load_model(version / MODEL), _vectors(version / _VECTORS), _read_gallery(version, facts)
    n, width = vectors.shape
    if not len(gallery.raw) == n == facts["n_items"]:
        raise FileFormatError(f"{version} has {len(gallery.raw)} rows, {n} vectors and {len(gallery.items)} items")
    try:
        model_width = model.transform(np.zeros((1, gallery.raw.shape[1]), np.float32)).shape[1]
    except Exception as error:
        raise FileFormatError(f"{version / RAW} does not fit {version / MODEL}: {error}") from error
    if model_width != width:
        raise FileFormatError(f"{version / _VECTORS} has vectors of {width} numbers, and the model makes {model_width}")
    smoothed = _read_smoothed(version, facts, model.base_part(vectors))
    rest = {"approximate": facts["approximate"], "source": facts.get("source")}
    return {"model": model, "gallery": gallery, "vectors": vectors, "smoothed": smoothed, **rest}


def _read_smoothed(version: Path, facts: Facts, plain: np.ndarray) -> SmoothedGallery | None:
    if facts.get("neighbors") is None:
        return None
    vectors, reach = _vectors(version / _SMOOTHED), np.array(mapped(version / _REACH))
    if not (vectors.shape == plain.shape and reach.shape == plain.shape[:1] and reach.dtype.kind in "biuf"):
        raise FileFormatError(f"{version} has {len(plain)} vectors and {len(vectors)} smoothed ones")
    try:
        return SmoothedGallery(plain, Neighbors(**facts["neighbors"]), vectors, reach)
    except (LikewiseError, TypeError) as error:
        raise FileFormatError(f"{version / META} is damaged: its field 'neighbors': {error}") from error


def _matrix(path: Path) -> np.ndarray:
    """Rows of numbers, memory-mapped."""
    rows = mapped(path)
    if rows.ndim != 2 or rows.dtype.kind not in "biuf" or 0 in rows.shape:
        raise FileFormatError(f"{path} has shape {rows.shape} and type {rows.dtype}: expected rows of numbers")
    return rows


def _vectors(path: Path) -> np.ndarray:
    """Vectors as they are searched: mapped, unless the file has them in another form."""
    return np.ascontiguousarray(_matrix(path), dtype=np.float32)
