"""Whatever comes in, the answer is a clean one: never a 5xx, and nobody waits for somebody slow."""

from __future__ import annotations

import io
import socket
import struct
import time
import unittest
import zlib
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from likewise.web import Limits
from tests.web.conftest import N, running, talking

PNG = {"content-type": "image/png"}


def _png(width: int, height: int, rows: bytes) -> bytes:
    """A PNG file of grey pixels from its uncompressed rows."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b"")


def _picture(side: int = 16) -> bytes:
    return _png(side, side, (b"\0" + bytes(range(side))) * side)


# ---------------------------------------------------------------------------------------------------------------------
# Paths, sizes, malformed requests


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


def test_a_picture_is_made_from_pixels_and_never_sent_as_it_is(client: Any) -> None:
    answer = client.get("/api/items/3/picture")
    assert answer.headers["content-type"] == "image/jpeg"
    assert answer.content[:2] == b"\xff\xd8"
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_an_upload_of_50_megabytes_is_refused(client: Any) -> None:
    answer = client.post("/api/uploads", content=b"\0" * 50_000_000, headers=PNG)
    assert answer.status_code == 413
    assert "larger than" in answer.json()["detail"]


def test_a_large_upload_without_a_length_is_refused_when_it_becomes_too_large(client: Any) -> None:
    answer = client.post("/api/uploads", content=(b"\0" * 2**20 for _ in range(30)), headers=PNG)
    assert answer.status_code == 413


def test_a_bomb_is_refused_by_its_head(client: Any) -> None:
    bomb = _png(60_000, 60_000, b"\0" * 10_000_000)
    assert len(bomb) < 20_000
    answer = client.post("/api/uploads", content=bomb, headers=PNG)
    assert answer.status_code == 413
    assert "above the limit of 50,000,000 pixels" in answer.json()["detail"]


@pytest.mark.parametrize("body", [b"", b"no picture", b"\x89PNG\r\n\x1a\n", b"<svg xmlns='x'/>", _picture()[:-30]])
def test_what_is_no_picture_is_refused(client: Any, body: bytes) -> None:
    assert client.post("/api/uploads", content=body, headers=PNG).status_code == 422


def test_an_upload_is_searched_by_and_forgotten_when_there_are_too_many(application: Callable[..., Any]) -> None:
    with talking(application(limits=Limits(uploads=2))) as client:
        names = [client.post("/api/uploads", content=_picture(), headers=PNG).json()["upload"] for _ in range(3)]
        found = [client.post("/api/search", json={"like": [{"upload": name}], "k": 5}) for name in names]
        assert [answer.status_code for answer in found] == [404, 200, 200]
        assert len(found[1].json()["hits"]) == 5


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


def test_a_large_json_body_is_refused(client: Any) -> None:
    answer = client.post("/api/search", content=b" " * 70_000, headers={"content-type": "application/json"})
    assert answer.status_code == 413


# ---------------------------------------------------------------------------------------------------------------------
# Slow clients


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


def test_slow_clients_are_timed_out_while_others_are_served(application: Callable[..., Any]) -> None:
    limits = Limits(header_seconds=1.0, body_seconds=1.0)
    with running(application(limits=limits), limits) as port:
        silent, head, body = (_connected(port) for _ in range(3))
        head.sendall(b"GET /api/search?row=1 HTTP/1.1\r\nHost: 127")
        fields = b"Host: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 50"
        body.sendall(b"POST /api/search HTTP/1.1\r\n" + fields + b"\r\n\r\n{")
        for _ in range(5):
            assert b" 200 OK" in _ask(port)
        assert _all(silent) == b""  # closed without a word: it asked for nothing
        assert _all(head) == b""
        assert b" 408 " in _all(body).splitlines()[0]
        for made in (silent, head, body):
            made.close()
        assert b" 200 OK" in _ask(port)


def test_a_client_that_drips_its_head_is_closed_too(application: Callable[..., Any]) -> None:
    limits = Limits(header_seconds=0.6)
    with running(application(limits=limits), limits) as port, _connected(port) as slow:
        slow.settimeout(0.05)
        assert any(_dripped(slow, byte) for byte in b"GET / HTTP/1.1\r\nX-Long: " + b"x" * 100)


def _dripped(slow: socket.socket, byte: int) -> bool:
    """Send one byte and wait a little; whether the server has closed."""
    try:
        slow.sendall(bytes([byte]))
        return slow.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


def test_a_keep_alive_connection_may_pause_between_requests(application: Callable[..., Any]) -> None:
    limits = Limits(header_seconds=0.5)
    with running(application(limits=limits), limits) as port, _connected(port) as made:
        for _ in range(2):
            made.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert made.recv(65536).startswith(b"HTTP/1.1 200")
            time.sleep(0.8)


# ---------------------------------------------------------------------------------------------------------------------
# Anything at all


@pytest.mark.slow
def test_schemathesis_finds_no_5xx(application: Callable[..., Any]) -> None:
    schemathesis = pytest.importorskip("schemathesis")
    schema = schemathesis.openapi.from_asgi("/api/openapi.json", application(), headers={"Host": "127.0.0.1"})
    operations = [result.ok() for result in schema.get_all_operations()]
    assert len(operations) >= 15
    asked = sum(_attacked(operation, mode) for operation in operations for mode in schemathesis.GenerationMode)
    assert asked > 15 * 12


def _attacked(operation: Any, mode: Any) -> int:
    """Ask an operation a dozen things that fit its description, or do not; how many were asked."""
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis.errors import Unsatisfiable
    from schemathesis.checks import not_a_server_error

    codes = []

    @settings(max_examples=12, phases=[Phase.generate], suppress_health_check=list(HealthCheck), derandomize=True)
    @given(operation.as_strategy(generation_mode=mode))
    def attack(case: Any) -> None:
        answer = case.call(headers={"Host": "127.0.0.1"})
        case.validate_response(answer, checks=[not_a_server_error])
        codes.append(answer.status_code)

    with suppress(Unsatisfiable, pytest.skip.Exception, unittest.SkipTest):  # nothing about it could be wrong
        attack()
    return len(codes)
