"""Who gets in: hosts, origins, tokens, rates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from likewise.web import Limits, Settings
from likewise.web.limits import Buckets
from likewise.web.security import Guard, bare_host
from likewise.web.server import address, secured
from tests.web.conftest import talking

SEARCH = {"like": [{"row": 1}], "k": 3}
TOKEN = "a long secret"


@pytest.mark.parametrize(
    ("host", "code"),
    [
        ("127.0.0.1:8000", 200), ("localhost:9", 200), ("[::1]:8000", 200), ("LOCALHOST", 200), ("evil.example", 421),
        ("evil.example:8000", 421), ("127.0.0.1.evil.example", 421), ("192.168.1.4:8000", 421), ("", 421),
    ],
)  # fmt: skip
def test_only_our_own_names_are_answered(client: Any, host: str, code: int) -> None:
    assert client.get("/api/status", headers={"host": host}).status_code == code


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({}, 200),
        ({"origin": "http://127.0.0.1:8000"}, 200),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://127.0.0.1:8001"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"sec-fetch-site": "same-origin"}, 200),
        ({"content-type": "text/plain"}, 403),
        ({"content-type": "application/x-www-form-urlencoded"}, 403),
    ],
)
def test_a_post_must_come_from_our_own_page(client: Any, headers: dict[str, str], code: int) -> None:
    assert client.post("/api/search", json=SEARCH, headers=headers).status_code == code


def test_every_answer_carries_the_policy(client: Any) -> None:
    for path in ("/", "/api/status", "/nothing", "/static/app.js"):
        policy = client.get(path).headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert client.get(path).headers["x-frame-options"] == "DENY"
    assert client.get("/", headers={"host": "evil"}).headers["content-security-policy"]


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


def test_listening_to_others_brings_a_token() -> None:
    assert secured(Settings()).token is None
    assert secured(Settings(host="::1")).token is None
    made = secured(Settings(host="0.0.0.0"))
    assert made.token is not None
    assert len(made.token) >= 20
    assert address(made, 80).endswith(f"/login?token={made.token}")
    assert secured(Settings(host="0.0.0.0", token=TOKEN)).token == TOKEN


def test_a_server_for_others_answers_to_addresses_and_to_names_it_was_given() -> None:
    guard = Guard(Settings(host="0.0.0.0", allowed_hosts=("photos.example",)))
    known = [
        name
        for name in ("10.0.0.4:80", "photos.example", "other.example")
        if guard.host_known({b"host": name.encode()})
    ]
    assert known == ["10.0.0.4:80", "photos.example"]


def test_a_rate_above_the_limit_is_refused_with_the_time_to_wait(application: Callable[..., Any]) -> None:
    limits = Limits(rate=0.001, burst=5, upload_rate=0.001, upload_burst=1)
    with talking(application(rate_limited=True, limits=limits)) as client:
        codes = [
            client.post("/api/uploads", content=b"x", headers={"content-type": "image/png"}).status_code
            for _ in range(2)
        ]
        assert codes == [422, 429]
        codes = [client.get("/healthz").status_code for _ in range(5)]
        assert codes == [200, 200, 200, 429, 429]
        assert int(client.get("/healthz").headers["retry-after"]) >= 1


@given(st.floats(0.1, 100), st.integers(1, 50), st.lists(st.floats(0, 3), max_size=60))
def test_a_bucket_admits_no_more_than_burst_and_rate(rate: float, burst: int, pauses: list[float]) -> None:
    now = 0.0
    bucket = Buckets(rate, burst, lambda: now)
    admitted = 0
    for pause in pauses:
        now += pause
        admitted += bucket.wait("somebody") == 0
    assert admitted <= burst + rate * now + 1e-6
    assert bucket.wait("somebody else") == 0


def test_buckets_forget_those_who_have_been_quiet_longest() -> None:
    buckets = Buckets(1, 1, lambda: 0.0, most=10)
    for number in range(100):
        buckets.wait(str(number))
    assert len(buckets._levels) == 10


@pytest.mark.parametrize(
    ("host", "bare"), [("a:80", "a"), ("A", "a"), ("[::1]:80", "::1"), ("[::1]", "::1"), ("::1", "::1"), ("", "")]
)
def test_a_host_is_stripped_of_its_port(host: str, bare: str) -> None:
    assert bare_host(host) == bare
