"""Middleware: every request is counted, checked and limited, and every response carries security headers."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from likewise.serve.access import (
    AccessToken,
    AccessTokenMiddleware,
    AllowedHostMiddleware,
    CrossOriginProtectionMiddleware,
    GateMiddleware,
    LoginThrottle,
    ReadOnlyMiddleware,
    SessionCookieMiddleware,
    client_of,
    is_secure,
    refusal,
)
from likewise.serve.settings import Limits, ServerSettings

UPLOADS, LOGIN = "/api/uploads", "/login"
_CLOSE = {"Connection": "close"}
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_GZIP_FROM = 4096  # bytes; below, compression takes longer than it saves
log = logging.getLogger("likewise.serve")


class Metrics:
    """Counts and times since the server started, in a separate registry."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        labels = ["route", "method", "status"]
        self.requests = Counter("likewise_requests", "Requests answered.", labels, registry=registry)
        self.seconds = Histogram(
            "likewise_request_seconds", "Time to answer.", ["route"], buckets=BUCKETS, registry=registry
        )
        self.in_flight = Gauge("likewise_requests_in_flight", "Requests being answered.", registry=registry)
        started = Gauge("likewise_start_time_seconds", "Start time of the server.", registry=registry)
        started.set_to_current_time()

    def gauge(self, name: str, help_text: str, value: Callable[[], float]) -> None:
        """Show a number that is read when the metrics are requested."""
        Gauge(name, help_text, registry=self.registry).set_function(value)

    def counter(self, name: str, help_text: str, value: Callable[[], float]) -> None:
        """Show a count that is read when the metrics are requested."""

        class Callback(Collector):
            def collect(self) -> Iterator[CounterMetricFamily]:
                yield CounterMetricFamily(name, help_text, value())

        self.registry.register(Callback())


def middleware_for(
    settings: ServerSettings, token: AccessToken, throttle: LoginThrottle, metrics: Metrics
) -> list[Middleware]:
    """The middleware of a server, outermost first."""
    # Only a named proxy is believed who its client is, and whether that client speaks TLS.
    proxies = [Middleware(ProxyHeadersMiddleware, trusted_hosts=list(settings.proxies))] if settings.proxies else []
    guard = Middleware(AccessTokenMiddleware, token=token, throttle=throttle)
    access = [Middleware(SessionCookieMiddleware, secret=settings.secret), guard] if token.required else []
    read_only = [Middleware(ReadOnlyMiddleware)] if settings.workers > 1 else []
    return [
        *proxies,
        Middleware(RequestMetricsMiddleware, metrics=metrics),
        Middleware(SecurityHeadersMiddleware),
        Middleware(HeadMiddleware, limits=settings.limits),
        Middleware(AllowedHostMiddleware, settings=settings),
        *access,
        Middleware(CrossOriginProtectionMiddleware),
        *read_only,
        Middleware(BodyLimitMiddleware, limits=settings.limits),
        Middleware(TextGZipMiddleware, minimum_size=_GZIP_FROM, compresslevel=5),
    ]


class RequestMetricsMiddleware:
    """Counts, times and logs every request, refused ones included."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app, self.metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status = time.perf_counter(), 500

        async def observed(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        with self.metrics.in_flight.track_inprogress():
            try:
                await self.app(scope, receive, observed)
            finally:
                self._record(scope, status, time.perf_counter() - began)

    def _record(self, scope: Scope, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", "other")
        method = scope["method"] if route != "other" else "ANY"  # a client may send any word as a method
        self.metrics.requests.labels(route, method, status).inc()
        self.metrics.seconds.labels(route).observe(seconds)
        # A page of pictures is a hundred successful GETs: by default only changes and failures are logged.
        is_reading = scope["method"] in ("GET", "HEAD") or route == "/api/search"
        level = logging.DEBUG if status < 400 and is_reading else logging.INFO
        level = logging.WARNING if status >= 500 else level
        if log.isEnabledFor(level):
            facts = {"method": scope["method"], "path": scope["path"], "status": status, "ms": round(seconds * 1e3, 2)}
            log.log(level, "request", extra={"facts": {**facts, "client": client_of(scope)}})


class HeadMiddleware(GateMiddleware):
    """Refuses a head that is too large, and one that gives the length of its body in two ways."""

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        super().__init__(app)
        self.limits = limits

    def refusal(self, scope: Scope, headers: Headers) -> Response | None:
        size = len(scope.get("raw_path") or b"") + len(scope["query_string"])
        if size + sum(len(name) + len(value) for name, value in headers.raw) > self.limits.header_bytes:
            return refusal(431, f"the head of the request is larger than {self.limits.header_bytes:,} bytes", _CLOSE)
        if "content-length" in headers and "transfer-encoding" in headers:
            return refusal(400, "the request has both Content-Length and Transfer-Encoding; expected one", _CLOSE)
        return None


class TextGZipMiddleware(GZipMiddleware):
    """Compresses all but sound and film: they are compressed already, and parts of them are requested by range."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_media = scope.get("path", "").endswith("/media")
        await (self.app(scope, receive, send) if is_media else super().__call__(scope, receive, send))


