"""A short way for the commonest request: `GET /api/search?row=…&k=…` without what FastAPI does for any request.

Three quarters of the time of such a request is the reading and checking of its two numbers. What is written in the
plainest form is answered here; anything else, and anything wrong, goes on to the route of the same address, which gives
the same answer.
"""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, MutableMapping
from types import SimpleNamespace
from typing import Any

from likewise.web.session import Desk, Found

__all__ = ["Quick"]

Scope = MutableMapping[str, Any]
_PLAIN = re.compile(rb"row=(\d{1,10})(?:&k=(\d{1,3}))?(?:&side=learned)?")
_ROUTE = SimpleNamespace(path="/api/search")
_HEADERS = [(b"content-type", b"application/json"), (b"cache-control", b"no-store")]


class Quick:
    """Plain ASGI, behind the gate and before the routes."""

    def __init__(self, app: Any, desk: Desk, batcher: Any, written: Callable[[Desk, Found, str, float], str]) -> None:
        self.app, self.desk, self.batcher, self.written = app, desk, batcher, written

    async def __call__(self, scope: Scope, receive: Any, send: Callable[..., Awaitable[None]]) -> None:
        """Answer, or pass on."""
        asked = self._asked(scope)
        if asked is None:
            await self.app(scope, receive, send)
            return
        began = time.perf_counter()
        space, rows, scores = await self.batcher.search(*asked)
        found = Found(space, rows, scores, self.desk.labels[asked[0]], None)
        body = self.written(self.desk, found, "learned", began).encode()
        scope["route"] = _ROUTE
        headers = [*_HEADERS, (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _asked(self, scope: Scope) -> tuple[int, int] | None:
        """Row and k of a plain search, if it is one."""
        if scope["type"] != "http" or scope["path"] != "/api/search" or scope["method"] != "GET":
            return None
        plain = _PLAIN.fullmatch(scope["query_string"])
        if plain is None:
            return None
        row, k = int(plain[1]), int(plain[2] or 24)
        return (row, k) if row < len(self.desk) and 1 <= k <= 200 else None
