"""Every store that can run here, each with a place of its own: real servers and real files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from likewise.retrieval.stores import Store, open_store

STORES = ("postgresql", "qdrant", "lancedb", "milvus")
_MODULES = {"postgresql": "psycopg", "qdrant": "qdrant_client", "lancedb": "lancedb", "milvus": "milvus_lite"}


@pytest.fixture(params=STORES)
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty store of each kind."""
    kind = request.param
    pytest.importorskip(_MODULES[kind])
    if kind == "postgresql":
        return request.getfixturevalue("server")
    return f"{kind}:{tmp_path / ('gallery.db' if kind == 'milvus' else 'gallery')}"


@pytest.fixture
def table(request: pytest.FixtureRequest) -> str:
    """A name for each test: all share one PostgreSQL."""
    return f"t{abs(hash((request.node.nodeid, os.getpid()))):x}"


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
