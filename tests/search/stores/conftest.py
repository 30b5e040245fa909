"""Every store that can run here: real servers and files, one of each for all tests, which differ by their tables."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from likewise.search.stores import Layout, Rows, Store, open_store

STORES = ("postgresql", "qdrant", "lancedb", "milvus")
FIRST_TIER = ("postgresql", "qdrant")  # a server and an embedded one
_MODULES = {"postgresql": "psycopg", "qdrant": "qdrant_client", "lancedb": "lancedb", "milvus": "milvus_lite"}
_NUMBERS = count()

N, WIDTH = 60, 5
LAYOUT = Layout(WIDTH, "text", {"label": "text", "price": "int", "weight": "float"})
NAMES = [
    "doc-7108",
    "it's",
    'say "hi"',
    "back\\slash",
    "x'); DROP TABLE likewise; --",
    '" OR ""="',
    "per%cent %s {id}",
    "líne\nbreak 🐈",
    " ",
    "NULL",
]
IDS = [*NAMES, *(f"item {row}" for row in range(N - len(NAMES)))]


@pytest.fixture(
    scope="session",
    params=[kind if kind in FIRST_TIER else pytest.param(kind, marks=pytest.mark.second) for kind in STORES],
)
def address(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a store of each kind."""
    kind = request.param
    pytest.importorskip(_MODULES[kind])
    if kind == "postgresql":
        return request.getfixturevalue("server")
    return f"{kind}:{tmp_path_factory.mktemp(kind) / ('gallery.db' if kind == 'milvus' else 'gallery')}"


@pytest.fixture
def own_address(address: str, tmp_path: Path) -> str:
    """A place that no other process has open: a server, or an empty file or folder."""
    kind = address.partition(":")[0]
    return address if kind == "postgresql" else f"{kind}:{tmp_path / 'gallery.db'}"


@pytest.fixture
def table() -> str:
    """A name for each test."""
    return new_table()


def new_table() -> str:
    return f"t{os.getpid()}_{next(_NUMBERS)}"


@pytest.fixture
def opened(address: str, table: str) -> Iterator[Callable[[], Store]]:
    """Opens the table, after closing the one opened before."""
    last: list[Store] = []

    def again() -> Store:
        while last:
            last.pop().close()
        last.append(open_store(address, table))
        return last[0]

    yield again
    while last:
        last.pop().close()


@pytest.fixture(scope="session")
def rows() -> Rows:
    """Vectors of any length, so that cosine and inner product rank differently."""
    rng = np.random.default_rng(0)
    V = (rng.normal(size=(N, WIDTH)) * rng.uniform(0.1, 10, (N, 1))).astype(np.float32)
    columns = {
        "label": [None if row % 7 == 0 else f"it's {row % 3}" for row in range(N)],
        "price": [None if row % 5 == 0 else row for row in range(N)],
        "weight": [None if row % 4 == 0 else row / 8 for row in range(N)],
    }
    return Rows(IDS, V, columns)


@pytest.fixture(scope="session")
def filled_table(address: str, rows: Rows) -> str:
    """A table with all rows, which no test changes."""
    name = new_table()
    with open_store(address, name) as store:
        store.create(LAYOUT)
        store.upsert(rows.ids, rows.vectors, rows.metadata, tags=["one"] * len(rows.ids))
    return name


@pytest.fixture
def filled(address: str, filled_table: str) -> Iterator[Store]:
    """That table, to be read."""
    with open_store(address, filled_table) as store:
        yield store
