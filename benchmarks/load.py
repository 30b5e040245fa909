"""A lean load generator: closed-loop clients on keep-alive connections, in a process of its own.

usage: python -m benchmarks.load HOST PORT N_ITEMS CLIENTS SECONDS

Each client searches by a random row, waits for the complete response, and repeats. Prints one JSON object.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time

__all__ = ["run"]


class Client(asyncio.Protocol):
    """One connection; parses just enough HTTP to know when a response is complete."""

    def __init__(self, host: str, n_items: int, until: float, done: asyncio.Future[None]) -> None:
        self.host, self.n_items, self.until, self.done = host, n_items, until, done
        self.times: list[float] = []
        self.errors = 0
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]
        self._ask()

    def _ask(self) -> None:
        row = random.randrange(self.n_items)
        self._began = time.perf_counter()
        self.transport.write(f"GET /api/search?row={row}&k=12 HTTP/1.1\r\nHost: {self.host}\r\n\r\n".encode())

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


async def run(host: str, port: int, n_items: int, clients: int, seconds: float) -> dict[str, float]:
    """Latency percentiles, errors and rate of all requests."""
    loop = asyncio.get_running_loop()
    until = time.perf_counter() + seconds
    connections = [Client(f"{host}:{port}", n_items, until, loop.create_future()) for _ in range(clients)]
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
    host, port, n_items, clients, seconds = sys.argv[1:]
    try:
        import uvloop

        runner = uvloop.run
    except ImportError:
        runner = asyncio.run
    print(json.dumps(runner(run(host, int(port), int(n_items), int(clients), float(seconds)))))
