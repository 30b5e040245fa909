"""Milvus: the same search from a collection, here in a file of milvus-lite."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.search.conftest import MODELS, Digits

from likewise.errors import LikewiseError
from likewise.search import Index, MilvusIndex

pytest.importorskip("pymilvus")
pytest.importorskip("milvus_lite")


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("milvus") / "gallery.db")


@pytest.mark.parametrize("name", [name for name in MODELS if name != "posterior"])
def test_the_first_ten_are_those_of_the_exact_index(
    fitted: dict[str, Any], digits: Digits, uri: str, name: str
) -> None:
    X, _, G, y = digits
    Q, G = X[:40].astype(np.float32), G[:200].astype(np.float32)
    local = Index.build(fitted[name], G, {"label": y[:200]})
    served = MilvusIndex.build(fitted[name], local, uri=uri, collection=name)
    ids, scores = served.search(Q, 10)
    expected, exact = local.search(Q, 10)
    np.testing.assert_array_equal(ids, expected)
    np.testing.assert_allclose(scores, exact, rtol=1e-4, atol=1e-5)
    served.close()


def test_it_grows_shrinks_filters_and_is_found_again(fitted: dict[str, Any], digits: Digits, uri: str) -> None:
    _, _, G, y = digits
    G = G.astype(np.float32)
    model = fitted["lda"]
    items = {"id": [f"item {i}" for i in range(50)], "label": y[:50]}
    MilvusIndex.build(model, G[:50], items, uri=uri, collection="grows").close()
    again = MilvusIndex(model, uri, "grows")
    assert len(again) == 50
    again.add(G[50:52], {"id": ["new 0", "new 1"], "label": ["x", "x"]})
    again.remove(["item 3"])
    assert len(again) == 51
    assert again.search(G[50], 1)[0].tolist() == [["new 0"]]
    assert set(again.search(G[0], 2, filter='label == "x"')[0][0]) == {"new 0", "new 1"}
    assert "item 3" not in again.search(G[3], 51)[0][0]
    again.close()


def test_what_is_missing_or_does_not_fit_is_said(fitted: dict[str, Any], digits: Digits, uri: str) -> None:
    G = digits[2][:10].astype(np.float32)
    with pytest.raises(LikewiseError, match="has no collection 'nowhere': build it first"):
        MilvusIndex(fitted["lda"], uri, "nowhere")
    MilvusIndex.build(fitted["lda"], G, uri=uri, collection="fits").close()
    with pytest.raises(LikewiseError, match="already has a collection 'fits': set overwrite=True"):
        MilvusIndex.build(fitted["lda"], G, uri=uri, collection="fits")
    with pytest.raises(LikewiseError, match="holds vectors of width 9; the model makes 64"):
        MilvusIndex(fitted["cosine"], uri, "fits")
    with pytest.raises(LikewiseError, match="items is None: expected the ids"):
        MilvusIndex(fitted["lda"], uri, "fits").add(G, None)


def test_a_server_that_does_not_answer_is_named(fitted: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(LikewiseError, match="cannot reach Milvus at"):
        MilvusIndex(fitted["lda"], tmp_path / "no" / "such" / "folder" / "a.db")
