"""The routes: parameters, lists of items, status codes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.serve.conftest import N


def test_the_order_of_the_parameters_makes_no_difference(client: Any) -> None:
    for one, other in (("row=3&k=12", "k=12&row=3"), ("row=3", "side=learned&row=3"), ("row=9&k=200", "k=200&row=9")):
        answers = [client.get(f"/api/search?{query}") for query in (one, other)]
        bodies = [{**answer.json(), "milliseconds": 0} for answer in answers]
        assert bodies[0] == bodies[1]
        assert answers[0].headers.items() ^ answers[1].headers.items() <= _length(answers)
    for wrong, code in ((f"row={N}", 404), ("row=1&k=0", 422), ("row=1&k=201", 422), ("row=-1", 422), ("", 422)):
        assert client.get(f"/api/search?{wrong}").status_code == code


def _length(answers: list[Any]) -> set[tuple[str, str]]:
    """The only header that may differ, with the digits of the time."""
    return {("content-length", answer.headers["content-length"]) for answer in answers}


def test_items_are_listed_in_order_or_shuffled_by_a_seed(client: Any) -> None:
    assert [item["row"] for item in client.get("/api/items?limit=3&offset=5").json()["items"]] == [5, 6, 7]
    first, again, other = (client.get(f"/api/items?limit=9&shuffle={seed}").json() for seed in (1, 1, 2))
    assert first == again != other
    some = client.get("/api/items?label=digit 2&limit=200").json()
    assert some["total"] == len(some["items"]) > 0
    assert client.get("/api/items?label=none").json() == {"total": 0, "items": []}


@pytest.mark.parametrize(
    "path",
    [
        "/api/items/../../etc/passwd/picture", "/api/items/%2e%2e%2f%2e%2e%2fetc%2fpasswd/picture", "/static/../app.py",
        "/static/%2e%2e/app.py", "/static/..%2f..%2f..%2f..%2fetc/passwd", "/api/items/-1/picture",
        "/api/items/1e3/picture", "/api/items/99999999999999999999/picture", "/api/uploads/..%2fx",
        "/static//etc/passwd", f"/api/items/{N}/picture", "/api/items/0/picture?size=../../x", "/api/uploads/%00",
    ],
)  # fmt: skip
def test_no_path_leads_out_of_the_index(client: Any, path: str) -> None:
    answer = client.get(path)
    assert 400 <= answer.status_code < 500
    assert b"root:" not in answer.content
    assert b"create_app" not in answer.content


@pytest.mark.parametrize(
    "body",
    [
        b"{", b"[]", b"null", b'{"like": [{}]}', b'{"like": []}', b'{"like": [{"row": -1}]}', b'{"like":[{"row":"a"}]}',
        b'{"like": [{"row": 1, "upload": "x"}]}', b'{"like": [{"row": 1}], "k": 0}', b'{"like": [{"row": 1}], "x": 1}',
        b'{"like": [{"row": 400}]}', b'{"like": [{"row": 1}], "labels": ["none such"]}', b"\xff\xfe",
        b'{"like": [{"row": 1e400}]}', b'{"like": ' + b"[" * 5000, b'{"like": [{"row": 1}], "side": "other"}',
    ],
)  # fmt: skip
def test_a_malformed_search_is_a_4xx_with_a_reason(client: Any, body: bytes) -> None:
    answer = client.post("/api/search", content=body, headers={"content-type": "application/json"})
    assert 400 <= answer.status_code < 500
    assert answer.json()["detail"]
