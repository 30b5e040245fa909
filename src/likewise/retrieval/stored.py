"""The files of an index in one version of its folder: written, and read again."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from likewise.errors import FileFormatError
from likewise.persistence import load as load_model
from likewise.retrieval import folders
from likewise.retrieval.gallery import EXTRACTOR
from likewise.retrieval.items import Items
from likewise.retrieval.streaming import write_rows
from likewise.utils.files import atomic_write

if TYPE_CHECKING:
    from likewise.retrieval.index import Index

__all__ = ["read_approximate", "read_parts", "write_parts"]

_APPROXIMATE = "approximate.faiss"


def write_parts(index: Index, version: Path) -> dict[str, Any]:
    """Write all parts of an index; the facts that are not in a file of their own."""
    index.model.save(version / "model.likewise")
    atomic_write(version / "raw.npy", lambda file: write_rows(file, index.raw))
    atomic_write(version / "vectors.npy", lambda file: np.save(file, index.vectors, allow_pickle=False))
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
    }


def read_parts(version: Path, facts: dict[str, Any]) -> dict[str, Any]:
    """What an index is made of, by the names of its arguments; the raw rows stay on the disk."""
    raw, vectors = folders.mapped(version / "raw.npy"), np.array(folders.mapped(version / "vectors.npy"))
    items = Items.from_json((version / "items.json").read_bytes())
    if not len(raw) == len(vectors) == len(items) == facts["n_items"]:
        raise FileFormatError(f"{version} has {len(raw)} rows, {len(vectors)} vectors and {len(items)} items")
    return {
        "model": load_model(version / "model.likewise"),
        "raw": raw,
        "vectors": vectors,
        "items": items,
        "root": None if facts["root"] is None else Path(facts["root"]),
        "extractor": facts["extractor"],
        "extractor_file": version / EXTRACTOR if EXTRACTOR in facts["files"] else None,
        "approximate": facts["approximate"],
    }


def read_approximate(version: Path) -> Any:
    """The approximate index that `write_parts` wrote."""
    return folders.read_faiss(version / _APPROXIMATE)
