"""Sessions and the wait after wrong tokens."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from likewise.serve.access import IDLE_SECONDS, SESSION_SECONDS, AccessToken, LoginThrottle
from tests.serve.conftest import talking

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
