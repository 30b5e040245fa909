"""Readers next to a writer: the old or the new, never a mix and never an error."""

from __future__ import annotations

import os
import signal
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pytest

from likewise.learn.engines import open_rows
from likewise.pictures import Pixels
from likewise.rivals import Cosine
from likewise.rows import FeatureStore, read_table
from likewise.search import Index
from likewise.teach import load_index

X = np.random.default_rng(0).standard_normal((12, 4)).astype(np.float32)


@pytest.fixture
def scratch() -> Iterator[Path]:
    """In memory, where a writer replaces a store hundreds of times a second."""
    where = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="readers-", dir=where) as folder:
        yield Path(folder)


def next_to(write: Callable[[int], object], read: Callable[[], Any], reads: int = 150, writes: int = 50) -> None:
    """Read while a fork writes over and over, until both was done so often."""
    counted, count = os.pipe()
    os.set_blocking(counted, False)
    child = os.fork()
    if child == 0:
        try:
            faiss.omp_set_num_threads(1)  # the threads of OpenMP do not outlive a fork
            for number in range(1, 10**6):
                write(number)
                os.write(count, b".")
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    os.close(count)
    try:
        while reads > 0 or writes > 0:
            read()
            reads -= 1
            with suppress(BlockingIOError):
                done = os.read(counted, 1 << 16)
                assert done, "the writer failed"
                writes -= len(done)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(counted)


@pytest.mark.second
def test_a_store_being_replaced_is_one_store_to_its_readers(scratch: Path) -> None:
    folder = scratch / "s"

    def write(number: int) -> None:
        n = 2 + number % 7
        FeatureStore.write(folder, np.full((n, 3), n), [f"{n}"] * n, extractor=Pixels(n) if n % 2 else None)

    def read() -> None:
        store = FeatureStore.open(folder)
        n = len(store)
        assert store.labels is not None
        assert (store.features == n).all()
        assert set(store.labels) == {str(n)}
        assert store.meta["n_items"] == n
        assert ("extractor" in store.meta) == bool(n % 2)
        table = read_table(folder, names=False)
        assert table.y is not None
        assert (len(table.y) == table.X).all()

    write(0)
    next_to(write, read)


def test_rows_opened_before_a_replace_are_read_to_their_end(tmp_path: Path) -> None:
    FeatureStore.write(tmp_path / "s", X, ["a", "b"] * 6)
    table = read_table(tmp_path / "s", names=False)
    rows, store = open_rows(table), open_rows(FeatureStore.open(tmp_path / "s"))
    FeatureStore.write(tmp_path / "s", X[:3] + 100, ["c", "d", "c"])
    for opened in (rows, store):
        found = np.concatenate([np.asarray(block.rows) for block in opened.engine.blocks()])
        np.testing.assert_allclose(np.sort(found, axis=0), np.sort(X, axis=0))


@pytest.mark.second
@pytest.mark.parametrize("approximate", [False, "hnsw"])
def test_an_index_being_replaced_is_one_index_to_its_readers(scratch: Path, approximate: Any) -> None:
    folder = scratch / "i"

    def write(number: int) -> None:
        n = 4 + number % 8
        G = X[:n] + n
        Index.build(Cosine(centre=True).fit(G), G, {"label": [str(n)] * n}, approximate=approximate).save(folder)

    def read() -> None:
        index = load_index(folder)
        n = len(index)
        assert index.labels is not None
        assert set(index.labels) == {str(n)}
        np.testing.assert_array_equal(index.raw, X[:n] + n)
        assert index.search(index.raw[:1], k=2).ids.shape == (1, 2)

    write(0)
    next_to(write, read)


def test_an_extractor_is_found_after_its_index_was_replaced(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (6, 8, 8, 3)).astype(np.uint8)
    made = Pixels(4)
    store = FeatureStore.write(tmp_path / "s", made.transform(images), extractor=made)
    Index.build(Cosine().fit(store.features), store).save(tmp_path / "i")
    loaded = load_index(tmp_path / "i")
    Index.build(Cosine().fit(store.features), store).save(tmp_path / "i")
    np.testing.assert_array_equal(loaded.embed(images), store.features)
