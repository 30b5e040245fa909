"""The rows of an index, from a feature store, a table, an array or blocks; a gallery may be larger than memory.

Rows of a file are mapped and read block by block, and pages that were read are given back after each block: else they
count as this process's memory for as long as the system likes. Rows that come in blocks go to a temporary file first:
an index keeps them.
"""

import hashlib
import json
import mmap
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np
import scipy.sparse as sp
from numpy.lib import format as npy

from likewise.errors import LikewiseError
from likewise.learn.base import SimilarityModel
from likewise.learn.engines.opening import is_blocks
from likewise.rows import Table, read_table
from likewise.rows.parquet import is_parquet, streamed_parquet
from likewise.rows.sources import check_finite, spooled
from likewise.rows.store import EXTRACTOR, FeatureStore, Item, escape, is_store
from likewise.search.approximate import BLOCK, suited_lists, training_rows, untrained
from likewise.search.items import Items, as_items
from likewise.search.rank import in_float
from likewise.utils.arrays import to_host
from likewise.utils.files import atomic_write, make_folder, os_errors, reserve
from likewise.utils.progress import progress_bar

__all__ = ["EXTRACTOR", "GalleryRows", "as_gallery", "embedded", "in_float", "lengths", "write_rows"]

_BLOCK = 4096  # rows transformed at a time: a kernel needs room for rows × landmarks


@dataclass(frozen=True)
class GalleryRows:
    """Raw rows, their items, and the extractor that made them, if there is one."""

    raw: np.ndarray
    items: Items
    root: Path | None = None
    extractor: dict[str, Any] | None = None
    extractor_file: Path | None = None


def as_gallery(
    source: Any, probe: Callable[[np.ndarray], object] = lambda rows: None, id_column: str | None = None
) -> GalleryRows:
    """Rows from a store, a table, a path to either, an array or blocks; `probe` is shown a first row of blocks."""
    if isinstance(source, GalleryRows):
        return source
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        if is_store(path):
            source = FeatureStore.open(path)
        else:
            source = (streamed_parquet if is_parquet(path) else read_table)(path, id_column=id_column)
    if isinstance(source, FeatureStore):
        extractor = source.meta.get("extractor")
        return GalleryRows(source.features, items_of_store(source), source.root, extractor, source.extractor_file)
    if isinstance(source, Table):
        items = as_items(source, source.X.shape[0])
        return GalleryRows(_checked(source.X), items, _root(items, Path(source.source)))
    if is_blocks(source):
        source = spooled(source, "gallery", lambda row: probe(in_float(row)))
    raw = _checked(source)
    return GalleryRows(raw, as_items(None, len(raw)))


def _root(items: Items, source: Path) -> Path | None:
    """The folder that the paths of a table are relative to: its own, or else the present one."""
    some = next((path for path in (() if items.paths is None else items.paths) if path), None)
    folders = (source.parent.resolve(), Path.cwd())
    return None if some is None else next((folder for folder in folders if (folder / some).is_file()), None)


def items_of_store(store: FeatureStore) -> Items:
    """The items of a store: a file is known by its path, rows of an array by their numbers."""

    def date(item: Item) -> str | None:
        """The day a picture was taken, else that of its file."""
        if item.taken:
            return item.taken[:10]
        return None if item.mtime_ns < 0 else time.strftime("%Y-%m-%d", time.localtime(item.mtime_ns / 1e9))

    known = {"label": store.labels, "path": store.paths}
    items = as_items({name: values for name, values in known.items() if values is not None}, len(store))
    if store.paths == [str(number) for number in range(len(store))]:
        return items
    hashes = [item.hash or None for item in store.items]
    return replace(
        items,
        ids=np.array([escape(path) for path in store.paths], dtype=object),
        hashes=np.array(hashes, dtype=object) if any(hashes) else None,
        dates=np.array([date(item) for item in store.items], dtype=object),
        numbered=False,
    )


def _checked(rows: Any) -> np.ndarray:
    if sp.issparse(rows):
        raise LikewiseError("gallery is sparse; an index holds dense rows: reduce it first, as TruncatedSVD does")
    raw = np.asarray(to_host(rows))  # of a memmap a view, still mapped
    if raw.ndim != 2 or raw.dtype.kind not in "biuf" or 0 in raw.shape:
        raise LikewiseError(f"gallery has shape {raw.shape} and type {raw.dtype}; expected rows of numbers")
    return raw


def embedded(model: SimilarityModel, raw: np.ndarray, verbose: int = 0) -> np.ndarray:
    """Gallery side of the rows in float32, block by block; `verbose` shows a progress bar."""
    width = model.transform(in_float(np.asarray(raw[:1]))).shape[1] if len(raw) else 0
    vectors = np.empty((len(raw), width), np.float32)
    with progress_bar("indexing", len(raw), enabled=bool(verbose)) as advance:
        embed_blocks(model, raw, vectors, advance=advance)
    return vectors


def embed_blocks(
    model: SimilarityModel,
    raw: np.ndarray,
    out: np.ndarray,
    first: int = 0,
    advance: Callable[[int], object] = lambda rows: None,
) -> None:
    """Write the gallery side of the rows into `out`; the rows are those from `first` on of a gallery."""
    for part, rows in _blocks(raw):
        check_finite(rows, first + part.start, lambda row: f"gallery: row {row}")
        out[part] = model.transform(in_float(rows))
        advance(len(rows))


def lengths(raw: np.ndarray) -> np.ndarray:
    """Lengths of the rows in float32, block by block."""
    return np.concatenate([np.linalg.norm(in_float(rows), axis=1) for _, rows in _blocks(raw)]).astype(np.float32)


