"""The map: every item has a place, neighbours are close."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.web.conftest import N, talking


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
