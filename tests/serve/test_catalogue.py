"""What is said of an item, and the facets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from likewise.rivals import Cosine
from likewise.search import Index
from likewise.search.rank import NotFoundError
from likewise.serve.catalogue import Catalogue, Facet
from likewise.teach import load_index
from tests.serve.conftest import PNG, N, ask, picture, png


def test_an_item_has_its_file_name_folder_and_label(client: Any, index_folder: Path) -> None:
    path = Path(load_index(index_folder).paths[7])
    item = client.get("/api/items/7").json()
    assert (item["name"], item["folder"], item["label"]) == (path.name, str(path.parent), str(path.parent))
    assert client.get(f"/api/items?keys={item['key']},unknown").json() == {"total": 1, "items": [item]}


def test_an_item_without_a_file_is_named_by_its_id() -> None:
    X = np.eye(3, dtype=np.float32)
    catalogue = Catalogue(Index.build(Cosine().fit(X), X, ["a", "b", "c"]))
    assert [(catalogue.name(row), catalogue.folder(row)) for row in range(3)] == [("a", None), ("b", None), ("c", None)]
    assert catalogue.missing() is None


def test_a_facet_counts_and_masks() -> None:
    facet = Facet("month", ["2023-05", None, "2022-01", "2023-05"])
    assert facet.counts(np.ones(4, dtype=bool)) == {"2022-01": 1, "2023-05": 2}
    assert facet.counts(np.array([True, True, False, True])) == {"2023-05": 2}
    assert facet.mask(["2023-05"]).tolist() == [True, False, False, True]
    with pytest.raises(NotFoundError, match="no item has the month '2020-01'"):
        facet.mask(["2020-01"])


def test_facets_are_counted_under_the_filters_of_the_others(client: Any) -> None:
    everything = client.get("/api/facets").json()
    assert sum(everything["folders"].values()) == sum(everything["labels"].values()) == N
    assert everything["months"].keys() <= {month for month in everything["months"] if len(month) == 7}
    some = client.get("/api/facets?folder=digit 3").json()
    assert some["folders"] == everything["folders"]  # another one can be chosen
    assert some["labels"] == {"digit 3": everything["labels"]["digit 3"]}


def test_filters_combine_and_unknown_ones_are_named(client: Any) -> None:
    both = ask(client, like=[{"row": 0}], labels=["digit 4", "digit 7"], folders=["digit 4"], k=200)
    assert {hit["folder"] for hit in both["hits"]} == {"digit 4"}
    assert both["total"] == len(both["hits"])
    assert client.get("/api/items?label=digit 4&folder=digit 5").json()["total"] == 0
    answer = client.post("/api/search", json={"like": [{"row": 0}], "folders": ["nowhere"]})
    assert (answer.status_code, answer.json()["detail"]) == (404, "no item has the folder 'nowhere'")


def test_pages_of_results_are_one_ranking(client: Any) -> None:
    whole = ask(client, like=[{"row": 3}], k=200)
    parts = [ask(client, like=[{"row": 3}], k=50, offset=offset)["hits"] for offset in range(0, N, 50)]
    together = [hit["row"] for part in parts for hit in part]
    assert whole["total"] == len(together) == N - 1
    assert together[:200] == [hit["row"] for hit in whole["hits"]]
    assert sorted([*together, 3]) == list(range(N))
    assert ask(client, like=[{"row": 3}], offset=N)["hits"] == []


def test_most_files_missing_is_said_with_what_to_do(index_folder: Path) -> None:
    index = load_index(index_folder)
    assert Catalogue(index).missing() is None
    index.root = index_folder / "gone"
    assert Catalogue(index).missing() == {"root": str(index_folder / "gone"), "hint": "likewise serve INDEX --root NEW"}


def test_a_bomb_is_refused_by_its_head(client: Any) -> None:
    bomb = png(60_000, 60_000, b"\0" * 10_000_000)
    assert len(bomb) < 20_000
    answer = client.post("/api/uploads", content=bomb, headers=PNG)
    assert answer.status_code == 413
    assert "above the limit of 50,000,000 pixels" in answer.json()["detail"]


@pytest.mark.parametrize("body", [b"", b"no picture", b"\x89PNG\r\n\x1a\n", b"<svg xmlns='x'/>", picture()[:-30]])
def test_what_is_no_picture_is_refused(client: Any, body: bytes) -> None:
    assert client.post("/api/uploads", content=body, headers=PNG).status_code == 422
