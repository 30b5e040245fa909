"""Approximate search by faiss: graphs and inverted lists, when they are worth it, and what they find."""

import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from likewise.errors import FileFormatError, LikewiseError, optional
from likewise.search.rank import Exact, best_rows

log = logging.getLogger("likewise")

KINDS = ("hnsw", "ivf", "ivfpq")
EXACT_SECONDS = 0.05  # "auto" stays exact while a search takes no longer
# Below this many items an HNSW graph is small and accurate; above it IVF lists are built in a fraction of the time.
IVF_FROM = 500_000
GOOD = 0.98  # recall@10 for which the number of lists to look into is chosen
BLOCK = 100_000  # vectors added at a time
_PROBES = 500  # queries that measure the recall of an approximate index
_FEWEST, _PRODUCTS = 100, 1e11  # of either, and multiplications that they may take
_CHOOSING = 200  # other queries, that choose how many lists are looked into
_MOST_LISTS = 2048  # assigning a vector costs a product per list
_PER_LIST = 50  # vectors that train a list: with four times as many the recall is the same
_ROUNDS = 6  # of k-means
_PER_CODE = 256  # vectors that train a centre of a code
_WIDER = 10  # times as many candidates from codes, which are scored by the vectors themselves


class Approximate:
    """faiss HNSW, IVF or IVF with product codes; its candidates are scored exactly."""

    exact = False

    def __init__(self, V: np.ndarray, kind: str | bool, index: Any = None) -> None:
        self.kind = kind_for(kind, len(V))
        self.V = V
        self.index = built(V, self.kind) if index is None else index

    def __len__(self) -> int:
        return len(self.V)

    def candidates(self, Q: np.ndarray, k: int) -> np.ndarray:
        """At least k rows with high scores, or all; -1 where fewer were found."""
        wanted = min(len(self.V), _WIDER * k) if self.kind == "ivfpq" else k
        return np.asarray(self.index.search(Q, wanted)[1])


def kind_for(approximate: str | bool, n: int) -> str:
    """The kind of an index of n items: the one asked for, or by its size."""
    if approximate is True:
        return "hnsw" if n < IVF_FROM else "ivf"
    if approximate not in KINDS:
        raise LikewiseError(f"approximate={approximate!r}: expected False, True, 'auto', 'hnsw', 'ivf' or 'ivfpq'")
    return str(approximate)


def suited_kind(approximate: str | bool, V: np.ndarray) -> str | bool:
    """The kind of an index of these vectors, False for an exact one; "auto" measures how long a search takes."""
    if approximate == "auto":
        engine, times = Exact(V), []
        for row in np.linspace(0, len(V) - 1, 3).astype(int):
            began = time.perf_counter()
            best_rows(engine, V[row : row + 1], min(10, len(V)))
            times.append(time.perf_counter() - began)
        log.info("an exact search takes %.0f ms", 1e3 * min(times))
        approximate = min(times) > EXACT_SECONDS
    return approximate and kind_for(approximate, len(V))


# -- Building ----------------------------------------------------------------------------------------------------------


def built(V: np.ndarray, kind: str) -> Any:
    """A faiss index of the vectors."""
    index = untrained(kind, *V.shape)
    if kind != "hnsw":
        index.train(training_rows(V, kind, index.nlist))
    for start in range(0, len(V), BLOCK):
        index.add(np.ascontiguousarray(V[start : start + BLOCK], dtype=np.float32))
    if kind != "hnsw":
        index.nprobe = suited_lists(index, V, kind)
    return index


