"""Uploaded pictures: large, damaged and hostile ones."""

from __future__ import annotations

from typing import Any

import pytest

from tests.serve.conftest import PNG, picture, png


def test_a_bomb_is_refused_by_its_head(client: Any) -> None:
    bomb = png(60_000, 60_000, b"\0" * 10_000_000)
    assert len(bomb) < 20_000
    answer = client.post("/api/uploads", content=bomb, headers=PNG)
    assert answer.status_code == 413
    assert "above the limit of 50,000,000 pixels" in answer.json()["detail"]


@pytest.mark.parametrize("body", [b"", b"no picture", b"\x89PNG\r\n\x1a\n", b"<svg xmlns='x'/>", picture()[:-30]])
def test_what_is_no_picture_is_refused(client: Any, body: bytes) -> None:
    assert client.post("/api/uploads", content=body, headers=PNG).status_code == 422