class SecurityHeadersMiddleware:
    """Adds a content security policy and its companions to every response."""

    HEADERS = (
        (
            b"content-security-policy",
            b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; media-src 'self'; "
            b"connect-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
        ),
        (b"x-content-type-options", b"nosniff"),
        (b"x-frame-options", b"DENY"),
        (b"referrer-policy", b"same-origin"),
        (b"cross-origin-resource-policy", b"same-origin"),
        (b"cross-origin-opener-policy", b"same-origin"),
    )

    OVER_TLS = ((b"strict-transport-security", b"max-age=31536000"),)

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Unless a route says otherwise, nothing is cached but the files of the page, which are validated by ETag.
        is_static = scope.get("path", "").startswith("/static/")
        default = (b"cache-control", b"no-cache" if is_static else b"no-store")
        added = (*self.HEADERS, *(self.OVER_TLS if is_secure(scope) else ()))

        async def secured(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = list(message.get("headers", ()))
                is_set = any(name == b"cache-control" for name, _ in headers)
                message["headers"] = [*headers, *added, *(() if is_set else (default,))]
            await send(message)

        await self.app(scope, receive, secured)


class BodyLimitMiddleware:
    """Answers 413 to a body that is too large and 408 to one that takes too long."""

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self.app, self.limits = app, limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope) if scope["type"] == "http" else Headers()
        length = headers.get("content-length", "0")
        if length == "0" and "transfer-encoding" not in headers:
            await self.app(scope, receive, send)
            return
        limits, path = self.limits, scope["path"]
        most = {UPLOADS: limits.upload_bytes, LOGIN: limits.login_bytes}.get(path, limits.json_bytes)
        seconds = limits.login_seconds if path == LOGIN else limits.body_seconds
        if length.isdigit() and int(length) > most:
            await _drain(receive, min(5.0, seconds), 8 * most)
            await refusal(413, _too_large(most), _CLOSE)(scope, receive, send)
        else:
            await self.app(scope, _limited(receive, most, seconds), send)


def _limited(receive: Receive, most: int, seconds: float) -> Receive:
    """`receive` that raises once the body exceeds `most` bytes or takes longer than `seconds`."""
    deadline = asyncio.get_running_loop().time() + seconds
    size, complete = 0, False

    async def read() -> Message:
        nonlocal size, complete
        if complete:  # messages after the body only say whether the client is still connected
            return await receive()
        try:
            async with asyncio.timeout_at(deadline):
                message = await receive()
        except TimeoutError as error:
            late = f"the body did not arrive within {seconds:g} s"
            raise HTTPException(408, late, _CLOSE) from error
        size += len(message.get("body", b""))
        complete = not message.get("more_body", False)
        if size > most:
            raise HTTPException(413, _too_large(most), _CLOSE)
        return message

    return read


async def _drain(receive: Receive, seconds: float, most: int) -> None:
    """Discard a refused body: a client that is still sending would not see the response."""
    size, more = 0, True
    try:
        async with asyncio.timeout(seconds):
            while more and size < most:
                message = await receive()
                size += len(message.get("body", b""))
                more = message.get("more_body", False)
    except TimeoutError:
        return


def _too_large(most: int) -> str:
    return f"the body is larger than {most:,} bytes"
