"""What only PostgreSQL does: tables of other people, errors of the server, and no password in any of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from likewise.errors import LikewiseError
from likewise.search.stores import Layout, open_store

psycopg = pytest.importorskip("psycopg")


def run(address: str, statement: str) -> list[Any]:
    with psycopg.connect(address, autocommit=True) as connection:
        cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []


def test_a_table_of_somebody_else_is_read_by_its_own_names(server: str) -> None:
    run(server, "CREATE EXTENSION IF NOT EXISTS vector")
    run(server, "CREATE SCHEMA shop")
    run(server, 'CREATE TABLE shop."Items" (uuid uuid PRIMARY KEY, embedding vector, sold date)')
    one = "00000000-0000-0000-0000-000000000001"
    run(server, f"""INSERT INTO shop."Items" VALUES ('{one}', '[1,2]', '2026-01-02')""")
    with open_store(server, "shop.Items", id_column="uuid", vector_column="embedding") as store:
        assert store.layout() == Layout(2, "text", {"sold": "text"})
        (rows,) = store.scan()
        assert (rows.ids, rows.vectors.tolist(), rows.metadata) == ([one], [[1, 2]], {"sold": ["2026-01-02"]})
        assert store.search([[3, 4]], 1)[1].tolist() == [[11]]
        with pytest.raises(LikewiseError, match="was not made by likewise: it has no column likewise_export"):
            store.create(Layout(2, "text"))
    with (
        open_store(server, "shop.Items") as store,
        pytest.raises(LikewiseError, match="has no column 'id'; it has uuid, embedding, sold"),
    ):
        store.layout()


def test_a_batch_is_written_whole_or_not_at_all(server: str) -> None:
    with open_store(server, "whole") as store:
        store.create(Layout(2, "text", {"label": "text"}))
        run(server, "ALTER TABLE whole ADD CHECK (label <> 'bad')")
        with pytest.raises(LikewiseError, match=r"PostgreSQL, table 'whole': new row .* violates check constraint"):
            store.upsert(["a", "b"], np.eye(2), {"label": ["good", "bad"]})
        assert store.count() == 0
        store.upsert(["a", "b"], np.eye(2), {"label": ["good", "fine"]})
        assert store.count() == 2


def test_the_graph_is_used_and_is_one_for_inner_products(server: str) -> None:
    with open_store(server, "graph") as store:
        store.create(Layout(2, "int"))
        store.upsert(range(500), np.random.default_rng(0).normal(size=(500, 2)))
        store.build_index()
        assert store.search(np.ones((1, 2)), 300)[0].shape == (1, 300)  # pgvector alone would stop at 40
        assert store.search(np.ones((1, 2)), 5000)[0].shape == (1, 500)
    assert "vector_ip_ops" in run(server, "SELECT indexdef FROM pg_indexes WHERE indexdef LIKE '%graph%hnsw%'")[0][0]
    off = f"{server}&options=-c%20enable_seqscan%3Doff"
    plan = run(off, "EXPLAIN SELECT id FROM graph ORDER BY vector <#> '[1,1]' LIMIT 5")
    assert "Index Scan using graph_vector_idx" in str(plan)


def test_rows_too_wide_for_a_graph_are_said(server: str) -> None:
    with open_store(server, "wide") as store:
        store.create(Layout(2001, "int"))
        with pytest.raises(LikewiseError, match="vectors have 2001 columns; an HNSW index of pgvector takes 2000"):
            store.build_index()


@pytest.mark.parametrize(
    ("address", "message"),
    [
        (
            "postgresql://me:secret@127.0.0.1:9/db",
            "cannot reach PostgreSQL at postgresql://me:\\*\\*\\*@127.0.0.1:9/db",
        ),
        ("postgresql://me:secret@host:port/db", "cannot reach PostgreSQL|is not a PostgreSQL address"),
        (
            "postgresql://me@host/db?nonsense=1&password=secret",
            "is not a PostgreSQL address; expected postgresql://user",
        ),
    ],
)
def test_a_server_that_does_not_answer_is_named_without_the_password(address: str, message: str) -> None:
    with pytest.raises(LikewiseError, match=message) as sentence:
        open_store(address, "items")
    assert "secret" not in str(sentence.value)
