"""The map: every item has a place, neighbours are close."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from likewise.serve import map as web_map
from tests.serve.conftest import N, talking


@pytest.mark.parametrize("side", ["learned", "raw"])
def test_the_map_places_every_item(application: Callable[..., Any], side: str) -> None:
    app = application()
    with talking(app) as client:
        answer = client.get(f"/api/map?side={side}")
        assert (answer.headers["content-encoding"], answer.headers["vary"]) == ("gzip", "Accept-Encoding")
        first = answer.json()
        assert (first["method"], first["side"], len(first["x"]), len(first["codes"])) == ("quick", side, N, N)
        app.state.maps[side].job.wait(60)
        second = client.get(f"/api/map?side={side}").json()
        assert second["method"] == "neighbours"
        P, labels = np.array([second["x"], second["y"]]).T, np.array(second["codes"])
        apart = np.linalg.norm(P[:, None] - P[None], axis=2) + 1e9 * np.eye(N)
        assert np.mean(labels[apart.argmin(axis=1)] == labels) > 0.6  # neighbours on the map belong together


def test_tiles_count_every_item_once_at_every_level(application: Callable[..., Any], monkeypatch: Any) -> None:
    monkeypatch.setattr(web_map, "POINTS", 100)
    monkeypatch.setattr(web_map, "FEW", 20)
    with talking(application()) as client:
        whole = client.get("/api/map").json()
        assert (whole["total"], whole["x"]) == (N, [])
        assert sum(name["count"] for name in whole["names"]) == N
        for z in (0, 2):
            tiles = [client.get(f"/api/map/tile?z={z}&x={i % 2**z}&y={i // 2**z}").json() for i in range(4**z)]
            assert sum(sum(tile["counts"]) for tile in tiles) == N
            for tile in tiles:
                assert (tile["points"] is None) == (sum(tile["counts"]) > 20)
        line = [[0, 0], [65535, 0], [65535, 65535], [0, 65535]]
        assert client.post("/api/map/lasso", json={"line": line}).json()["total"] >= N - 8  # without the very edge
        half = client.post("/api/map/lasso", json={"line": [[0, 0], [32768, 0], [32768, 65535], [0, 65535]]}).json()
        assert 0 < len(half["rows"]) == half["total"] < N
        assert client.post("/api/map/lasso", json={"line": [[0, 0]]}).status_code == 422
        assert client.get("/api/map/tile?z=0&x=300&y=0").status_code == 422


def test_a_cell_has_its_most_frequent_label() -> None:
    cell, codes = np.array([5, 5, 5, 7, 9]), np.array([2, 1, 2, -1, 0])
    usual = web_map.usual_codes(cell, codes)
    assert (usual[5], usual[7], usual[9], usual[0]) == (2, -1, 0, -1)