def write_rows(file: BinaryIO, raw: np.ndarray) -> None:
    """Rows as a `.npy` file, as `np.save` has it."""
    npy.write_array_header_1_0(
        file, {"descr": npy.dtype_to_descr(raw.dtype), "fortran_order": False, "shape": raw.shape}
    )
    for _, rows in _blocks(raw):
        file.write(np.ascontiguousarray(rows).data)


def _blocks(raw: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
    """Ranges of row numbers and their rows; pages of a file are released after each.

    They cannot be in mode "c", where changes live in them alone.
    """
    whole: Any = raw
    while isinstance(whole, np.ndarray) and not isinstance(whole, np.memmap):
        whole = whole.base
    is_free = isinstance(whole, np.memmap) and whole.mode != "c" and hasattr(mmap, "MADV_DONTNEED")
    pages = getattr(whole, "_mmap", None) if is_free else None
    for first in range(0, len(raw), _BLOCK):
        part = slice(first, min(first + _BLOCK, len(raw)))
        yield part, raw[part]
        if pages is not None:
            pages.madvise(mmap.MADV_DONTNEED)


# -- Building a large index in steps -----------------------------------------------------------------------------------


_PART = 10 * BLOCK  # vectors of a part of the lists
_STATE, _VECTORS, _TRAINED = "state.json", "vectors.npy", "trained.faiss"
_OURS = re.compile(r"state\.json|vectors\.npy|trained\.faiss|part-\d{5}\.faiss|\..+\.tmp")


class ResumableBuild:
    """What has been computed of an index so far, in a folder of its own."""

    def __init__(self, folder: Path, of: dict[str, Any]) -> None:
        self.folder, self._of, self._done = folder, of, 0

    @classmethod
    def of(cls, folder: Path, model: SimilarityModel, raw: np.ndarray, kind: str | bool) -> Self:
        """Resume from a folder, or start again if it is of another gallery, model or kind."""
        workspace = cls(folder, {"rows": len(raw), "kind": kind, "model": model.identity, "of": _digest(raw)})
        if folder.exists() and not workspace._is_ours():
            raise LikewiseError(f"{folder} is there and was not made by likewise index; move it away")
        known: dict[str, Any] = {}
        with suppress(OSError, ValueError, TypeError):
            known = dict(json.loads((folder / _STATE).read_bytes()))
        if {name: known.get(name) for name in workspace._of} == workspace._of:
            workspace._done = int(known.get("done", 0))
        else:
            workspace.remove()
            make_folder(folder)
            workspace._write_state()
        return workspace

    def _is_ours(self) -> bool:
        """Whether the folder has our names alone, and the one that is written first; or nothing yet."""
        names = {path.name for path in self.folder.iterdir()} if self.folder.is_dir() else {"a file"}
        begun = _STATE in names or all(name.startswith(".") for name in names)
        return begun and all(_OURS.fullmatch(name) for name in names)

    def _write_state(self) -> None:
        atomic_write(self.folder / _STATE, json.dumps({**self._of, "done": self._done}).encode())

    def remove(self) -> None:
        """Remove the folder: the index has been saved."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def vectors(self, model: SimilarityModel, raw: np.ndarray, verbose: int = 0) -> np.ndarray:
        """The gallery side of the rows, mapped from a file; rows that were done before are not transformed again."""
        path = self.folder / _VECTORS
        width = model.transform(in_float(np.asarray(raw[:1]))).shape[1]
        if not self._done or not path.exists():
            self._done = 0
            np.lib.format.open_memmap(path, "w+", np.float32, (len(raw), width))
            with os_errors(f"cannot write {path}"):
                reserve(path)
        out = np.lib.format.open_memmap(path, "r+")
        with progress_bar("indexing", len(raw), enabled=bool(verbose)) as advance:
            advance(self._done)
            while self._done < len(raw):
                end = min(len(raw), self._done + BLOCK)
                embed_blocks(model, raw[self._done : end], out[self._done : end], self._done)
                out.flush()
                advance(end - self._done)
                self._done = end
                self._write_state()
        return np.lib.format.open_memmap(path, "r")

    def lists(self, V: np.ndarray, kind: str, verbose: int = 0) -> Any:
        """The faiss index of the vectors, from parts that are built one after the other."""
        import faiss

        trained = self.folder / _TRAINED
        if not trained.exists():
            empty = untrained(kind, *V.shape)
            empty.train(training_rows(V, kind, empty.nlist))
            atomic_write(trained, faiss.serialize_index(empty).tobytes())
        index: Any = faiss.read_index(os.fspath(trained))
        with progress_bar("lists", len(V), enabled=bool(verbose)) as advance:
            for start in range(0, len(V), _PART):
                index.merge_from(self._part(V, start), 0)
                advance(min(_PART, len(V) - start))
        index.nprobe = suited_lists(index, V, kind)
        return index

    def _part(self, V: np.ndarray, start: int) -> Any:
        import faiss

        path = self.folder / f"part-{start // _PART:05d}.faiss"
        if not path.exists():
            part: Any = faiss.read_index(os.fspath(self.folder / _TRAINED))
            for first in range(start, min(len(V), start + _PART), BLOCK):
                block = np.ascontiguousarray(V[first : min(len(V), first + BLOCK)], dtype=np.float32)
                part.add_with_ids(block, np.arange(first, first + len(block)))
            atomic_write(path, faiss.serialize_index(part).tobytes())
        return faiss.read_index(os.fspath(path))


def _digest(raw: np.ndarray) -> str:
    """What names a gallery, by all of its rows."""
    digest = hashlib.sha256()
    for start in range(0, len(raw), BLOCK):
        digest.update(np.ascontiguousarray(raw[start : start + BLOCK]).data)
    return digest.hexdigest()
