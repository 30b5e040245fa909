"""The rows of an index, from a feature store, a table, an array or blocks; a gallery may be larger than memory.

Rows of a file are mapped and read block by block, and pages that were read are given back after each block: else they
count as this process's memory for as long as the system likes. Rows that come in blocks go to a temporary file first:
an index keeps them.
"""

import mmap
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np
import scipy.sparse as sp
from numpy.lib import format as npy

from likewise.errors import LikewiseError
from likewise.learn.base import SimilarityModel
from likewise.learn.engines.opening import is_blocks
from likewise.rows import Table, read_table
from likewise.rows.parquet import ParquetRows, is_parquet, streamed_parquet
from likewise.rows.sources import check_finite
from likewise.rows.store import EXTRACTOR, FeatureStore, Item, escape, is_store
from likewise.search.items import Items, as_items
from likewise.utils.progress import progress_bar

__all__ = ["EXTRACTOR", "GalleryRows", "as_gallery", "embedded", "in_float", "lengths", "spooled", "write_rows"]

_BLOCK = 4096  # rows transformed at a time: a kernel needs room for rows × landmarks


@dataclass(frozen=True)
class GalleryRows:
    """Raw rows, their items, and the extractor that made them, if there is one."""

    raw: np.ndarray
    items: Items
    root: Path | None = None
    extractor: dict[str, Any] | None = None
    extractor_file: Path | None = None


def as_gallery(source: Any, probe: Callable[[np.ndarray], object] = lambda rows: None) -> GalleryRows:
    """Rows from a store, a table, a path to either, an array or blocks; `probe` is shown a first row of blocks."""
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        reader = FeatureStore.open if is_store(path) else streamed_parquet if is_parquet(path) else read_table
        source = reader(path)
    if isinstance(source, FeatureStore):
        return _from_store(source)
    if isinstance(source, Table):
        items = as_items(source, source.X.shape[0])
        return GalleryRows(_rows_of(source.X, probe), items, _root(items, Path(source.source)))
    raw = spooled(source, probe) if is_blocks(source) else _checked(source)
    return GalleryRows(raw, as_items(None, len(raw)))


def _root(items: Items, source: Path) -> Path | None:
    """The folder that the paths of a table are relative to: its own, or else the present one."""
    some = next((path for path in (() if items.paths is None else items.paths) if path), None)
    folders = (source.parent.resolve(), Path.cwd())
    return None if some is None else next((folder for folder in folders if (folder / some).is_file()), None)


def _rows_of(X: Any, probe: Callable[[np.ndarray], object]) -> np.ndarray:
    """Rows of a table; those of a Parquet file go to a temporary file, block by block."""
    if isinstance(X, ParquetRows):
        return spooled(lambda: (rows for _, rows in X.blocks(_BLOCK)), probe)
    return _checked(X)


def _from_store(store: FeatureStore) -> GalleryRows:
    items = items_of_store(store)
    return GalleryRows(store.features, items, store.root, store.meta.get("extractor"), store.extractor_file)


def items_of_store(store: FeatureStore) -> Items:
    """The items of a store: a file is known by its path, rows of an array by their numbers."""
    known = {"label": store.labels, "path": store.paths}
    items = as_items({name: values for name, values in known.items() if values is not None}, len(store))
    if store.paths == [str(number) for number in range(len(store))]:
        return items
    hashes = [item.hash or None for item in store.items]
    return replace(
        items,
        ids=np.array([escape(path) for path in store.paths], dtype=object),
        hashes=np.array(hashes, dtype=object) if any(hashes) else None,
        dates=np.array([_date(item) for item in store.items], dtype=object),
        numbered=False,
    )


def _date(item: Item) -> str | None:
    """The day a picture was taken, else that of its file."""
    if item.taken:
        return item.taken[:10]
    return None if item.mtime_ns < 0 else time.strftime("%Y-%m-%d", time.localtime(item.mtime_ns / 1e9))


