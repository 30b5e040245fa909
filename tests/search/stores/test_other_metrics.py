"""Graphs are for inner products; collections by another metric are refused: a cosine would change lengths."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from likewise.errors import LikewiseError
from likewise.search.stores import Layout, open_store

LAYOUT = Layout(4, "int")
V = np.random.default_rng(0).normal(size=(300, 4)) * np.random.default_rng(1).uniform(0.1, 10, (300, 1))


def test_a_cosine_collection_of_qdrant_is_refused(tmp_path: Path) -> None:
    qdrant = pytest.importorskip("qdrant_client")
    client = qdrant.QdrantClient(path=str(tmp_path))
    client.create_collection("items", qdrant.models.VectorParams(size=4, distance=qdrant.models.Distance.COSINE))
    client.close()
    with (
        open_store(f"qdrant:{tmp_path}", "items") as store,
        pytest.raises(
            LikewiseError, match="'items' ranks by Cosine, which would change the length of vectors; expected Dot"
        ),
    ):
        store.create(LAYOUT)


def test_a_cosine_index_of_lancedb_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("lancedb")
    from lancedb.index import IvfFlat

    with open_store(f"lancedb:{tmp_path}", "items") as store:
        store.create(LAYOUT)
        store.upsert(range(300), V)
        store._table.create_index("vector", config=IvfFlat(distance_type="cosine", num_partitions=1))
        for call in (lambda: store.create(LAYOUT), lambda: store.search(np.ones((1, 4)))):
            with pytest.raises(LikewiseError, match=r"'items' has an index by cosine, .*; expected dot"):
                call()


def test_a_cosine_collection_of_milvus_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("milvus_lite")
    with open_store(f"milvus:{tmp_path / 'a.db'}", "items") as store:
        store.client.create_collection("items", dimension=4, metric_type="COSINE")
        with pytest.raises(LikewiseError, match="'items' ranks by COSINE, which would change the length of vectors"):
            store.create(LAYOUT)


def test_the_graph_of_qdrant_is_one_for_inner_products(tmp_path: Path) -> None:
    pytest.importorskip("qdrant_client")
    with open_store(f"qdrant:{tmp_path}", "items") as store:
        store.create(LAYOUT)
        built = store._client.get_collection("items").config.params.vectors
        assert built.distance.value == "Dot"
        requests: list[object] = []
        store._client.update_collection = lambda *_, hnsw_config: requests.append(
            hnsw_config.m
        )  # a folder has no graph
        store.build_index()
        assert requests == [16]


def test_the_graph_of_lancedb_is_one_for_inner_products(tmp_path: Path) -> None:
    pytest.importorskip("lancedb")
    with open_store(f"lancedb:{tmp_path}", "items") as store:
        store.create(LAYOUT)
        store.upsert(range(300), V)
        store.build_index()
        (graph,) = store._table.list_indices()
        result = store._table.index_stats(graph.name)
        assert "HNSW" in result.index_type
        assert (graph.columns, result.distance_type) == (["vector"], "dot")


def test_the_graph_of_milvus_is_one_for_inner_products(tmp_path: Path) -> None:
    pytest.importorskip("milvus_lite")
    with open_store(f"milvus:{tmp_path / 'a.db'}", "items") as store:
        store.create(LAYOUT)
        for kind in ("FLAT", "HNSW"):
            result = store.client.describe_index("items", "vector")
            assert (result["index_type"], result["metric_type"]) == (kind, "IP")
            store.build_index()


def test_a_cosine_index_of_postgresql_is_not_used(server: str) -> None:
    """pgvector keeps vectors as they are; only an index of the operator's own kind serves a search."""
    psycopg = pytest.importorskip("psycopg")
    with open_store(server, "by_cosine") as store, psycopg.connect(server, autocommit=True) as connection:
        store.create(LAYOUT)
        store.upsert(range(300), V)
        connection.execute("CREATE INDEX ON by_cosine USING hnsw (vector vector_cosine_ops)")
        q = np.ones((1, 4))
        assert store.search(q, 10)[0].tolist() == [np.argsort(-(V @ q[0]))[:10].tolist()]
