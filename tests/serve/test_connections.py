"""Connections without a request: closed when they are late or too many, and never in anybody's way."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from likewise.serve import Limits
from tests.serve.conftest import running

HALF = b"GET /api/search?row=1 HTTP/1.1\r\nHost: 127"


def _connected(port: int, sent: bytes = b"") -> socket.socket:
    made = socket.create_connection(("127.0.0.1", port), timeout=20)
    made.sendall(sent)
    return made


def _is_closed(made: socket.socket) -> bool:
    """Whether the server ends the connection within the time-out."""
    try:
        while made.recv(65536):
            pass
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False
    return True


def _repeat(made: socket.socket, sent: bytes, times: int, pause: float) -> None:
    for _ in range(times):
        made.sendall(sent)
        time.sleep(pause)


@pytest.mark.parametrize("sent", [b"", HALF])
def test_a_head_that_does_not_arrive_in_time_ends_the_connection(application: Callable[..., Any], sent: bytes) -> None:
    limits = Limits(header_seconds=1)
    with running(application(limits=limits), limits) as port, _connected(port, sent) as late:
        assert _is_closed(late)


def test_the_second_head_of_a_connection_is_timed_too(application: Callable[..., Any]) -> None:
    limits = Limits(header_seconds=1)
    with running(application(limits=limits), limits) as port, _connected(port) as late:
        late.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert late.recv(65536).startswith(b"HTTP/1.1 200 ")
        late.sendall(HALF)
        assert _is_closed(late)


def test_a_head_that_drips_ends_the_connection_too(application: Callable[..., Any]) -> None:
    limits = Limits(header_seconds=1)
    with running(application(limits=limits), limits) as port, _connected(port) as slow, pytest.raises(OSError):
        _repeat(slow, b"G", 300, 0.1)


def test_a_client_that_does_not_read_is_not_waited_for(application: Callable[..., Any]) -> None:
    limits = Limits(write_seconds=1)
    with running(application(limits=limits), limits) as port, socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.connect(("127.0.0.1", port))
        deaf.settimeout(20)
        asked = b"GET /api/items?limit=200 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        with pytest.raises(OSError):
            _repeat(deaf, asked, 2000, 0.01)  # more answers than the buffers of the system hold


def test_an_open_page_is_not_disturbed(application: Callable[..., Any]) -> None:
    limits = Limits(header_seconds=0.5, write_seconds=0.5, connections=1)
    with running(application(limits=limits), limits) as port, _connected(port) as page:
        page.sendall(b"GET /api/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        until = time.monotonic() + 4
        while time.monotonic() < until:
            assert page.recv(65536)


def test_of_too_many_connections_those_without_a_request_go(application: Callable[..., Any]) -> None:
    limits = Limits(connections=10)
    with running(application(limits=limits), limits) as port, ExitStack() as stack:
        half = [stack.enter_context(_connected(port, HALF)) for _ in range(40)]
        assert httpx.get(f"http://127.0.0.1:{port}/healthz").status_code == 200
        until = time.monotonic() + 20
        for made in half:
            made.settimeout(0.05)
        while sum(map(_is_closed, half)) < 29 and time.monotonic() < until:
            pass
        assert 29 <= sum(map(_is_closed, half)) <= 31


@pytest.mark.parametrize("field", [b"X: " + b"x" * 100_000, b"X: x\r\n" * 20_000])
def test_a_head_of_many_bytes_is_refused(application: Callable[..., Any], field: bytes) -> None:
    with running(application()) as port, _connected(port, b"GET /healthz HTTP/1.1\r\n" + field) as made:
        assert made.recv(65536).startswith(b"HTTP/1.1 400 ")
