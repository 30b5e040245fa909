"""Middleware: every request is checked and limited, and every response carries security headers."""

import asyncio
import ipaddress
import math
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
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from likewise.serve.access import AccessToken, LoginSession, LoginThrottle
from likewise.serve.monitoring import Metrics, RequestMetricsMiddleware, client_of
from likewise.serve.settings import Limits, ServerSettings, is_loopback

UPLOADS = "/api/uploads"
STEPS = frozenset(
    {
        "/api/marks", "/api/labels", "/api/distinct", "/api/undo", "/api/learn",
        "/api/concepts", "/api/concepts/labels", "/api/concepts/keywords", "/api/concepts/keywords/undo",
    }
)  # fmt: skip
_GZIP_FROM = 4096  # bytes; below, compression takes longer than it saves


def middleware_for(
    settings: ServerSettings, token: AccessToken, throttle: LoginThrottle, metrics: Metrics
) -> list[Middleware]:
    """The middleware of a server, outermost first."""
    limits = settings.limits
    # Only a named proxy is believed who its client is, and whether that client speaks TLS.
    proxies = [Middleware(ProxyHeadersMiddleware, trusted_hosts=list(settings.proxies))] if settings.proxies else []
    rate_limit = [Middleware(RateLimitMiddleware, limits=limits)] if settings.rate_limited else []
    access = [Middleware(AccessTokenMiddleware, token=token, throttle=throttle)] if settings.token else []
    local = [Middleware(UnnamedProxyMiddleware)] if not settings.token else []
    return [
        *proxies,
        Middleware(RequestMetricsMiddleware, metrics=metrics),
        Middleware(SecurityHeadersMiddleware),
        Middleware(AllowedHostMiddleware, settings=settings),
        *local,
        Middleware(BusyMiddleware, most=limits.requests),
        *rate_limit,
        *access,
        Middleware(CrossOriginProtectionMiddleware),
        Middleware(BodyLimitMiddleware, limits=limits),
        Middleware(TextGZipMiddleware, minimum_size=_GZIP_FROM, compresslevel=5),
    ]


