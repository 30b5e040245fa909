"""The server: its address, its token, slow and idle clients."""

from __future__ import annotations

import io
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from likewise.serve import Limits, ServerSettings
from likewise.serve.server import address, secured
from tests.serve.conftest import running

TOKEN = "a long secret"


def test_listening_to_others_brings_a_token() -> None:
    assert secured(ServerSettings()).token is None
    assert secured(ServerSettings(host="::1")).token is None
    made = secured(ServerSettings(host="0.0.0.0"))
    assert made.token is not None
    assert len(made.token) >= 20
    assert address(made, 80).endswith(f"/login?token={made.token}")
    assert secured(ServerSettings(host="0.0.0.0", token=TOKEN)).token == TOKEN


def test_a_name_or_a_proxy_for_others_brings_a_token_too() -> None:
    assert secured(ServerSettings(allowed_hosts=("localhost", "127.0.0.2"))).token is None
    assert secured(ServerSettings(allowed_hosts=("photos.example",))).token is not None
    assert secured(ServerSettings(proxies=("127.0.0.1",))).token is not None


def test_the_token_is_encoded_in_the_printed_address() -> None:
    assert address(ServerSettings(token="a&b c#d/é?"), 80).endswith("/login?token=a%26b%20c%23d%2F%C3%A9%3F")


def _connected(port: int) -> socket.socket:
    made = socket.create_connection(("127.0.0.1", port), timeout=10)
    made.settimeout(10)
    return made


def _ask(port: int) -> bytes:
    with _connected(port) as made:
        made.sendall(b"GET /api/search?row=1&k=3 HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        return _all(made)


def _all(made: socket.socket) -> bytes:
    data = io.BytesIO()
    with suppress(ConnectionResetError):
        while piece := made.recv(65536):
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
        for made in (silent, head, body):
            made.close()
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
    with running(application(limits=limits), limits) as port, _connected(port) as made:
        for _ in range(2):
            made.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert made.recv(65536).startswith(b"HTTP/1.1 200")
            time.sleep(0.1)
        assert made.recv(65536) == b""


def test_more_connections_at_once_than_allowed_are_refused(application: Callable[..., Any]) -> None:
    limits = Limits(connections=3)
    with running(application(limits=limits), limits) as port, _connected(port) as one, _connected(port) as two:
        for stream in (one, two):
            stream.sendall(b"GET /api/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert b" 200 OK" in stream.recv(65536)
        assert b" 503 " in _ask(port).splitlines()[0]


@pytest.mark.parametrize("field", [b"X: " + b"x" * 100_000, b"X: x\r\n" * 20_000])
def test_a_head_of_many_bytes_is_refused(application: Callable[..., Any], field: bytes) -> None:
    with running(application()) as port, _connected(port) as made:
        made.sendall(b"GET /healthz HTTP/1.1\r\n" + field)
        assert made.recv(65536).startswith(b"HTTP/1.1 400 ")
