"""Addresses name a store, and are printed without their passwords."""

from __future__ import annotations

import pytest

from likewise.errors import LikewiseError, MissingExtraError
from likewise.search.stores import open_store
from likewise.search.stores.base import scheme_of, without_password


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgresql://me:secret@host/db", "postgresql://me:***@host/db"),
        ("postgresql://me:se:cr@et/@host:5/db", "postgresql://me:***@host:5/db"),
        ("postgresql://me@host/db?password=secret&x=1", "postgresql://me@host/db?password=***&x=1"),
        ("postgresql://me@host/db", "postgresql://me@host/db"),
        ("qdrant:https://key:secret@host:6333", "qdrant:https://key:***@host:6333"),
        ("lancedb:folder", "lancedb:folder"),
    ],
)
def test_passwords_are_stars(address: str, shown: str) -> None:
    assert without_password(address) == shown


def test_a_file_is_no_store() -> None:
    assert scheme_of("items.parquet") is None
    assert scheme_of("C:/items.parquet") is None
    assert scheme_of("postgres://host/db") == scheme_of("postgresql://host/db") == "postgresql"


@pytest.mark.parametrize("address", ["redis://me:secret@host", "qdrant:", "lancedb", "a.parquet"])
def test_another_address_is_refused(address: str) -> None:
    with pytest.raises(
        LikewiseError, match=r"is not a store; expected postgresql://…, qdrant:, lancedb: or milvus:"
    ) as message:
        open_store(address)
    assert "secret" not in str(message.value)


@pytest.mark.parametrize(
    ("address", "module", "extra"),
    [
        ("postgresql://host/db", "psycopg", "postgres"),
        ("qdrant:folder", "qdrant_client", "qdrant"),
        ("lancedb:folder", "lancedb", "lancedb"),
        ("milvus:items.db", "pymilvus", "milvus"),
    ],
)
def test_a_missing_extra_is_named(address: str, module: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    for name in [name for name in sys.modules if name.partition(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=rf"needs the extra '{extra}': pip install 'likewise\[{extra}\]'"):
        open_store(address)