def untrained(kind: str, n: int, width: int) -> Any:
    """An empty faiss index for n vectors."""
    faiss = optional("faiss", "approximate search", "serve")
    inner = faiss.METRIC_INNER_PRODUCT
    if kind == "hnsw":
        graph = faiss.IndexHNSWFlat(width, 32, inner)
        graph.hnsw.efConstruction, graph.hnsw.efSearch = 200, 128
        return graph
    lists = int(max(1, min(2 * np.sqrt(n), n / 40, _MOST_LISTS)))
    cells = faiss.IndexFlatIP(width)
    if kind == "ivf":
        index = faiss.IndexIVFFlat(cells, width, lists, inner)
    else:
        # The parts of a product code, each of two numbers or, if the width is odd or large, of more.
        parts = next(m for m in range(min(width, max(1, width // 2), 64), 0, -1) if width % m == 0)
        index = faiss.IndexIVFPQ(cells, width, lists, parts, 8 if n >= 10_000 else 4, inner)
        index.pq.cp.max_points_per_centroid = _PER_CODE
    cells.this.disown()
    index.own_fields = True
    index.cp.max_points_per_centroid, index.cp.niter = _PER_LIST, _ROUNDS
    return index


def training_rows(V: np.ndarray, kind: str, lists: int) -> np.ndarray:
    """Vectors drawn evenly, as many as the lists and the codes are trained by."""
    wanted = max(_PER_LIST * lists, 256 * _PER_CODE if kind == "ivfpq" else 0)
    rows = np.arange(len(V)) if wanted >= len(V) else np.linspace(0, len(V) - 1, wanted).astype(np.int64)
    return np.ascontiguousarray(V[rows], dtype=np.float32)


def suited_lists(index: Any, V: np.ndarray, kind: str) -> int:
    """The least power of two of lists that find GOOD of the best rows of some vectors; a sixteenth for few vectors."""
    rows = _sample(V, _CHOOSING, seed=1)
    Q, k = np.ascontiguousarray(V[rows], dtype=np.float32), min(10, len(V))
    exact, engine, lists = best_rows(Exact(V), Q, k)[0], Approximate(V, kind, index), 1
    while lists < index.nlist:
        index.nprobe = lists
        if _share(exact, best_rows(engine, Q, k)[0]) >= GOOD:
            break
        lists *= 2
    return min(lists, int(index.nlist))


# -- Recall ------------------------------------------------------------------------------------------------------------


def measured_recall(engine: Approximate, Q: np.ndarray, k: int = 10) -> float:
    """The share of the exact k best rows that the engine finds for the queries Q."""
    k = min(k, len(engine.V))
    return _share(best_rows(Exact(engine.V), Q, k)[0], best_rows(engine, Q, k)[0])


def _share(exact: np.ndarray, rows: np.ndarray) -> float:
    return float(np.mean([len(np.intersect1d(a, b)) / len(a) for a, b in zip(exact, rows, strict=True)]))


def sampled_recall(engine: Any, as_query: Callable[[np.ndarray], np.ndarray]) -> float:
    """Recall of an approximate engine for some rows of its gallery; `as_query` makes query vectors of rows."""
    recall = measured_recall(engine, as_query(_sample(engine.V, _PROBES, seed=0)))
    log.info("%s: recall@10 %.1f %%", engine.kind, 100 * recall)
    return recall


def _sample(V: np.ndarray, size: int, seed: int) -> np.ndarray:
    """Some rows, fewer of a very large gallery: each is searched exactly."""
    n, width = V.shape
    some = min(n, size, max(_FEWEST, int(_PRODUCTS / (n * width))))
    return np.sort(np.random.default_rng(seed).choice(n, some, replace=False))


# -- Files -------------------------------------------------------------------------------------------------------------


def serialized(engine: Any) -> bytes:
    """The faiss index of an approximate engine as the bytes of a file.

    Lists that are mapped from one are read into memory first; after a lesson the index is rebuilt.
    """
    import faiss

    index = engine.index if isinstance(engine, Approximate) else built(np.asarray(engine.V), engine.kind)
    lists = getattr(index, "invlists", None)
    if lists is not None and not isinstance(faiss.downcast_InvertedLists(lists), faiss.ArrayInvertedLists):
        held: Any = faiss.ArrayInvertedLists(index.nlist, index.code_size)
        lists.copy_subset_to(held, 0, 0, index.ntotal)  # 0: by a range of numbers
        index.replace_invlists(held, True)
        held.this.disown()
    return bytes(faiss.serialize_index(index).tobytes())


def read_approximate(path: Path, kind: str, n: int, width: int) -> Any:
    """The faiss index of a file, which must be one of n vectors; lists are mapped, being as large as the vectors."""
    faiss = optional("faiss", "an approximate index", "serve")
    how = 0 if kind == "hnsw" else faiss.IO_FLAG_MMAP | faiss.IO_FLAG_READ_ONLY
    try:
        index = faiss.read_index(os.fspath(path), how)
    except (RuntimeError, MemoryError) as error:
        raise FileFormatError(f"{path} is damaged: {str(error).splitlines()[0][:200]}") from error
    if (index.ntotal, index.d) != (n, width):
        raise FileFormatError(f"{path} is damaged: it has {index.ntotal} × {index.d} numbers, expected {n} × {width}")
    return index
