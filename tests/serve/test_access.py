"""Sessions and the wait after wrong tokens."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.responses import Response

from likewise.serve.access import IDLE_SECONDS, SESSION_SECONDS, AccessToken, LoginSession, LoginThrottle


class Clock:
    now = 1e9

    def __call__(self) -> float:
        return self.now


def _sent(token: AccessToken, session: LoginSession, secure: bool = False) -> Headers:
    response = Response()
    token.set_cookie(response, session, secure)
    return Headers({"cookie": response.headers["set-cookie"].partition(";")[0]})


def test_a_session_ends_when_it_is_not_used() -> None:
    clock = Clock()
    token = AccessToken("a long secret", clock)
    sent = _sent(token, token.begin())
    assert token.session(sent, False) is not None
    clock.now += IDLE_SECONDS - 1
    assert token.session(sent, False) is not None
    clock.now += 1
    assert token.session(sent, False) is None


def test_a_session_in_use_goes_on_for_a_week_and_no_longer() -> None:
    clock = Clock()
    token = AccessToken("a long secret", clock)
    session = token.begin()
    assert token.renewed(session) is None
    while (found := token.session(_sent(token, session), False)) is not None:
        session = token.renewed(found) or session
        clock.now += 2000
    assert SESSION_SECONDS - 2000 <= clock.now - 1e9 <= SESSION_SECONDS + 2000


def test_a_session_is_of_one_server_and_one_scheme() -> None:
    one, other = AccessToken("a long secret"), AccessToken("a long secret")
    assert other.session(_sent(one, one.begin()), False) is None
    assert one.session(_sent(one, one.begin()), True) is None
    assert one.session(_sent(one, one.begin(), secure=True), True) is not None


def test_a_changed_session_is_none() -> None:
    token = AccessToken("a long secret")
    value = _sent(token, token.begin())["cookie"]
    for place in range(len("likewise="), len(value)):
        changed = value[:place] + ("0" if value[place] != "0" else "1") + value[place + 1 :]
        assert token.session(Headers({"cookie": changed}), False) is None


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