class TextGZipMiddleware(GZipMiddleware):
    """Compresses all but sound and film: they are compressed already, and parts of them are asked for by place."""

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
        (b"referrer-policy", b"no-referrer"),
        (b"cross-origin-resource-policy", b"same-origin"),
        (b"cross-origin-opener-policy", b"same-origin"),
    )

    OVER_TLS = ((b"strict-transport-security", b"max-age=31536000"),)

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Unless a route says otherwise, nothing is kept but the files of the page, which are asked for again.
        is_static = scope.get("path", "").startswith("/static/")
        fresh = (b"cache-control", b"no-cache" if is_static else b"no-store")
        added = (*self.HEADERS, *(self.OVER_TLS if is_secure(scope) else ()))

        async def secured(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = list(message.get("headers", ()))
                cached = any(name == b"cache-control" for name, _ in headers)
                message["headers"] = [*headers, *added, *(() if cached else (fresh,))]
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


def is_secure(scope: Scope) -> bool:
    """Whether the client speaks TLS, to us or to a proxy that we believe."""
    return scope.get("scheme") == "https"


def client_key(scope: Scope) -> str:
    """Whom to count requests for: an address, of IPv6 the network of 64 bits that one client has to itself."""
    client = client_of(scope)
    if ":" not in client:
        return client
    try:
        return str(ipaddress.IPv6Network((client.partition("%")[0], 64), strict=False))
    except ValueError:
        return client


class GateMiddleware:
    """Answers a request itself if `refusal` has a response to it."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self.refusal(scope, Headers(scope=scope)) if scope["type"] == "http" else None
        await (refusal or self.app)(scope, receive, send)

    def refusal(self, scope: Scope, headers: Headers) -> Response | None:
        raise NotImplementedError


class UnnamedProxyMiddleware(GateMiddleware):
    """Refuses what a proxy forwards to a server without a token: the world behind it would come in."""

    SIGNS = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")

    def refusal(self, scope: Scope, headers: Headers) -> Response | None:
        if not any(name in headers for name in self.SIGNS):
            return None
        return _refusal(403, "this server is for its own machine, and a proxy forwards to it; name it with --proxy")


class BusyMiddleware:
    """Answers 503 while as many requests as allowed are being answered."""

    def __init__(self, app: ASGIApp, most: int) -> None:
        self.app, self.most, self.running = app, most, 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        if self.running >= self.most:
            busy = _refusal(503, "too many requests at once; wait a moment", {"Retry-After": "1"})
            await busy(scope, receive, send)
            return
        self.running += 1
        try:
            await self.app(scope, receive, send)
        finally:
            self.running -= 1


class RateLimitMiddleware(GateMiddleware):
    """Answers 429 to a client that sends requests or uploads too fast."""

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        super().__init__(app)
        self._requests = RateLimiter(limits.rate, limits.burst)
        self._uploads = RateLimiter(limits.upload_rate, limits.upload_burst)
        self._steps = RateLimiter(limits.teach_rate, limits.teach_burst)

    def refusal(self, scope: Scope, headers: Headers) -> Response | None:
        client = client_key(scope)
        wait = self._requests.wait(client)
        if not wait and scope["method"] == "POST":
            narrower = self._uploads if scope["path"] == UPLOADS else self._steps if scope["path"] in STEPS else None
            wait = 0.0 if narrower is None else narrower.wait(client)
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


class AccessTokenMiddleware:
    """Answers 401 without a session or the access token, 429 to guessing; the page redirects to the login form."""

    OPEN = frozenset({"/healthz", "/login", "/favicon.ico", "/static/login.css", "/static/icon.svg"})

    def __init__(self, app: ASGIApp, token: AccessToken, throttle: LoginThrottle) -> None:
        self.app, self.token, self.throttle = app, token, throttle

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in self.OPEN:
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        session = self.token.session(headers, is_secure(scope))
        if session is not None:
            await self.app(scope, receive, self._renewing(session, is_secure(scope), send))
        else:
            await (self._refusal(scope, headers) or self.app)(scope, receive, send)

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            wait = self.throttle.wait(client_key(scope))
            if wait:
                return too_many_attempts(wait)
            if self.token.matches(given.strip()):
                return None
            self.throttle.failed(client_key(scope))
        if scope["path"] == "/":
            return RedirectResponse("/login", 303)
        return _refusal(401, "this server requires its access token", {"WWW-Authenticate": "Bearer"})

    def _renewing(self, session: LoginSession, secure: bool, send: Send) -> Send:
        """`send` that extends a session in use, unless the response sets the cookie itself, as logout does."""
        renewed = self.token.renewed(session)
        if renewed is None:
            return send
        response = Response()
        self.token.set_cookie(response, renewed, secure)
        cookie = next(pair for pair in response.raw_headers if pair[0] == b"set-cookie")

        async def renewing(message: Message) -> None:
            if message["type"] == "http.response.start":
                present = message.get("headers", ())
                own = any(name == b"set-cookie" for name, _ in present)
                message["headers"] = [*present, *([] if own else [cookie])]
            await send(message)

        return renewing


def too_many_attempts(wait: float) -> Response:
    """The refusal of a client that has sent wrong tokens."""
    seconds = math.ceil(wait)
    return _refusal(429, f"too many wrong tokens; try again in {seconds} s", {"Retry-After": str(seconds)})


class CrossOriginProtectionMiddleware(GateMiddleware):
    """Refuses requests that change something unless they come from our own page or from a program, not a browser."""

    SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
    FORMS = ("application/x-www-form-urlencoded", "multipart/form-data", "text/plain")  # sent without a preflight

    def refusal(self, scope: Scope, headers: Headers) -> Response | None:
        if scope["method"] in self.SAFE or self._same_origin(scope, headers):
            return None
        return _refusal(403, "the request comes from another site, or from a form; send JSON or a picture")

    def _same_origin(self, scope: Scope, headers: Headers) -> bool:
        site, origin = headers.get("sec-fetch-site"), headers.get("origin")
        is_form = headers.get("content-type", "").lower().startswith(self.FORMS)
        if is_form and scope["path"] not in ("/login", "/logout"):
            return False
        if site is not None:  # the browser's own word; a form of a page without referrer has the origin "null"
            return site in ("same-origin", "none")
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
