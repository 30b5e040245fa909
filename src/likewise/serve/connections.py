"""Connections that keep a place without asking for anything: closed by a sweep that uvicorn runs once a second.

An application sees requests only; a client that sends half a head, or takes no byte of a response, is seen here.
"""

import logging
import resource
import time
from collections.abc import Callable
from typing import Any

from likewise.serve.settings import Limits

log = logging.getLogger("likewise.serve")
_FILES = 8192  # open files that the server asks for: connections are files


class ConnectionSweep:
    """Closes connections that wait too long, and the oldest waiting ones where there are too many.

    It reads `cycle`, `transport` and `timeout_keep_alive_task` of uvicorn's connections, which have no public name:
    `pyproject.toml` limits the version, and the tests fail if they change.
    """

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits, self._clock = limits, clock
        self._waiting: dict[Any, tuple[object, float]] = {}  # what each connection waits for, and since when

    def __call__(self, connections: set[Any]) -> int:
        """Look at all connections and return how many were closed."""
        now = self._clock()
        waits = {connection: wait for connection in connections if (wait := self._wait(connection)) is not None}
        since = {connection: self._since(connection, wait, now) for connection, wait in waits.items()}
        self._waiting = {connection: (waits[connection], since[connection]) for connection in waits}
        late = [connection for connection in waits if now - since[connection] > self._patience(connection)]
        spare = len(connections) - len(late) - self.limits.connections
        oldest = sorted(set(waits) - set(late), key=since.__getitem__)[: max(0, spare)]
        for connection in (*late, *oldest):
            connection.transport.abort()
        if late or oldest:
            log.info("connections closed", extra={"facts": {"late": len(late), "too_many": len(oldest)}})
        return len(late) + len(oldest)

    def _wait(self, connection: Any) -> object | None:
        """What a connection waits for: a head, its client's next request or its client to read; None for none."""
        cycle = connection.cycle
        if cycle is None or cycle.response_complete:
            return ("idle" if connection.timeout_keep_alive_task is not None else "head"), id(cycle)
        unread = connection.transport.get_write_buffer_size()
        return ("unread", unread) if unread else None

    def _since(self, connection: Any, wait: object, now: float) -> float:
        before, since = self._waiting.get(connection, (None, now))
        return since if before == wait else now

    def _patience(self, connection: Any) -> float:
        if connection.cycle is not None and not connection.cycle.response_complete:
            return self.limits.write_seconds
        # uvicorn closes idle connections itself, so that only heads are left to time.
        return float("inf") if connection.timeout_keep_alive_task is not None else self.limits.header_seconds


def allow_many_connections() -> None:
    """Raise the number of open files, which is often 1,024: that many connections would keep everybody out."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
