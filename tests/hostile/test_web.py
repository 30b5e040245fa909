"""Bombs and floods against a real server: it stays small and goes on serving an honest client."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import httpx
import psutil
import pytest

import likewise
from tests.hostile.bombs import jpeg_of_many_scans, large_picture, webp_of_a_few_bytes
from tests.serve.conftest import made_index, picture  # noqa: F401  a fixture

pytest.importorskip("fastapi")
GIGABYTE = 2**30
SOURCE = Path(likewise.__file__).parents[1]


class Served:
    """A server process, its memory, and an honest client that never stops asking."""

    def __init__(self, pid: int, port: int) -> None:
        self.process, self.port = psutil.Process(pid), port
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60, headers={"connection": "close"})
        self.most, self.codes, self._stop = 0, [], threading.Event()
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._watch, self._ask)]

    def __enter__(self) -> Served:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)
        self.client.close()

    def _watch(self) -> None:
        """The largest memory of the server and its decoding processes together; what they share counts once."""
        while not self._stop.wait(0.05):
            with suppress(psutil.NoSuchProcess):
                family = [self.process, *self.process.children(recursive=True)]
                self.most = max(self.most, sum(process.memory_full_info().pss for process in family))

    def _ask(self) -> None:
        while not self._stop.wait(0.1):
            for path in ("/healthz", "/api/search?row=1&k=3", "/api/items/1/picture"):
                try:
                    self.codes.append(self.client.get(path).status_code)
                except httpx.HTTPError as error:
                    self.codes.append(repr(error))

    def answers(self, rounds: int = 3) -> None:
        """Wait until the honest client got answers to some more rounds of questions."""
        enough = len(self.codes) + 3 * rounds
        while len(self.codes) < enough:
            assert self.process.is_running()
            time.sleep(0.02)

    def upload(self, data: bytes) -> httpx.Response:
        return self.client.post("/api/uploads", content=data, headers={"content-type": "image/png"})


@pytest.fixture(scope="module")
def server(made_index: Path) -> Iterator[tuple[int, int]]:  # noqa: F811
    """One server for all attacks, its process and its port: what one leaves behind the next one meets."""
    command = [sys.executable, "-m", "likewise", "serve", str(made_index), "--port", "0", "--no-browser", "--no-token"]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "OPENBLAS_NUM_THREADS": "1"}
    with subprocess.Popen([*command], stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        threading.Thread(target=process.stderr.read, daemon=True).start()
        try:
            yield process.pid, int(line.split("http://127.0.0.1:")[1].split("/")[0])
            assert process.poll() is None
        finally:
            process.kill()


@pytest.fixture
def served(server: tuple[int, int]) -> Iterator[Served]:
    """The server; afterwards every honest request was answered, and it stayed below a gigabyte."""
    with Served(*server) as served:
        yield served
        served.answers(1)
    assert set(served.codes) == {200}, served.codes
    assert served.most < GIGABYTE, f"{served.most / GIGABYTE:.2f} GB"


@pytest.mark.second
def test_pictures_that_are_bombs(served: Served) -> None:
    bombs = [
        webp_of_a_few_bytes(),
        jpeg_of_many_scans(),
        large_picture("PNG", compress_level=1),
        large_picture("WEBP", quality=10, method=0),
        large_picture("TIFF", compression="tiff_adobe_deflate"),
    ]
    with ThreadPoolExecutor(10) as attackers:
        answers = [(answer.status_code, answer.json()) for answer in attackers.map(served.upload, bombs * 2)]
    assert {code for code, _ in answers} <= {201, 413, 422, 429}, answers
    details = {str(answer["detail"]) for code, answer in answers if code == 413}
    assert details <= {
        "the picture claims 7000 × 7000 pixels in 34 bytes",
        "the picture is a JPEG of 1000 scans, above the limit of 64",
    }
    assert served.upload(picture()).status_code == 201


@pytest.mark.second
def test_heads_without_an_end(served: Served) -> None:
    def flood(_: int) -> None:
        with socket.create_connection(("127.0.0.1", served.port), timeout=30) as made, suppress(OSError):
            made.sendall(b"GET / HTTP/1.1\r\n")
            for _ in range(3000):
                made.sendall(b"X: " + b"x" * 100_000 + b"\r\n")

    with ThreadPoolExecutor(6) as attackers:
        list(attackers.map(flood, range(6)))
    served.answers()


@pytest.mark.second
def test_seven_hundred_connections_of_a_client_that_ask_for_nothing(served: Served) -> None:
    with silent(served, 700, "127.0.0.2"):
        served.answers(10)


@pytest.mark.second
def test_above_512_connections_all_hear_503_and_health_until_the_others_have_gone(served: Served) -> None:
    with silent(served, 300, "127.0.0.2"), silent(served, 300, "127.0.0.3"):
        served.answers(10)
        assert served.codes[-3:] == [200, 503, 503]  # health, search, picture
    until = time.monotonic() + 60
    while served.codes[-3:] != [200] * 3:
        assert time.monotonic() < until
        time.sleep(0.05)
    assert set(served.codes) == {200, 503}
    served.codes.clear()
    served.answers(10)


@contextmanager
def silent(served: Served, n: int, client: str) -> Iterator[None]:
    """Connections that send nothing, or half of a head."""
    with ExitStack() as stack:
        for number in range(n):
            address = ("127.0.0.1", served.port)
            made = stack.enter_context(socket.create_connection(address, 30, source_address=(client, 0)))
            with suppress(ConnectionError):
                made.sendall(b"GET / HTTP/1.1\r\nHost: 127" if number % 2 else b"")
        yield


@pytest.mark.second
def test_bodies_that_do_not_come(served: Served) -> None:
    fields = b"Host: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 60000\r\n\r\n"
    head = b"POST /api/search HTTP/1.1\r\n" + fields
    with ExitStack() as stack:
        for _ in range(100):
            made = stack.enter_context(socket.create_connection(("127.0.0.1", served.port), timeout=30))
            made.sendall(head + b"[" * 1000)
        served.answers(10)


@pytest.mark.second
def test_nested_and_enormous_json(served: Served) -> None:
    bodies = [b"[" * 60_000, b'{"like":' * 8_000, json.dumps({"items": [1] * 9_999, "label": "x" * 201}).encode()]
    for body in bodies * 5:
        for path in ("/api/search", "/api/marks", "/api/labels"):
            answer = served.client.post(path, content=body, headers={"content-type": "application/json"})
            assert answer.status_code in (400, 413, 422)
