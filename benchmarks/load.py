"""A lean load generator: closed-loop clients on keep-alive connections, in a process of its own.

usage: python -m benchmarks.load HOST PORT N_ITEMS|ROWS.npy CLIENTS SECONDS

Each client searches by a random row of the index, or by one of these raw rows as a vector, waits for the complete
response, and repeats. Prints one JSON object.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections.abc import Callable

import numpy as np

__all__ = ["run"]


class Client(asyncio.Protocol):
    """One connection; parses just enough HTTP to know when a response is complete."""

    def __init__(self, request: Callable[[], bytes], until: float, done: asyncio.Future[None]) -> None:
        self.request, self.until, self.done = request, until, done
        self.times: list[float] = []
        self.errors = 0
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]
        self._ask()

    def _ask(self) -> None:
        request = self.request()
        self._began = time.perf_counter()
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, separator, body = self._buffer.partition(b"\r\n\r\n")
        if not separator:
            return
        length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n", 1)[0])
        if len(body) < length:
            return
        self.times.append(time.perf_counter() - self._began)
        self.errors += not head.startswith(b"HTTP/1.1 200") or body.count(b'"score"') != 12
        self._buffer = b""
        if time.perf_counter() < self.until:
            self._ask()
        else:
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self.errors += exc is not None or time.perf_counter() < self.until
        if not self.done.done():
            self.done.set_result(None)


def requests(host: str, queries: str) -> Callable[[], bytes]:
    """What makes the next request: a row number below `queries`, or a row of that .npy file."""
    if queries.isdecimal():
        n = int(queries)
        return lambda: f"GET /api/search?row={random.randrange(n)}&k=12 HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
    head = f"POST /api/search HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: "
    bodies = [json.dumps({"vector": row, "k": 12}).encode() for row in np.load(queries).tolist()]
    ready = [f"{head}{len(body)}\r\n\r\n".encode() + body for body in bodies]
    return lambda: random.choice(ready)


async def run(host: str, port: int, queries: str, clients: int, seconds: float) -> dict[str, float]:
    """Latency percentiles, errors and rate of all requests."""
    loop = asyncio.get_running_loop()
    until = time.perf_counter() + seconds
    request = requests(f"{host}:{port}", queries)
    connections = [Client(request, until, loop.create_future()) for _ in range(clients)]
    for client in connections:
        await loop.create_connection(lambda c=client: c, host, port)
    await asyncio.gather(*(client.done for client in connections))
    times = sorted(t for client in connections for t in client.times)
    return {
        "requests": len(times),
        "errors": sum(client.errors for client in connections),
        "p50_ms": 1e3 * times[len(times) // 2],
        "p95_ms": 1e3 * times[int(len(times) * 0.95)],
        "p99_ms": 1e3 * times[int(len(times) * 0.99)],
        "rate": len(times) / seconds,
    }


if __name__ == "__main__":
    if len(sys.argv) != 6:
        sys.exit(__doc__)
    host, port, queries, clients, seconds = sys.argv[1:]
    try:
        import uvloop

        runner = uvloop.run
    except ImportError:
        runner = asyncio.run
    print(json.dumps(runner(run(host, int(port), queries, int(clients), float(seconds)))))
