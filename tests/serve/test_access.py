"""Sessions and the wait after wrong tokens."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest

from likewise.serve.access import IDLE_SECONDS, SESSION_SECONDS, AccessToken, LoginThrottle
from tests.serve.conftest import SEARCH, running, talking

TOKEN = "a long secret"


class Clock:
    now = 1e9

    def __call__(self) -> float:
        return self.now


def _log_in(client: Any) -> str:
    answer = client.post("/login", data={"token": TOKEN}, follow_redirects=False)
    return str(answer.headers["set-cookie"]).partition(";")[0]


def _status(client: Any, cookie: str) -> Any:
    client.cookies.clear()
    return client.get("/api/status", headers={"cookie": cookie})


def test_a_session_ends_when_it_is_not_used(application: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr("itsdangerous.timed.time.time", clock)
    with talking(application(token=TOKEN)) as client:
        cookie = _log_in(client)
        clock.now += IDLE_SECONDS
        assert _status(client, cookie).status_code == 200
        clock.now += 1
        assert _status(client, cookie).status_code == 401


def test_a_session_in_use_goes_on_for_a_week_and_no_longer() -> None:
    clock = Clock()
    token, session = AccessToken(TOKEN, clock), {}
    token.begin(session)
    renewed = []
    while token.admits(session):
        renewed.append(session["renewed"])
        clock.now += 2000
    assert SESSION_SECONDS - 2000 <= clock.now - 1e9 <= SESSION_SECONDS + 2000
    assert all(later - earlier in (0, 4000) for earlier, later in pairwise(renewed))


def test_a_session_in_use_gets_a_new_cookie_once_an_hour(application: Callable[..., Any]) -> None:
    clock = Clock()
    app = application(token=TOKEN)
    app.state.token._clock = clock
    with talking(app) as client:
        cookie = _log_in(client)
        assert "set-cookie" not in _status(client, cookie).headers
        clock.now += 3600
        answer = _status(client, cookie)
        assert f"max-age={IDLE_SECONDS}" in answer.headers["set-cookie"].lower()


def test_a_session_is_of_one_server(application: Callable[..., Any]) -> None:
    with talking(application(token=TOKEN)) as one, talking(application(token=TOKEN)) as other:
        cookie = _log_in(one)
        assert _status(one, cookie).status_code == 200
        assert _status(other, cookie).status_code == 401


def test_a_changed_session_is_refused(application: Callable[..., Any]) -> None:
    with talking(application(token=TOKEN)) as client:
        cookie = _log_in(client)
        for place in range(len("likewise="), len(cookie) - 1, 7):  # the last character has bits that mean nothing
            changed = cookie[:place] + ("0" if cookie[place] != "0" else "1") + cookie[place + 1 :]
            assert _status(client, changed).status_code == 401


def test_the_wait_doubles_up_to_a_quarter_of_an_hour_and_an_hour_forgives() -> None:
    clock = Clock()
    throttle = LoginThrottle(clock)
    waits = []
    for _ in range(20):
        throttle.failed("somebody")
        waits.append(throttle.wait("somebody"))
        clock.now += waits[-1]
    assert waits[:8] == [0, 0, 0, 0, 1, 2, 4, 8]
    assert waits[-1] == 900
    assert throttle.wait("somebody else") == 0
    clock.now += 3601
    throttle.failed("somebody")
    assert throttle.wait("somebody") == 0


def test_fewer_than_a_hundred_guesses_fit_into_an_hour() -> None:
    clock = Clock()
    throttle, guesses = LoginThrottle(clock), 0
    while clock.now < 1e9 + 3600:
        throttle.failed("somebody")
        guesses += 1
        clock.now += throttle.wait("somebody")
    assert guesses < 100


def test_the_right_token_clears_the_count() -> None:
    throttle = LoginThrottle()
    for _ in range(6):
        throttle.failed("somebody")
    throttle.succeeded("somebody")
    assert throttle.wait("somebody") == 0


# -- The access token: without it, only health is answered --------------------------------------------------------


def test_without_the_token_only_health_is_answered(application: Callable[..., Any]) -> None:
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


def _cookie(answer: Any) -> str:
    return str(answer.headers["set-cookie"]).partition(";")[0]


def test_cookies_of_others_are_ignored(application: Callable[..., Any]) -> None:
    with talking(application(token=TOKEN)) as client:
        cookie = _cookie(client.post("/login", data={"token": TOKEN}, follow_redirects=False))
        client.cookies.clear()
        malformed = ('a="\\777', "\xff=\xfe; =;;", 'likewise="', "likewise=1.2.x.\xe9")
        for foreign in ("likewise=of.another.server", *malformed):
            both = f"{foreign}; {cookie}".encode("latin-1")
            assert client.get("/api/status", headers={"cookie": foreign.encode("latin-1")}).status_code == 401
            assert client.get("/api/status", headers={"cookie": both}).status_code == 200


def test_logout_ends_the_session_also_for_a_copy_of_the_cookie(application: Callable[..., Any]) -> None:
    with talking(application(token=TOKEN)) as client:
        copied = _cookie(client.post("/login", data={"token": TOKEN}, follow_redirects=False))
        answer = client.post("/logout", follow_redirects=False)
        assert (answer.status_code, answer.headers["location"]) == (303, "/login")
        assert "expires=thu, 01 jan 1970" in answer.headers["set-cookie"].lower()
        assert client.get("/api/status").status_code == 401
        assert client.get("/api/status", headers={"cookie": copied}).status_code == 401


def test_wrong_tokens_make_a_client_wait_but_not_who_is_in(application: Callable[..., Any]) -> None:
    with talking(application(token=TOKEN)) as client:
        cookie = _cookie(client.post("/login", data={"token": TOKEN}, follow_redirects=False))
        client.cookies.clear()
        codes = [client.post("/login", data={"token": "wrong"}).status_code for _ in range(6)]
        assert codes == [401] * 5 + [429]
        refused = client.post("/login", data={"token": TOKEN}, follow_redirects=False)
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) >= 1
        assert client.get("/api/status", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 429
        assert client.get("/api/status", headers={"cookie": cookie}).status_code == 200


def test_wrong_tokens_of_programs_count_too(application: Callable[..., Any]) -> None:
    with talking(application(token=TOKEN)) as client:
        codes = [client.get("/api/status", headers={"authorization": "Bearer no"}).status_code for _ in range(6)]
        assert codes == [401] * 5 + [429]


@pytest.mark.parametrize("proxies", [(), ("10.0.0.1",)])
def test_a_client_that_is_no_named_proxy_cannot_change_its_address(
    application: Callable[..., Any], proxies: tuple[str, ...]
) -> None:
    with talking(application(token=TOKEN, proxies=proxies)) as client:
        for number in range(6):
            headers = {"x-forwarded-for": f"192.0.2.{number}", "x-forwarded-proto": "https"}
            answer = client.post("/login", data={"token": "wrong"}, headers=headers)
        assert answer.status_code == 429
        assert "strict-transport-security" not in answer.headers


def test_a_named_proxy_says_who_the_client_is_and_that_it_speaks_tls(application: Callable[..., Any]) -> None:
    app = application(token=TOKEN, proxies=("127.0.0.0/8",), allowed_hosts=("photos.example",))
    with running(app) as port, httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
        via = {"host": "photos.example", "x-forwarded-proto": "https"}
        for number in range(8):
            from_one = {**via, "x-forwarded-for": f"192.0.2.{number}"}
            assert client.post("/login", data={"token": "wrong"}, headers=from_one).status_code == 401
        answer = client.post("/login", data={"token": TOKEN}, headers={**via, "x-forwarded-for": "192.0.2.9"})
        assert answer.headers["set-cookie"].startswith("__Host-likewise=")
        assert "; secure" in answer.headers["set-cookie"].lower()
        assert answer.headers["strict-transport-security"]


def test_an_error_does_not_say_where_the_index_is(application: Callable[..., Any], index_folder: Path) -> None:
    with talking(application(token=TOKEN), "127.0.0.1:8000") as client:
        headers = {"authorization": f"Bearer {TOKEN}"}
        shutil.rmtree(index_folder)
        answer = client.post("/api/labels", json={"items": [1], "label": "x"}, headers=headers)
        assert answer.status_code == 422
        assert "digits.index is gone; nothing was saved" in answer.json()["detail"]
        assert str(index_folder.parent) not in answer.text
