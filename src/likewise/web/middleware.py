"""Middleware: every request is checked and limited, and every response carries security headers."""

import asyncio
import hashlib
import hmac
import ipaddress
import socket
import time
from collections.abc import Callable

from cachetools import LRUCache
from fastapi.responses import JSONResponse, RedirectResponse, Response
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import cookie_parser
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from likewise.web.monitoring import Metrics, RequestMetricsMiddleware, client_of
from likewise.web.settings import Limits, ServerSettings, is_loopback

COOKIE = "likewise"
UPLOADS = "/api/uploads"
_GZIP_FROM = 4096  # bytes; below, compression takes longer than it saves


def middleware_for(settings: ServerSettings, token: "AccessToken", metrics: Metrics) -> list[Middleware]:
    """The middleware of a server, outermost first."""
    limits = settings.limits
    rate_limit = [Middleware(RateLimitMiddleware, limits=limits)] if settings.rate_limited else []
    access = [Middleware(AccessTokenMiddleware, token=token)] if settings.token else []
    return [
        Middleware(RequestMetricsMiddleware, metrics=metrics),
        Middleware(SecurityHeadersMiddleware),
        Middleware(AllowedHostMiddleware, settings=settings),
        *rate_limit,
        *access,
        Middleware(CrossOriginProtectionMiddleware),
        Middleware(BodyLimitMiddleware, limits=limits),
        Middleware(GZipMiddleware, minimum_size=_GZIP_FROM, compresslevel=5),
    ]


class SecurityHeadersMiddleware:
    """Adds a content security policy and its companions to every response."""

    HEADERS = (
        (
            b"content-security-policy",
            b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
            b"manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
        ),
        (b"x-content-type-options", b"nosniff"),
        (b"x-frame-options", b"DENY"),
        (b"referrer-policy", b"no-referrer"),
        (b"cross-origin-resource-policy", b"same-origin"),
        (b"cross-origin-opener-policy", b"same-origin"),
    )

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def secured(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *self.HEADERS]
            await send(message)

        await self.app(scope, receive, secured)


