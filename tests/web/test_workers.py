"""Searches that arrive together."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from likewise.baselines import LDA
from likewise.retrieval import Index
from likewise.web import create_app
from tests.web.conftest import found, talking


def test_searches_that_meet_each_get_their_own_answer(client: Any) -> None:
    alone = {row: client.get(f"/api/search?row={row}&k=5").json()["hits"] for row in range(40)}
    with ThreadPoolExecutor(16) as pool:
        together = list(pool.map(lambda row: client.get(f"/api/search?row={row}&k=5").json()["hits"], range(40)))
    for hits, expected in zip(together, alone.values(), strict=True):
        assert [hit["row"] for hit in hits] == [hit["row"] for hit in expected]
        # One row times the gallery and many rows times it may round differently.
        np.testing.assert_allclose([hit["score"] for hit in hits], [hit["score"] for hit in expected], atol=1e-5)


def test_an_approximate_index_is_searched_by_its_own_engine(digits: Any) -> None:
    pytest.importorskip("faiss")
    X, y, G, labels = digits
    index = Index.build(LDA().fit(X, y), G, {"label": labels}, approximate="hnsw")
    with talking(create_app(index)) as client:
        for row in (0, 5):
            hits = client.get(f"/api/search?row={row}&k=10").json()["hits"]
            exact = found(client, like=[{"row": row}], k=10)["hits"]
            assert len(hits) == 10
            assert row not in [hit["row"] for hit in hits]
            assert len({hit["row"] for hit in hits} & {hit["row"] for hit in exact}) >= 9
