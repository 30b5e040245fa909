"""The server: its address, its token, slow and idle clients."""

from __future__ import annotations

import io
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Any

import pytest

from likewise.serve import Limits, ServerSettings
from likewise.serve.server import address
from tests.serve.conftest import running

TOKEN = "a long secret"


def test_the_token_is_encoded_in_the_printed_address() -> None:
    assert address(ServerSettings(token="a&b c#d/é?"), 80).endswith("/login?token=a%26b%20c%23d%2F%C3%A9%3F")


def _connected(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=10)
    connection.settimeout(10)
    return connection


def _ask(port: int, path: bytes = b"/api/search?row=1&k=3") -> bytes:
    with _connected(port) as connection:
        connection.sendall(b"GET " + path + b" HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        return _all(connection)


def _all(connection: socket.socket) -> bytes:
    data = io.BytesIO()
    with suppress(ConnectionResetError):
        while piece := connection.recv(65536):
            data.write(piece)
    return data.getvalue()


def test_a_slow_body_is_timed_out_and_unfinished_requests_keep_nobody_waiting(application: Callable[..., Any]) -> None:
    limits = Limits(body_seconds=0.3)
    with running(application(limits=limits), limits) as port:
        silent, head, body = (_connected(port) for _ in range(3))
        head.sendall(b"GET /api/search?row=1 HTTP/1.1\r\nHost: 127")
        fields = b"Host: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 50"
        body.sendall(b"POST /api/search HTTP/1.1\r\n" + fields + b"\r\n\r\n{")
        for _ in range(5):
            assert b" 200 OK" in _ask(port)
        assert b" 408 " in _all(body).splitlines()[0]
        for connection in (silent, head, body):
            connection.close()
        assert b" 200 OK" in _ask(port)


def test_a_body_that_drips_is_timed_out_too(application: Callable[..., Any]) -> None:
    limits = Limits(body_seconds=0.3)
    with running(application(limits=limits), limits) as port, _connected(port) as slow:
        fields = b"Host: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 500"
        slow.sendall(b"POST /api/search HTTP/1.1\r\n" + fields + b"\r\n\r\n")
        slow.settimeout(0.02)
        answers = (_dripped(slow, byte) for byte in b"x" * 400)
        assert b" 408 " in next(answer for answer in answers if answer)


def _dripped(slow: socket.socket, byte: int) -> bytes:
    """Send one byte and wait a little; the answer, if there is one."""
    try:
        slow.sendall(bytes([byte]))
        return slow.recv(65536)
    except TimeoutError:
        return b""


def test_a_connection_may_pause_between_requests_and_is_closed_when_idle(application: Callable[..., Any]) -> None:
    limits = Limits(idle_seconds=1)
    with running(application(limits=limits), limits) as port, _connected(port) as connection:
        for _ in range(2):
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert connection.recv(65536).startswith(b"HTTP/1.1 200")
            time.sleep(0.1)
        assert connection.recv(65536) == b""


@pytest.mark.parametrize("limits", [Limits(connections=2), Limits(client_connections=2)])
def test_beyond_the_places_of_all_or_of_a_client_only_health_is_answered(
    application: Callable[..., Any], limits: Limits
) -> None:
    with running(application(limits=limits), limits) as port, _connected(port) as one, _connected(port) as two:
        for stream in (one, two):
            stream.sendall(b"GET /api/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert b" 200 OK" in stream.recv(65536)
        assert b" 503 " in _ask(port).splitlines()[0]
        assert b" 200 OK" in _ask(port, b"/healthz").splitlines()[0]
        with socket.create_connection(("127.0.0.1", port), source_address=("127.0.0.2", 0)) as other:
            other.sendall(b"GET /api/status HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
            assert (b" 200 OK" in _all(other)) is (limits.connections > 2)


def test_connections_of_a_named_proxy_are_of_many_clients(application: Callable[..., Any]) -> None:
    settings = ServerSettings(limits=Limits(client_connections=1), proxies=("127.0.0.0/8",))
    with running(application(), settings=settings) as port, _connected(port), _connected(port):
        assert b" 200 OK" in _ask(port)


def test_logins_whose_bodies_do_not_come_end_after_two_seconds_and_others_are_served(
    application: Callable[..., Any],
) -> None:
    head = b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 500\r\n\r\ntoken="
    with running(application(token=TOKEN)) as port, ExitStack() as stack:
        logins = [stack.enter_context(_connected(port)) for _ in range(200)]
        for login in logins:
            login.sendall(head)
        assert b" 401 " in _ask(port).splitlines()[0]
        answers = [_all(login) for login in logins]
    assert all(answer.startswith(b"HTTP/1.1 408 ") and b"did not arrive within 2 s" in answer for answer in answers)


def test_a_login_of_more_than_a_kilobyte_is_refused(application: Callable[..., Any]) -> None:
    with running(application(token=TOKEN)) as port, _connected(port) as login:
        login.sendall(b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1100\r\n\r\n" + b"x" * 1100)
        assert b" 413 " in login.recv(65536).splitlines()[0]


def test_who_hangs_up_during_a_login_leaves_no_traceback(
    application: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    with running(application(token=TOKEN)) as port:
        with _connected(port) as login:
            login.sendall(b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 500\r\n\r\ntoken=")
            time.sleep(0.2)
        assert b" 401 " in _ask(port).splitlines()[0]
    assert [record.message for record in caplog.records if record.levelname in ("ERROR", "WARNING")] == []


def test_streams_of_events_leave_places_for_requests(application: Callable[..., Any]) -> None:
    limits = Limits(streams=2)
    with running(application(limits=limits), limits) as port, ExitStack() as stack:
        answers = []
        for _ in range(3):
            stream = stack.enter_context(_connected(port))
            stream.sendall(b"GET /api/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            answers.append(stream.recv(65536).split()[1])
        assert answers == [b"200", b"200", b"503"]
        assert b" 200 OK" in _ask(port)


def test_half_a_head_is_waited_for_and_no_longer(application: Callable[..., Any]) -> None:
    limits = Limits(header_seconds=0.5)
    with running(application(limits=limits), limits) as port, _connected(port) as silent, _connected(port) as half:
        for piece in (b"GET /healthz HTTP/1.1\r\n", b"Host: 127.0.0.1\r\n", b"X: x\r\n"):
            half.sendall(piece)
            time.sleep(0.1)
        assert (silent.recv(9), half.recv(9)) == (b"", b"")


@pytest.mark.parametrize(
    ("field", "code"),
    [
        (b"X: " + b"x" * 100_000, b"400"),
        (b"X: x\r\n" * 20_000, b"400"),
        (b"Host: 127.0.0.1\r\nX: " + b"x" * 20_000 + b"\r\n\r\n", b"431"),  # in one piece
        (b"Host: 127.0.0.1\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"400"),
    ],
)
def test_a_head_of_many_bytes_or_of_two_lengths_is_refused(
    application: Callable[..., Any], field: bytes, code: bytes
) -> None:
    with running(application()) as port, _connected(port) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\n" + field)
        assert connection.recv(65536).split()[1] == code
