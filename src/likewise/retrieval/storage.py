"""The folder of an index: one subfolder per version, and a small file that names the current one.

`CURRENT` holds the name of a subfolder. A new version is written beside the old one, synced, and only then `CURRENT` is
replaced; the old version is removed last. A process killed at any moment leaves the old version or the new one.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import likewise
from likewise.base import load as load_model
from likewise.errors import FileFormatError, LikewiseError, MissingExtraError
from likewise.retrieval.gallery import EXTRACTOR, write_rows
from likewise.retrieval.items import Items
from likewise.retrieval.neighbours import Neighbours
from likewise.retrieval.smoothed_gallery import SmoothedGallery, base_part
from likewise.utils.files import atomic_write, locked, sync

if TYPE_CHECKING:
    from likewise.retrieval.index import Index

FORMAT = 1
_POINTER = "CURRENT"
_PREFIX = "version-"
_META = "meta.json"
_APPROXIMATE = "approximate.faiss"
_SMOOTHED, _REACH = "smoothed.npy", "reach.npy"  # only of an index with neighbours; vectors.npy is always plain

# ---------------------------------------------------------------------------------------------------------------------
# Writing


def write_index(index: Index, folder: Path) -> Path:
    """Write a new version of an index, make it the current one, and return its subfolder."""
    _check_free(folder)
    with locked(folder):
        _remove_versions(folder, keep=_current(folder))
        version = folder / f"{_PREFIX}{secrets.token_hex(6)}"
        version.mkdir()
        try:
            _seal(version, _write_parts(index, version))
            atomic_write(folder / _POINTER, f"{version.name}\n".encode())
        except BaseException:
            shutil.rmtree(version, ignore_errors=True)
            raise
        _remove_versions(folder, keep=version.name)
    return version


def _check_free(folder: Path) -> None:
    """Refuse to write into a file, or into a folder that holds anything but an index."""
    if folder.is_file():
        raise LikewiseError(f"{folder} is a file; an index is a folder")
    if folder.is_dir() and not (folder / _POINTER).exists() and _is_occupied(folder):
        raise LikewiseError(f"{folder} is a folder with other files in it; give an index a folder of its own")


def _is_occupied(folder: Path) -> bool:
    """Whether a folder holds anything but the leftovers of an interrupted first save."""
    return any(not path.name.startswith((_PREFIX, ".", "feedback")) for path in folder.iterdir())


def _write_parts(index: Index, version: Path) -> dict[str, Any]:
    """Write the files of an index; return the facts that have no file of their own."""
    index.model.save(version / "model.likewise")
    atomic_write(version / "raw.npy", lambda file: write_rows(file, index.raw))
    _write_array(version / "vectors.npy", index.plain_vectors)
    if index._smoothed is not None:
        _write_array(version / _SMOOTHED, index._smoothed.vectors)
        _write_array(version / _REACH, index._smoothed.reach)
    atomic_write(version / "items.json", index.items.to_json())
    if index.extractor_file is not None:
        shutil.copyfile(index.extractor_file, version / EXTRACTOR)
    if index.approximate:
        import faiss

        faiss.write_index(index.engine.index, os.fspath(version / _APPROXIMATE))  # type: ignore[union-attr]
    return {
        "n_items": len(index),
        "root": None if index.root is None else os.fspath(index.root),
        "extractor": index.extractor,
        "approximate": index.approximate,
        "recall": index.recall,
        **({} if index.neighbours is None else {"neighbours": asdict(index.neighbours)}),
    }


def _write_array(path: Path, values: np.ndarray) -> None:
    atomic_write(path, lambda file: np.save(file, values, allow_pickle=False))


def _seal(version: Path, facts: dict[str, Any]) -> None:
    """Write the facts with a checksum of every file, and sync all of it."""
    files = {path.name: _digest(path) for path in sorted(version.iterdir())}
    card = {"format": FORMAT, "likewise": likewise.__version__, **facts, "files": files}
    atomic_write(version / _META, (json.dumps(card, indent=2, sort_keys=True) + "\n").encode())
    for path in (*version.iterdir(), version, version.parent):
        sync(path)


def _remove_versions(folder: Path, keep: str | None) -> None:
    """Remove all versions but one: earlier ones, and what a killed process left."""
    for path in folder.glob(f"{_PREFIX}*"):
        if path.name != keep:
            shutil.rmtree(path, ignore_errors=True)


# ---------------------------------------------------------------------------------------------------------------------
# Reading


def read_index(folder: Path, verify: bool = True) -> tuple[Path, dict[str, Any], float | None]:
    """The current version, the arguments of its `Index`, and its recall; damaged or missing files are named.

    The raw rows stay on disk.
    """
    name = _current(folder)
    if name is None and not folder.exists():
        raise LikewiseError(f"{folder} does not exist")
    if name is None:
        raise FileFormatError(f"{folder} is not an index: it has no {_POINTER}")
    try:
        facts = _read_facts(folder / name, verify)
        return folder / name, _read_parts(folder / name, facts), facts["recall"]
    except FileFormatError:
        if _current(folder) == name:
            raise
    return read_index(folder, verify)  # the version was replaced while it was being read


def _current(folder: Path) -> str | None:
    with suppress(OSError, UnicodeDecodeError):
        name = (folder / _POINTER).read_text("utf-8").strip()
        # The name comes from a file: it must not lead out of the folder.
        return name if name.startswith(_PREFIX) and name == os.path.basename(name) else None
    return None


def _read_facts(version: Path, verify: bool) -> dict[str, Any]:
    """The facts of a version whose files are all there; `verify` compares their checksums."""
    try:
        facts: dict[str, Any] = json.loads((version / _META).read_bytes())
        number, files = int(facts["format"]), facts["files"].items()
    except FileNotFoundError as error:
        raise FileFormatError(f"{version.parent} is damaged: {version / _META} is missing") from error
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        raise FileFormatError(f"{version / _META} is damaged: {error!r}") from error
    if number > FORMAT:
        raise FileFormatError(
            f"{version.parent} has format {number}; likewise {likewise.__version__} reads up to {FORMAT}: upgrade it"
        )
    for file, digest in files:
        _check_file(version / file, digest if verify else None)
    return facts


def _check_file(path: Path, digest: str | None) -> None:
    if not path.is_file():
        raise FileFormatError(f"{path.parent.parent} is damaged: {path} is missing")
    if digest is not None and _digest(path) != digest:
        raise FileFormatError(f"{path} has been altered or damaged: its checksum does not match its content")


def _digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read_parts(version: Path, facts: dict[str, Any]) -> dict[str, Any]:
    model = load_model(version / "model.likewise")
    raw, vectors = _mapped(version / "raw.npy"), np.array(_mapped(version / "vectors.npy"))
    items = Items.from_json((version / "items.json").read_bytes())
    if not len(raw) == len(vectors) == len(items) == facts["n_items"]:
        raise FileFormatError(f"{version} has {len(raw)} rows, {len(vectors)} vectors and {len(items)} items")
    return {
        "model": model,
        "raw": raw,
        "vectors": vectors,
        "items": items,
        "root": None if facts["root"] is None else Path(facts["root"]),
        "extractor": facts["extractor"],
        "extractor_file": version / EXTRACTOR if EXTRACTOR in facts["files"] else None,
        "approximate": facts["approximate"],
        "smoothed": _read_smoothed(version, facts, base_part(model, vectors)),
    }


def _read_smoothed(version: Path, facts: dict[str, Any], plain: np.ndarray) -> SmoothedGallery | None:
    if facts.get("neighbours") is None:
        return None
    vectors, reach = np.array(_mapped(version / _SMOOTHED)), np.array(_mapped(version / _REACH))
    if not (vectors.shape == plain.shape and reach.shape == plain.shape[:1]):
        raise FileFormatError(f"{version} has {len(plain)} vectors and {len(vectors)} smoothed ones")
    return SmoothedGallery(plain, Neighbours(**facts["neighbours"]), vectors, reach)


def _mapped(path: Path) -> np.ndarray:
    """A memory-mapped array."""
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise FileFormatError(f"{path} is damaged or truncated: {error}") from error


def read_approximate(version: Path) -> Any:
    """The approximate faiss index of a version."""
    try:
        import faiss
    except ImportError as error:
        raise MissingExtraError("an approximate index", "serve") from error
    return faiss.read_index(os.fspath(version / _APPROXIMATE))
