"""Collections that rank by another metric are refused: a cosine would change the length of vectors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from likewise.errors import LikewiseError
from likewise.retrieval.stores import Layout, open_store

LAYOUT = Layout(4, "int")


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
        store.upsert(range(300), np.random.default_rng(0).normal(size=(300, 4)))
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