def _checked(rows: Any) -> np.ndarray:
    if sp.issparse(rows):
        raise LikewiseError("gallery is sparse; an index holds dense rows: reduce it first, as TruncatedSVD does")
    raw = np.asarray(rows)  # of a memmap a view, still mapped
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


def in_float(X: np.ndarray) -> np.ndarray:
    """X in float32 or float64, as models take it."""
    return np.asarray(X) if X.dtype in (np.float32, np.float64) else np.asarray(X, np.float32)


def write_rows(file: BinaryIO, raw: np.ndarray) -> None:
    """Rows as a `.npy` file, as `np.save` has it."""
    npy.write_array_header_1_0(
        file, {"descr": npy.dtype_to_descr(raw.dtype), "fortran_order": False, "shape": raw.shape}
    )
    for _, rows in _blocks(raw):
        file.write(np.ascontiguousarray(rows).data)


def spooled(blocks: Any, probe: Callable[[np.ndarray], object] = lambda rows: None) -> np.ndarray:
    """Blocks of rows, from an iterable or a function that returns one, as a memmap of an anonymous temporary file.

    `probe` is called with the first row before the others are read, so that a wrong width is reported at once.
    """
    file: IO[bytes] = tempfile.TemporaryFile(prefix="likewise-")  # noqa: SIM115 (its map is what is kept)
    with file:
        n, dtype, width = 0, np.dtype(np.float32), 0
        for rows in _checked_blocks(blocks() if callable(blocks) else blocks):
            if not n:
                probe(in_float(rows[:1]))
                dtype, width = rows.dtype, rows.shape[1]
            _append(file, rows.astype(dtype, copy=False))
            n += len(rows)
        if not n:
            raise LikewiseError("gallery gives no row: expected blocks of shape (rows, d)")
        return np.memmap(file, dtype=dtype, mode="r", shape=(n, width))


def _checked_blocks(blocks: Iterable[Any]) -> Iterator[np.ndarray]:
    """The blocks that are not empty, all of the width of the first and of a type that its type can hold."""
    first: np.ndarray | None = None
    for given in blocks:
        rows = given if sp.issparse(given) else np.asarray(given)
        if sp.issparse(rows) or rows.ndim != 2 or rows.dtype.kind not in "biuf":
            raise LikewiseError(
                f"gallery gives a block of type {type(given).__name__}, {rows.dtype}, and shape {rows.shape}; "
                "expected dense rows of numbers"
            )
        if first is not None and (rows.shape[1] != first.shape[1] or not np.can_cast(rows.dtype, first.dtype)):
            raise LikewiseError(
                f"gallery gives a block of {rows.shape[1]} columns and type {rows.dtype} after one of {first.shape[1]} "
                f"and {first.dtype}; expected blocks of one kind"
            )
        first = rows[:0] if first is None else first
        if len(rows):
            yield rows


def _append(file: IO[bytes], rows: np.ndarray) -> None:
    try:
        file.write(np.ascontiguousarray(rows).data)
        file.flush()
    except OSError as error:
        raise LikewiseError(
            f"cannot keep the raw rows in {tempfile.gettempdir()}: {error.strerror}; set TMPDIR to a folder with space"
        ) from error


def _blocks(raw: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
    """Ranges of row numbers and their rows; pages of a file are released after each."""
    pages = _pages(raw)
    for first in range(0, len(raw), _BLOCK):
        part = slice(first, min(first + _BLOCK, len(raw)))
        yield part, raw[part]
        if pages is not None:
            pages.madvise(mmap.MADV_DONTNEED)


def _pages(raw: Any) -> mmap.mmap | None:
    """The mmap behind an array, if its pages can be released: not in mode "c", where changes live in them alone."""
    while isinstance(raw, np.ndarray):
        if isinstance(raw, np.memmap):
            pages = getattr(raw, "_mmap", None)
            usable = raw.mode != "c" and hasattr(mmap, "MADV_DONTNEED")
            return pages if usable and isinstance(pages, mmap.mmap) else None
        raw = raw.base
    return None
