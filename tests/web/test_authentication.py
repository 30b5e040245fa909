"""The access token: without it, only health is answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.web.conftest import SEARCH, talking

TOKEN = "a long secret"


def test_without_the_token_nothing_but_health_is_told(application: Callable[..., Any]) -> None:
    with talking(application(token=TOKEN)) as client:
        assert client.get("/healthz").status_code == 200
        for path in ("/api/status", "/metrics", "/api/items/1/picture", "/api/openapi.json", "/static/app.js", "/docs"):
            assert client.get(path).status_code == 401
        assert client.post("/api/search", json=SEARCH).status_code == 401
        assert client.get("/", follow_redirects=False).headers["location"] == "/login"
        for wrong in ("Bearer wrong", "Bearer", TOKEN, "Basic " + TOKEN, "Bearer \xff"):
            answer = client.get("/api/status", headers={"authorization": wrong.encode("latin-1")})
            assert answer.status_code == 401
        assert client.get("/api/status", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200


def test_the_token_is_exchanged_for_a_cookie_that_scripts_cannot_read(application: Callable[..., Any]) -> None:
    with talking(application(token=TOKEN)) as client:
        assert client.get("/login?token=wrong", follow_redirects=False).status_code == 401
        assert client.post("/login", data={"token": "wrong"}, follow_redirects=False).status_code == 401
        answer = client.post("/login", data={"token": TOKEN}, follow_redirects=False)
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        cookie = answer.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert TOKEN not in cookie
        assert client.get("/api/status").status_code == 200
        client.cookies.clear()
        assert client.get("/api/status", headers={"cookie": "likewise=forged"}).status_code == 401


def test_the_address_with_the_token_opens_the_page(application: Callable[..., Any]) -> None:
    with talking(application(token=TOKEN)) as client:
        answer = client.get(f"/login?token={TOKEN}")
        assert answer.status_code == 200
        assert "<title>likewise</title>" in answer.text
