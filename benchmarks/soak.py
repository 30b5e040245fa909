"""A real server for an hour: honest clients and a lesson a minute, next to a hostile client.

usage: python -m benchmarks.soak [--minutes 60] [--index INDEX]

Prints every minute the memory of the server and its decoders, requests, latencies and failures of the honest, and at
the end PASS or FAIL: memory flat within 5 % after the warm-up, and no 5xx for the honest.
"""

from __future__ import annotations

import argparse
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil
from tests.hostile.bombs import jpeg_of_many_scans, webp_of_a_few_bytes

__all__ = ["main"]

FLAT = 0.05
HONEST = 4  # closed-loop clients, each with a pause of a tenth of a second
N_ITEMS = 2000
TOKEN = "the secret of the soak"
HEADERS = {"Authorization": f"Bearer {TOKEN}"}
SHORTEST = 10  # minutes; below, there is no warm-up and no two periods to compare


class Tally:
    """Requests of the honest: how long they took and how they ended."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.codes: Counter[str] = Counter()
        self._lock = threading.Lock()

    def add(self, seconds: float, code: str) -> None:
        with self._lock:
            self.times.append(seconds)
            self.codes[code] += 1

    def failures(self) -> int:
        return sum(n for code, n in self.codes.items() if not code.startswith(("2", "4")))

    def take(self) -> list[float]:
        """The times since the last call."""
        with self._lock:
            times, self.times = self.times, []
            return times


def made_index(folder: Path) -> Path:
    """Pictures of coloured tiles in twenty classes, and their index."""
    from PIL import Image

    from likewise.pictures import Pixels, extract_folder
    from likewise.rivals import LDA
    from likewise.rows import FeatureStore
    from likewise.search import Index

    rng = np.random.default_rng(0)
    colours = rng.integers(0, 256, (20, 4, 4, 3))
    for number in range(N_ITEMS):
        tile = np.clip(colours[number % 20] + rng.normal(0, 60, (4, 4, 3)), 0, 255).astype(np.uint8)
        path = folder / "tiles" / f"class {number % 20:02d}" / f"{number:04d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(tile).resize((640, 480), Image.Resampling.NEAREST).save(path)
    extract_folder(folder / "tiles", folder / "tiles.features", Pixels(size=8))
    store = FeatureStore.open(folder / "tiles.features")
    model = LDA(shrinkage=0.5).fit(np.asarray(store.features)[::5], store.labels[::5])
    return Index.build(model, store).save(folder / "tiles.index")


@contextmanager
def served(index: Path, *words: str) -> Iterator[tuple[psutil.Process, int]]:
    """The server as a process, and its port."""
    command = [sys.executable, "-m", "likewise", "serve", str(index), "--no-browser", "--port", "0", *words]
    with subprocess.Popen([*command, "--log-level", "warning"], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        threading.Thread(target=lambda: [None for _ in process.stderr or ()], daemon=True).start()
        try:
            yield psutil.Process(process.pid), int(line.split("http://127.0.0.1:")[1].split("/")[0])
        finally:
            process.terminate()


def memory(process: psutil.Process) -> tuple[int, int]:
    """Bytes of the server, and of its decoders."""
    decoders = 0
    for child in process.children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            decoders += child.memory_info().rss
    return process.memory_info().rss, decoders


# ---------------------------------------------------------------------------------------------------------------------
# The honest


def honest(url: str, seed: int, tally: Tally, stop: threading.Event) -> None:
    """Search, browse, look at pictures and mark, as a page does."""
    rng = random.Random(seed)
    with httpx.Client(base_url=url, timeout=60, headers=HEADERS) as client:
        while not stop.wait(0.1):
            row = rng.randrange(N_ITEMS)
            requests: list[Callable[[], httpx.Response]] = [
                lambda row=row: client.get(f"/api/search?row={row}&k=24"),
                lambda row=row: client.get(f"/api/items/{row}/picture"),
                lambda row=row: client.get(f"/api/items?limit=48&offset={row}"),
                lambda row=row: client.post("/api/search", json={"like": [{"row": row}], "k": 24, "side": "raw"}),
                lambda: client.get("/api/status"),
                lambda: client.get("/"),
            ]
            _timed(rng.choice(requests), tally)


def teacher(url: str, tally: Tally, stop: threading.Event) -> None:
    """A mark a few times a minute, and a lesson a minute."""
    rng = random.Random(1)
    with httpx.Client(base_url=url, timeout=60, headers=HEADERS) as client:
        while not stop.is_set():
            for _ in range(5):
                row = rng.randrange(N_ITEMS - 20)
                mark = {"query": [{"row": row}], "items": [row + 20], "right": True}
                _timed(lambda mark=mark: client.post("/api/marks", json=mark), tally)
                if stop.wait(10):
                    return
            _timed(lambda: client.post("/api/learn"), tally)
            if stop.wait(10):
                return


def _timed(ask: Callable[[], httpx.Response], tally: Tally) -> None:
    began = time.perf_counter()
    try:
        code = str(ask().status_code)
    except httpx.HTTPError as error:
        code = type(error).__name__
    tally.add(time.perf_counter() - began, code)


# ---------------------------------------------------------------------------------------------------------------------
# The hostile


def hostile(url: str, port: int, stop: threading.Event, attacks: Counter[str]) -> None:
    """One attack after the other, a few a second, from another address of this machine; some have the token."""
    rng = random.Random(2)
    away = httpx.HTTPTransport(local_address="127.0.0.2")
    kinds: list[Callable[[Any, int, random.Random], list[socket.socket] | None]] = [
        _bomb,
        _garbage,
        _slow_body,
        _flood,
        _half_open,
    ]
    kinds += [_logins, _streams, _hang_up, _half_a_zip]
    with httpx.Client(base_url=url, timeout=30, transport=away, headers=HEADERS) as client, ExitStack() as open_ends:
        while not stop.wait(0.3):
            attack = rng.choice(kinds)
            with suppress(httpx.HTTPError, OSError):
                for connection in attack(client, port, rng) or ():
                    open_ends.enter_context(connection)
            attacks[attack.__name__.strip("_").replace("_", " ")] += 1
            if sum(attacks.values()) % 50 == 0:
                open_ends.close()


def _bomb(client: httpx.Client, port: int, rng: random.Random) -> None:
    bombs = (webp_of_a_few_bytes(), jpeg_of_many_scans(), jpeg_of_many_scans(60, 1500), rng.randbytes(50_000))
    client.post("/api/uploads", content=rng.choice(bombs), headers={"content-type": "image/png"})


def _garbage(client: httpx.Client, port: int, rng: random.Random) -> None:
    path = rng.choice(("/api/search", "/api/marks", "/api/labels", "/api/undo?x=%00", "/api/items/-1/picture"))
    client.post(path, content=rng.randbytes(rng.randrange(60_000)), headers={"content-type": "application/json"})


def _slow_body(client: httpx.Client, port: int, rng: random.Random) -> None:
    with _connected(port) as connection:
        connection.sendall(b"POST /api/search HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n")
        for _ in range(10):
            connection.sendall(b" ")
            time.sleep(0.05)


def _flood(client: httpx.Client, port: int, rng: random.Random) -> None:
    with _connected(port) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n")
        for _ in range(200):
            connection.sendall(b"X: " + b"x" * 50_000 + b"\r\n")


def _half_open(client: httpx.Client, port: int, rng: random.Random) -> None:
    connections = [_connected(port) for _ in range(50)]
    for connection in connections:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: 12")
    time.sleep(0.5)
    for connection in connections:
        connection.close()


def _logins(client: httpx.Client, port: int, rng: random.Random) -> list[socket.socket]:
    """Logins whose bodies never come; the connections are left open."""
    return _asked(port, 40, b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 500\r\n\r\ntoken=")


def _streams(client: httpx.Client, port: int, rng: random.Random) -> list[socket.socket]:
    return _asked(port, 30, b"GET /api/events HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %b\r\n\r\n" % _TOKEN)


def _half_a_zip(client: httpx.Client, port: int, rng: random.Random) -> list[socket.socket]:
    """Downloads of which nothing is read."""
    name = client.post("/api/exports", json={"items": list(range(500))}).json()["export"].encode()
    head = b"GET /api/exports/%b.zip HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %b\r\n\r\n"
    return _asked(port, 10, head % (name, _TOKEN))


def _hang_up(client: httpx.Client, port: int, rng: random.Random) -> None:
    for connection in _logins(client, port, rng):
        connection.close()


def _asked(port: int, n: int, head: bytes) -> list[socket.socket]:
    connections = [_connected(port) for _ in range(n)]
    for connection in connections:
        connection.sendall(head)
    return connections


_TOKEN = TOKEN.encode()


def _connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=10, source_address=("127.0.0.3", 0))


# ---------------------------------------------------------------------------------------------------------------------
# The report


def main(minutes: float, index: Path | None) -> int:
    """Run, print a line a minute and the verdict; exit code 1 for FAIL."""
    with tempfile.TemporaryDirectory() as folder:
        return _soaked(minutes, index or made_index(Path(folder)))


def _soaked(minutes: float, index: Path) -> int:
    with served(index, "--token", TOKEN) as (process, port):
        url, stop, tally, attacks = f"http://127.0.0.1:{port}", threading.Event(), Tally(), Counter[str]()
        work: list[tuple[Callable[..., None], tuple[Any, ...]]] = [
            *((honest, (url, 10 + seed, tally, stop)) for seed in range(HONEST)),
            (teacher, (url, tally, stop)),
            (hostile, (url, port, stop, attacks)),
        ]
        threads = [threading.Thread(target=do, args=arguments, daemon=True) for do, arguments in work]
        for thread in threads:
            thread.start()
        sizes = list(_watched(process, tally, minutes))
        stop.set()
        for thread in threads:
            thread.join(60)
        return _verdict(sizes, tally, attacks, process.is_running())


def _watched(process: psutil.Process, tally: Tally, minutes: float) -> Iterator[int]:
    """A line a minute; yields the memory of the server."""
    print("minute  server MB  decoders MB  requests   p50 ms   p95 ms  5xx and broken")
    for minute in range(1, max(1, round(minutes)) + 1):
        time.sleep(min(60.0, 60 * minutes))
        resident, decoders = memory(process)
        p50, p95 = 1e3 * np.quantile(tally.take() or [0.0], [0.5, 0.95])
        counts = f"{sum(tally.codes.values()):>9} {p50:>8.1f} {p95:>8.1f} {tally.failures():>7}"
        print(f"{minute:>6} {resident / 2**20:>10.1f} {decoders / 2**20:>12.1f} {counts}", flush=True)
        yield resident


def _verdict(sizes: list[int], tally: Tally, attacks: Counter[str], running: bool) -> int:
    change = growth(sizes)
    held = tally.failures() == 0 and running
    print(f"honest: {dict(tally.codes)}; attacks: {dict(attacks)}")
    print(f"{tally.failures()} failures of the honest")
    if change is None:
        print(f"memory: {len(sizes)} minutes are too few to tell, expected at least {SHORTEST}")
    else:
        print(f"memory {change:+.1%} after the warm-up, limit {FLAT:.0%}")
    passed = held and change is not None and change <= FLAT
    print("PASS" if passed else "INCONCLUSIVE" if held and change is None else "FAIL")
    return 0 if passed else 1


def growth(sizes: list[int]) -> float | None:
    """Share by which memory grew from the first to the last minutes after the warm-up; None if these are the same."""
    if len(sizes) < SHORTEST:
        return None
    warm = sizes[len(sizes) // 5 :]
    third = len(warm) // 3
    return float(np.median(warm[-third:]) / np.median(warm[:third]) - 1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--index", type=Path)
    words = parser.parse_args()
    sys.exit(main(words.minutes, words.index))
