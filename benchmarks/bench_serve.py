"""The server under load: searches by row from 32 closed-loop clients, an uploaded picture, a lesson from 20 marks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from benchmarks.measure import clusters
from benchmarks.serve_million import served

__all__ = ["rows"]

SECONDS = float(os.environ.get("LIKEWISE_BENCH_SECONDS", "60"))
CLIENTS = 32
Row = dict[str, object]


def rows() -> Iterator[Row]:
    """8,677 items, as in Caltech101, then 100,000; each server and the load generator is a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        small = _index(Path(folder) / "small.index", 8677, 1280, extractor=True)
        with _served(small) as port:
            yield _load(port, 8677, 20)
            yield _upload(port)
            yield _lesson(port)
        with _served(_index(Path(folder) / "large.index", 100_000, 128)) as port:
            yield _load(port, 100_000, 100)


def _index(path: Path, n: int, d: int, extractor: bool = False) -> Path:
    """Gaussian classes under a map of width 100: the cost of a search depends on the sizes only."""
    from likewise.pictures import EfficientNetLite0
    from likewise.rivals import LDA
    from likewise.rows import FeatureStore
    from likewise.search import Index

    X, y = clusters(n, d, 101)
    model = LDA().fit(X[:4000], y[:4000])
    store = FeatureStore.write(
        path.with_suffix(".features"), X, y, extractor=EfficientNetLite0() if extractor else None
    )
    Index.build(model, store).save(path)
    return path


@contextmanager
def _served(index: Path) -> Iterator[int]:
    """The port of a server in a process of its own."""
    with served(index) as server:
        port = urlsplit(server.address).port
        assert port is not None
        yield port


def _load(port: int, n: int, goal: float) -> Row:
    command = [sys.executable, "-m", "benchmarks.load", "127.0.0.1", str(port), str(n), str(CLIENTS), str(SECONDS)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    figures = json.loads(done.stdout)
    return {
        "what": f"search by row, {n:,} × 100, {CLIENTS} clients, {SECONDS:g} s",
        "ours": f"p50 {figures['p50_ms']:.1f} ms, p95 {figures['p95_ms']:.1f} ms, p99 {figures['p99_ms']:.1f} ms; "
        f"{figures['rate']:,.0f}/s, {figures['errors']} errors",
        "rival": "",
        "ratio": figures["p95_ms"] / goal,
        "goal": f"≤ 1 of {goal:g} ms at p95, no error",
    }


def _upload(port: int) -> Row:
    """From the first byte of a 300 × 300 JPEG to the ranking, including EfficientNet-Lite0."""
    from benchmarks.bench_features import photographs

    times = []
    for picture in photographs(12):
        began = time.perf_counter()
        name = _ask(port, "/api/uploads", picture, "image/jpeg")["upload"]
        _ask(port, "/api/search", json.dumps({"like": [{"upload": name}]}).encode())
        times.append(time.perf_counter() - began)
    return {
        "what": "uploaded picture, to its ranking (median of 11 after the first)",
        "ours": f"{1e3 * float(np.median(times[1:])):.0f} ms",
        "rival": f"the first one, which loads the extractor: {1e3 * times[0]:.0f} ms",
        "ratio": "",
        "goal": "",
    }


def _lesson(port: int) -> Row:
    """Twenty marks, then Learn; the teacher is prepared while marks are given."""
    hits = _ask(port, "/api/search?row=1&k=20")["hits"]
    for hit in hits:
        body = {"query": [{"row": 1}], "items": [hit["row"]], "right": bool(hit["relevant"])}
        _ask(port, "/api/marks", json.dumps(body).encode())
    time.sleep(8)  # nobody gives twenty marks at once
    began = time.perf_counter()
    _ask(port, "/api/learn", b"{}")
    _until(lambda: _ask(port, "/api/status")["learning"]["state"] != "running", 0.01)
    seconds = time.perf_counter() - began
    lesson = _ask(port, "/api/status")["lesson"]
    return {
        "what": "20 marks on 8,677 × 1,280, from Learn to the new ranking",
        "ours": f"{seconds:.2f} s, of which the lesson {lesson['seconds']:.2f} s",
        "rival": "",
        "ratio": seconds,
        "goal": "< 1 s",
    }


def _ask(port: int, path: str, body: bytes | None = None, kind: str = "application/json") -> Any:
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", body, {"Content-Type": kind})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read())


def _until(so: Any, pause: float = 0.1, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if so():
                return
        except OSError:
            pass
        time.sleep(pause)
    raise TimeoutError("the server did not become ready")
