"""How much and how long: request rates, body sizes, slow clients."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from starlette.exceptions import HTTPException

__all__ = ["Buckets", "drain", "limited"]

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]


class Buckets:
    """A token bucket for each client: `rate` a second over time, `burst` at once."""

    def __init__(
        self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic, most: int = 4096
    ) -> None:
        self.rate, self.burst, self._clock, self._most = rate, burst, clock, most
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, client: str) -> float:
        """Seconds until the client may come again; 0 admits the request and counts it."""
        now = self._clock()
        level, then = self._levels.pop(client, (self.burst, now))
        level = min(self.burst, level + (now - then) * self.rate)
        admitted = level >= 1
        self._levels[client] = (level - admitted, now)
        if len(self._levels) > self._most:  # forget who has been quiet longest
            self._levels.popitem(last=False)
        return 0.0 if admitted else (1 - level) / self.rate


def limited(receive: Receive, most: int, seconds: float) -> Receive:
    """`receive` that refuses a body of more than `most` bytes, or one that takes longer than `seconds`."""
    deadline = asyncio.get_running_loop().time() + seconds
    size, done = 0, False

    async def read() -> Message:
        nonlocal size, done
        if done:  # what comes after the body is only whether the client is still there
            return await receive()
        message = await _in_time(receive, deadline, seconds)
        size += len(message.get("body", b""))
        done = not message.get("more_body", False)
        if size > most:
            raise HTTPException(413, f"the body is larger than {most:,} bytes", {"Connection": "close"})
        return message

    return read


async def _in_time(receive: Receive, deadline: float, seconds: float) -> Message:
    try:
        async with asyncio.timeout_at(deadline):
            return await receive()
    except TimeoutError as error:
        raise HTTPException(408, f"the body did not arrive within {seconds:g} s", {"Connection": "close"}) from error


async def drain(receive: Receive, seconds: float, most: int) -> None:
    """Read and drop a body that is refused: a client that is still sending would not see the answer otherwise."""
    size = 0
    try:
        async with asyncio.timeout(seconds):
            while size < most:
                message = await receive()
                size += len(message.get("body", b""))
                if not message.get("more_body", False):
                    return
    except TimeoutError:
        return
