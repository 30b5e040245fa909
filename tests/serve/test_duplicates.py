"""Near-duplicates: all pairs, groups, best first, and what was said not to be the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from likewise.rivals import Cosine
from likewise.search import Index
from likewise.serve import ServerSettings, create_app
from likewise.serve import duplicates as module
from likewise.serve.duplicates import Duplicates
from likewise.serve.session import Session
from likewise.serve.settings import Limits
from tests.serve.conftest import talking


def _found(X: np.ndarray, distinct: Any = tuple) -> Duplicates:
    X = np.asarray(X, dtype=np.float32)
    duplicates = Duplicates(Session(Index.build(Cosine().fit(X), X), Limits()), distinct)
    assert duplicates.state() in ("running", "ready")
    duplicates.job.wait()
    assert duplicates.state() == "ready"
    return duplicates


def _clusters(n: int = 300, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.repeat(rng.normal(size=(n // 3, 20)), 3, axis=0) + 0.02 * rng.normal(size=(n, 20))


@pytest.mark.parametrize("block", [7, 1024])
def test_pairs_equal_brute_force(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(module, "_BLOCK", block)
    X = _clusters()
    duplicates = _found(X)
    U = X / np.linalg.norm(X, axis=1, keepdims=True)
    expected = {(i, j) for i, j in zip(*np.nonzero(np.triu(U @ U.T >= 0.95, 1)), strict=True)}
    assert set(zip(*(part.tolist() for part in duplicates.pairs.above(0.95)[:2]), strict=True)) == expected
    assert duplicates.progress == 1


def test_groups_are_connected_components_largest_first() -> None:
    groups = _found(_clusters()).groups(0.99)
    assert len(groups) == 100
    assert sorted(groups[0].tolist()) == [0, 1, 2]
    chain = np.array([[1, 0], [1, 0.2], [1, 0.4], [-1, 0], [-1, 0.1]])
    assert [group.tolist() for group in _found(chain).groups(0.95)] == [[0, 1, 2], [3, 4]]


def test_too_many_pairs_raise_the_lowest_threshold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST", 1000)
    X = 1 + 0.05 * np.random.default_rng(0).normal(size=(200, 20))
    duplicates = _found(X)
    assert duplicates.pairs.lowest > 0.9
    U = X / np.linalg.norm(X, axis=1, keepdims=True)
    threshold = duplicates.pairs.lowest + 1e-4
    assert len(duplicates.pairs.above(threshold)[0]) == pytest.approx(np.triu(threshold <= U @ U.T, 1).sum(), abs=2)


def test_what_was_said_to_be_distinct_is_never_in_one_group() -> None:
    statements: list[tuple[int, ...]] = []
    duplicates = _found(_clusters(6), lambda: tuple(statements))
    statements.append((0, 1))
    parts = [set(group.tolist()) for group in duplicates.groups(0.99)]
    assert parts[0] == {3, 4, 5}
    assert len(parts) == 2
    assert parts[1] in ({0, 2}, {1, 2})  # the third stays with the one it is more similar to
    statements.append((3, 4, 5))
    assert len(duplicates.groups(0.99)) == 1


def test_a_chain_does_not_bring_distinct_items_together() -> None:
    chain = np.array([[1, 0], [1, 0.2], [1, 0.45], [1, 0.65]])
    assert [group.tolist() for group in _found(chain).groups(0.95)] == [[0, 1, 2, 3]]
    parted = _found(chain, lambda: ((0, 3),)).groups(0.95)
    assert sorted(group.tolist() for group in parted) == [[0, 1], [2, 3]]


def test_the_largest_picture_is_the_best(tmp_path: Path) -> None:
    from PIL import Image

    for name, side in (("a.png", 8), ("b.png", 32), ("c.png", 16)):
        Image.new("RGB", (side, side), "red").save(tmp_path / name)
    X = np.ones((3, 4), dtype=np.float32)
    index = Index.build(Cosine().fit(X), X, {"path": ["a.png", "b.png", "c.png"]})
    index.root = tmp_path
    with talking(create_app(index, ServerSettings())) as client:
        answer = _ready(client)
        assert (answer["total"], answer["n_extra"]) == (1, 2)
        assert [item["name"] for item in answer["groups"][0]] == ["b.png", "c.png", "a.png"]
        rest = client.get("/api/duplicates.csv?threshold=0.99").text
        assert rest.splitlines() == ["path,kept", "c.png,b.png", "a.png,b.png"]
        assert client.post("/api/distinct", json={"items": [0, 1, 2]}).status_code == 201
        assert _ready(client)["total"] == 0
        assert client.post("/api/distinct", json={"items": [0, 99]}).status_code == 404
        assert client.get("/api/duplicates?threshold=0.5").status_code == 422


def _ready(client: Any) -> dict[str, Any]:
    while (answer := client.get("/api/duplicates?threshold=0.99").json())["state"] == "running":
        pass
    return answer