class AllowedHostMiddleware(TrustedHostMiddleware):
    """Refuses foreign host names, against DNS rebinding.

    An IP address cannot be rebound: a server for others answers to any, one for this machine to loopback addresses.
    """

    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self._for_others = not is_loopback(settings.host)
        own = [socket.gethostname()] if self._for_others else []
        super().__init__(app, ["localhost", settings.host, *own, *settings.allowed_hosts], www_redirect=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and self._is_allowed_address(Headers(scope=scope).get("host", "")):
            await self.app(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)

    def _is_allowed_address(self, host: str) -> bool:
        try:
            address = ipaddress.ip_address(bare_host(host))
        except ValueError:
            return False
        return self._for_others or address.is_loopback


def bare_host(host: str) -> str:
    """The name without its port, in lower case and without the brackets of IPv6."""
    host = host.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if host.count(":") == 1 else host


class GateMiddleware:
    """Answers a request itself if `refusal` has a response to it."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self.refusal(scope, Headers(scope=scope)) if scope["type"] == "http" else None
        await (refusal or self.app)(scope, receive, send)

    def refusal(self, scope: Scope, headers: Headers) -> Response | None:
        raise NotImplementedError


class RateLimitMiddleware(GateMiddleware):
    """Answers 429 to a client that sends requests or uploads too fast."""

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        super().__init__(app)
        self._requests = RateLimiter(limits.rate, limits.burst)
        self._uploads = RateLimiter(limits.upload_rate, limits.upload_burst)

    def refusal(self, scope: Scope, headers: Headers) -> Response | None:
        wait = self._requests.wait(client_of(scope))
        if not wait and scope["path"] == UPLOADS and scope["method"] == "POST":
            wait = self._uploads.wait(client_of(scope))
        retry = {"Retry-After": str(max(1, round(wait)))}
        return _refusal(429, "too many requests; wait a moment", retry) if wait else None


class RateLimiter:
    """A token bucket per client: `rate` requests per second sustained, `burst` at once."""

    def __init__(
        self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic, most: int = 4096
    ) -> None:
        self.rate, self.burst, self._clock = rate, burst, clock
        self._levels: LRUCache[str, tuple[float, float]] = LRUCache(most)  # forgets the client that was quiet longest

    def wait(self, client: str) -> float:
        """Seconds until the client may send its next request; 0 admits this one and counts it."""
        now = self._clock()
        level, then = self._levels.get(client, (self.burst, now))
        level = min(self.burst, level + (now - then) * self.rate)
        admitted = level >= 1
        self._levels[client] = (level - admitted, now)
        return 0.0 if admitted else (1 - level) / self.rate


class AccessToken:
    """The token of a server, in the Authorization header or exchanged for a cookie; without one, all are authorised."""

    def __init__(self, token: str | None) -> None:
        self._token = token
        self.cookie = "" if token is None else hmac.new(token.encode(), b"session", "sha256").hexdigest()

    def matches(self, given: str) -> bool:
        """Whether this is the token, compared in constant time."""
        return self._token is None or _equal(given, self._token)

    def authorises(self, headers: Headers) -> bool:
        """Whether a request carries the token or the cookie."""
        if self._token is None:
            return True
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self.matches(given.strip()):
            return True
        return _equal(cookie_parser(headers.get("cookie", "")).get(COOKIE, ""), self.cookie)


def _equal(given: str, expected: str) -> bool:
    digests = (hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest() for text in (given, expected))
    return hmac.compare_digest(*digests)


class AccessTokenMiddleware(GateMiddleware):
    """Answers 401 without the access token; the page itself redirects to the login form."""

    OPEN = frozenset({"/healthz", "/login", "/static/login.css"})

    def __init__(self, app: ASGIApp, token: AccessToken) -> None:
        super().__init__(app)
        self.token = token

    def refusal(self, scope: Scope, headers: Headers) -> Response | None:
        if scope["path"] in self.OPEN or self.token.authorises(headers):
            return None
        if scope["path"] == "/":
            return RedirectResponse("/login", 303)
        return _refusal(401, "this server requires its access token", {"WWW-Authenticate": "Bearer"})


class CrossOriginProtectionMiddleware(GateMiddleware):
    """Refuses requests that change something unless they come from our own page or from a program, not a browser."""

    SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
    FORMS = ("application/x-www-form-urlencoded", "multipart/form-data", "text/plain")  # sent without a preflight

    def refusal(self, scope: Scope, headers: Headers) -> Response | None:
        if scope["method"] in self.SAFE or self._same_origin(scope, headers):
            return None
        return _refusal(403, "the request comes from another site, or from a form; send JSON or a picture")

    def _same_origin(self, scope: Scope, headers: Headers) -> bool:
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return False
        is_form = headers.get("content-type", "").lower().startswith(self.FORMS)
        if is_form and scope["path"] != "/login":
            return False
        origin = headers.get("origin")
        return origin is None or origin.partition("://")[2].lower() == headers.get("host", "").lower()


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
        most = self.limits.upload_bytes if scope["path"] == UPLOADS else self.limits.json_bytes
        if length.isdigit() and int(length) > most:
            await _drain(receive, min(5.0, self.limits.body_seconds), 8 * self.limits.upload_bytes)
            await _refusal(413, _too_large(most), {"Connection": "close"})(scope, receive, send)
        else:
            await self.app(scope, _limited(receive, most, self.limits.body_seconds), send)


def _limited(receive: Receive, most: int, seconds: float) -> Receive:
    """`receive` that raises once the body exceeds `most` bytes or takes longer than `seconds`."""
    deadline = asyncio.get_running_loop().time() + seconds
    size, complete = 0, False

    async def read() -> Message:
        nonlocal size, complete
        if complete:  # what follows the body only tells whether the client is still connected
            return await receive()
        try:
            async with asyncio.timeout_at(deadline):
                message = await receive()
        except TimeoutError as error:
            late = f"the body did not arrive within {seconds:g} s"
            raise HTTPException(408, late, {"Connection": "close"}) from error
        size += len(message.get("body", b""))
        complete = not message.get("more_body", False)
        if size > most:
            raise HTTPException(413, _too_large(most), {"Connection": "close"})
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


def _refusal(status: int, detail: str, headers: dict[str, str] | None = None) -> Response:
    return JSONResponse({"detail": detail}, status, headers)
