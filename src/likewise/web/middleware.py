"""The door of the application: every request is checked, limited, counted, logged and leaves with safe headers."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from likewise.web.limits import Buckets, drain, limited
from likewise.web.metrics import Metrics
from likewise.web.security import HEADERS, Guard
from likewise.web.settings import Settings

__all__ = ["Gate"]

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_OPEN = frozenset({"/healthz", "/login", "/static/login.css"})  # what one sees without the token
UPLOADS = "/api/uploads"
log = logging.getLogger("likewise.web")


class Refusal(Exception):
    """A request that does not come in."""

    def __init__(self, status: int, sentence: str, **headers: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence, self.headers = status, sentence, headers


class Gate:
    """Plain ASGI, because everything passes here."""

    def __init__(self, app: Any, settings: Settings, guard: Guard, metrics: Metrics) -> None:
        self.app, self.guard, self.metrics, self.limits = app, guard, metrics, settings.limits
        self._limited = settings.rate_limited
        self._requests = Buckets(self.limits.rate, self.limits.burst)
        self._uploads = Buckets(self.limits.upload_rate, self.limits.upload_burst)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or say why not."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began = time.perf_counter()
        status = 500
        headers = dict(scope["headers"])

        async def noted(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *HEADERS]
            await send(message)

        self.metrics.in_flight += 1
        try:
            await self._enter(scope, headers, receive, noted)
        finally:
            self.metrics.in_flight -= 1
            self._note(scope, status, time.perf_counter() - began)

    async def _enter(self, scope: Scope, headers: dict[bytes, bytes], receive: Receive, send: Send) -> None:
        try:
            self._check(scope, headers)
        except Refusal as refusal:
            if _has_body(headers):
                await drain(receive, min(5.0, self.limits.body_seconds), 8 * self.limits.upload_bytes)
            await _answer(refusal, send)
            return
        if _has_body(headers):
            receive = limited(receive, self._most(scope["path"]), self.limits.body_seconds)
        await self.app(scope, receive, send)

    def _check(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        path, method = scope["path"], scope["method"]
        if not self.guard.host_known(headers):
            raise Refusal(421, "this server does not answer to that Host")
        if self._limited:
            self._check_rate(scope)
        if path not in _OPEN and not self.guard.authorised(headers):
            self._ask_for_token(path)
        if not self.guard.same_origin(method, headers, form=path == "/login"):
            raise Refusal(403, "the request comes from another site, or as a form; send JSON or a picture")
        if int(headers.get(b"content-length", b"0") or 0) > self._most(path):
            raise Refusal(413, f"the body is larger than {self._most(path):,} bytes", connection="close")

    def _check_rate(self, scope: Scope) -> None:
        client = (scope.get("client") or ("", 0))[0]
        wait = self._requests.wait(client)
        if not wait and scope["path"] == UPLOADS and scope["method"] == "POST":
            wait = self._uploads.wait(client)
        if wait:
            raise Refusal(429, "too many requests; wait a moment", **{"retry-after": str(max(1, round(wait)))})

    def _ask_for_token(self, path: str) -> None:
        if path == "/":
            raise Refusal(303, "", location="/login")
        raise Refusal(401, "this server asks for its token", **{"www-authenticate": "Bearer"})

    def _most(self, path: str) -> int:
        return self.limits.upload_bytes if path == UPLOADS else self.limits.json_bytes

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", "other")
        method = scope["method"] if route != "other" else "ANY"  # a client may send any word as a method
        self.metrics.observe(route, method, status, seconds)
        # A page of pictures is a hundred successful GETs: only what changes something or fails is news.
        level = logging.DEBUG if status < 400 and method == "GET" else logging.INFO
        if log.isEnabledFor(level):
            facts = {"method": scope["method"], "path": scope["path"], "status": status, "ms": round(seconds * 1e3, 2)}
            log.log(level, "request", extra={"facts": {**facts, "client": (scope.get("client") or ("",))[0]}})


def _has_body(headers: dict[bytes, bytes]) -> bool:
    return headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers


async def _answer(refusal: Refusal, send: Send) -> None:
    body = json.dumps({"detail": refusal.sentence}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    headers += [(name.encode(), value.encode()) for name, value in refusal.headers.items()]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
