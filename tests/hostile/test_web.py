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
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

import likewise
from tests.hostile.bombs import jpeg_of_many_scans, large_picture, webp_of_a_few_bytes
from tests.web.conftest import made_index, picture  # noqa: F401  a fixture

pytest.importorskip("fastapi")
GIGABYTE = 2**30
SOURCE = Path(likewise.__file__).parents[1]


class Served:
    """A server process, its memory, and an honest client that never stops asking."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.process, self.port = psutil.Process(process.pid), port
        self.url = f"http://127.0.0.1:{port}"
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

    def _watch(self) -> None:
        """The largest memory of the server and its decoding processes together; what they share counts once."""
        while not self._stop.wait(0.02):
            with suppress(psutil.NoSuchProcess):
                family = [self.process, *self.process.children(recursive=True)]
                self.most = max(self.most, sum(process.memory_full_info().pss for process in family))

    def _ask(self) -> None:
        while not self._stop.wait(0.1):
            for path in ("/healthz", "/api/search?row=1&k=3", "/api/items/1/picture"):
                try:
                    self.codes.append(httpx.get(self.url + path, timeout=30).status_code)
                except httpx.HTTPError as error:
                    self.codes.append(repr(error))


@contextmanager
def _serving(index: Path, *options: str) -> Iterator[Served]:
    command = [sys.executable, "-m", "likewise", "serve", str(index), "--port", "0", "--no-browser", *options]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "OPENBLAS_NUM_THREADS": "1"}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        threading.Thread(target=process.stderr.read, daemon=True).start()
        try:
            with Served(process, int(line.split("http://127.0.0.1:")[1].split("/")[0])) as served:
                yield served
            assert process.poll() is None
        finally:
            process.kill()


def _upload(url: str, data: bytes) -> httpx.Response:
    return httpx.post(f"{url}/api/uploads", content=data, headers={"content-type": "image/png"}, timeout=60)


def _held(served: Served) -> None:
    """Every honest request was answered, and the server stayed below a gigabyte."""
    assert set(served.codes) == {200}, served.codes
    assert served.most < GIGABYTE, f"{served.most / GIGABYTE:.2f} GB"


@pytest.mark.slow
def test_pictures_that_are_bombs(made_index: Path) -> None:  # noqa: F811
    bombs = [
        webp_of_a_few_bytes(),
        jpeg_of_many_scans(),
        large_picture("PNG", compress_level=1),
        large_picture("WEBP", quality=10, method=0),
        large_picture("TIFF", compression="tiff_adobe_deflate"),
    ]
    with _serving(made_index, "--no-rate-limit") as served:
        answers: list[tuple[int, Any]] = []

        def attack(bomb: bytes) -> None:
            answer = _upload(served.url, bomb)
            answers.append((answer.status_code, answer.json()))

        threads = [threading.Thread(target=attack, args=[bomb]) for bomb in bombs * 2]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert {code for code, _ in answers} <= {201, 413, 422, 429}, answers
        details = {str(answer["detail"]) for code, answer in answers if code == 413}
        assert details <= {
            "the picture claims 7000 × 7000 pixels in 34 bytes",
            "the picture is a JPEG of 1000 scans, above the limit of 64",
        }
        assert _upload(served.url, picture()).status_code == 201
    _held(served)


@pytest.mark.slow
def test_heads_without_an_end(made_index: Path) -> None:  # noqa: F811
    with _serving(made_index, "--no-rate-limit") as served, ExitStack() as stack:

        def flood() -> None:
            made = stack.enter_context(socket.create_connection(("127.0.0.1", served.port), timeout=30))
            with suppress(OSError):
                made.sendall(b"GET / HTTP/1.1\r\n")
                for _ in range(3000):
                    made.sendall(b"X: " + b"x" * 100_000 + b"\r\n")

        threads = [threading.Thread(target=flood) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        time.sleep(1)
    _held(served)


@pytest.mark.slow
def test_seven_hundred_connections_that_ask_for_nothing(made_index: Path) -> None:  # noqa: F811
    with _serving(made_index, "--no-rate-limit") as served, ExitStack() as stack:
        for number in range(700):
            made = stack.enter_context(socket.create_connection(("127.0.0.1", served.port), timeout=30))
            made.sendall(b"GET / HTTP/1.1\r\nHost: 127" if number % 2 else b"")
        time.sleep(3)
        asked = len(served.codes)
        time.sleep(1)
        assert len(served.codes) > asked
    _held(served)


@pytest.mark.slow
def test_bodies_that_do_not_come(made_index: Path) -> None:  # noqa: F811
    fields = b"Host: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 60000\r\n\r\n"
    head = b"POST /api/search HTTP/1.1\r\n" + fields
    with _serving(made_index, "--no-rate-limit") as served, ExitStack() as stack:
        for _ in range(100):
            made = stack.enter_context(socket.create_connection(("127.0.0.1", served.port), timeout=30))
            made.sendall(head + b"[" * 1000)
        time.sleep(2)
    _held(served)


@pytest.mark.slow
def test_nested_and_enormous_json(made_index: Path) -> None:  # noqa: F811
    bodies = [b"[" * 60_000, b'{"like":' * 8_000, json.dumps({"items": [1] * 9_999, "label": "x" * 201}).encode()]
    with _serving(made_index, "--no-rate-limit") as served:
        for body in bodies * 5:
            for path in ("/api/search", "/api/marks", "/api/labels"):
                answer = httpx.post(served.url + path, content=body, headers={"content-type": "application/json"})
                assert answer.status_code in (400, 413, 422)
    _held(served)
