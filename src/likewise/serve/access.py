"""Who may come in: the access token and its sessions, the wait after wrong tokens, allowed hosts and origins."""

import hmac
import ipaddress
import math
import re
import secrets
import socket
import time
from collections.abc import Callable, MutableMapping
from typing import Any

from cachetools import TTLCache
from fastapi.responses import JSONResponse, RedirectResponse, Response
from starlette.datastructures import Headers
from starlette.middleware.sessions import SessionMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from likewise.serve.settings import ServerSettings, is_loopback

IDLE_SECONDS = 12 * 3600  # a session ends when it has not been used for so long,
SESSION_SECONDS = 7 * 86400  # and after this time in any case
_RENEW_SECONDS = 3600  # a session in use gets a new cookie once an hour
_FREE_ATTEMPTS = 5  # wrong tokens before a client has to wait
_LONGEST_WAIT = 900.0
_MOST_CLIENTS = 4096


class AccessToken:
    """The token of a server, in the Authorization header or exchanged for a session; without one, all are authorised.

    A session is a name in Starlette's signed cookie. It ends at logout, after a week, and with this process. Where
    several processes answer, the cookie is all they share, and logout deletes it.
    """

    def __init__(self, token: str | None, clock: Callable[[], float] = time.time, is_shared: bool = False) -> None:
        self._token, self._clock, self._is_shared = token, clock, is_shared
        self._sessions: TTLCache[str, bool] = TTLCache(_MOST_CLIENTS, SESSION_SECONDS, clock)

    @property
    def required(self) -> bool:
        return self._token is not None

    def matches(self, text: str) -> bool:
        """Whether this is the token, compared in constant time."""
        return self._token is None or hmac.compare_digest(_bytes(text), _bytes(self._token))

    def begin(self, session: MutableMapping[str, Any]) -> None:
        """Log in: put the name of a new session into the cookie."""
        name = secrets.token_urlsafe(16)
        self._sessions[name] = True
        session.update({"name": name, "began": int(self._clock()), "renewed": int(self._clock())})

    def admits(self, session: MutableMapping[str, Any]) -> bool:
        """Whether a session is valid; one in use is extended."""
        is_known = "name" in session if self._is_shared else session.get("name") in self._sessions
        if not is_known or self._clock() - session["began"] >= SESSION_SECONDS:
            return False
        if self._clock() - session["renewed"] >= _RENEW_SECONDS:
            session["renewed"] = int(self._clock())
        return True

    def end(self, session: MutableMapping[str, Any]) -> None:
        """Log out: the cookie is worth nothing from now on, wherever it has been copied to."""
        self._sessions.pop(session.get("name", ""), None)
        session.clear()


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


class LoginThrottle:
    """Makes a client wait after wrong tokens: five are free, then the wait doubles from one second to 15 minutes."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # Wrong tokens of a client, and until when it has to wait; forgotten an hour after the last one.
        self._failed: TTLCache[str, tuple[int, float]] = TTLCache(_MOST_CLIENTS, 3600, clock)

    def wait(self, client: str) -> float:
        """Seconds until the client may try again."""
        return max(0.0, self._failed.get(client, (0, 0.0))[1] - self._clock())

    def failed(self, client: str) -> None:
        """Count a wrong token."""
        count = self._failed.get(client, (0, 0.0))[0] + 1
        wait = min(2.0 ** min(count - _FREE_ATTEMPTS, 30), _LONGEST_WAIT) if count >= _FREE_ATTEMPTS else 0.0
        self._failed[client] = count, self._clock() + wait

    def succeeded(self, client: str) -> None:
        """Forget the wrong tokens of a client."""
        self._failed.pop(client, None)


# -- middleware --------------------------------------------------------------------------------------------------------


def refusal(status: int, detail: str, headers: dict[str, str] | None = None) -> Response:
    return JSONResponse({"detail": detail}, status, headers)


def too_many_attempts(wait: float) -> Response:
    """The refusal of a client that has sent wrong tokens."""
    seconds = math.ceil(wait)
    return refusal(429, f"too many wrong tokens; try again in {seconds} s", {"Retry-After": str(seconds)})


def is_secure(scope: Scope) -> bool:
    """Whether the client speaks TLS, to this server or to a named proxy."""
    return scope.get("scheme") == "https"


def client_of(scope: Scope) -> str:
    return str((scope.get("client") or ("", 0))[0])


def client_key(scope: Scope) -> str:
    """Whose wrong tokens are counted: an address, of IPv6 the network of 64 bits that one client has to itself."""
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
        response = self.refusal(scope, Headers(scope=scope)) if scope["type"] == "http" else None
        await (response or self.app)(scope, receive, send)

    def refusal(self, scope: Scope, headers: Headers) -> Response | None:
        raise NotImplementedError


class SessionCookieMiddleware:
    """Starlette's sessions; under TLS the name of the cookie binds it to this very host, and it is `Secure`."""

    def __init__(self, app: ASGIApp, secret: str) -> None:
        plain, host = "likewise", "__Host-likewise"
        self.plain = SessionMiddleware(app, secret + plain, plain, IDLE_SECONDS, same_site="strict")
        self.secure = SessionMiddleware(app, secret + host, host, IDLE_SECONDS, same_site="strict", https_only=True)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await (self.secure if is_secure(scope) else self.plain)(scope, receive, send)


class AccessTokenMiddleware(GateMiddleware):
    """Answers 401 without a session or the access token, 429 to guessing; the page redirects to the login form."""

    OPEN = frozenset({"/healthz", "/login", "/favicon.ico", "/static/plain.css", "/static/icon.svg"})

    def __init__(self, app: ASGIApp, token: AccessToken, throttle: LoginThrottle) -> None:
        super().__init__(app)
        self.token, self.throttle = token, throttle

    def refusal(self, scope: Scope, headers: Headers) -> Response | None:
        if scope["path"] in self.OPEN or self.token.admits(scope["session"]):
            return None
        scheme, _, text = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            wait = self.throttle.wait(client_key(scope))
            if wait:
                return too_many_attempts(wait)
            if self.token.matches(text.strip()):
                return None
            self.throttle.failed(client_key(scope))
        if scope["path"] == "/":
            return RedirectResponse("/login", 303)
        return refusal(401, "this server requires its access token", {"WWW-Authenticate": "Bearer"})


class CrossOriginProtectionMiddleware(GateMiddleware):
    """Refuses changes unless they come from this page, or from a program that is not a browser."""

    SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
    FORMS = ("application/x-www-form-urlencoded", "multipart/form-data", "text/plain")  # sent without a preflight

    def refusal(self, scope: Scope, headers: Headers) -> Response | None:
        if scope["method"] in self.SAFE or self._is_same_origin(scope, headers):
            return None
        return refusal(403, "the request comes from another site, or from a form; send JSON or a picture")

    def _is_same_origin(self, scope: Scope, headers: Headers) -> bool:
        origin = headers.get("origin")
        is_form = headers.get("content-type", "").lower().startswith(self.FORMS)
        if is_form and scope["path"] not in ("/login", "/logout"):
            return False
        if origin is not None and origin.partition("://")[2].lower() != headers.get("host", "").lower():
            return False
        return headers.get("sec-fetch-site", "none") in ("same-origin", "none")  # set by the browser


class ReadOnlyMiddleware(GateMiddleware):
    """Refuses what one of several processes would keep to itself, such as marks and uploads."""

    POSTS = frozenset({"/login", "/logout", "/api/search", "/api/lasso", "/api/reload"})

    def refusal(self, scope: Scope, headers: Headers) -> Response | None:
        if scope["method"] in CrossOriginProtectionMiddleware.SAFE or scope["path"] in self.POSTS:
            return None
        return refusal(403, "this server has several workers and is read-only")


class AllowedHostMiddleware(TrustedHostMiddleware):
    """Refuses foreign host names, against DNS rebinding.

    An IP address cannot be rebound: a server for others answers to any, one for this machine to loopback addresses.
    """

    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self._for_others = not is_loopback(settings.host)
        hostname = [socket.gethostname()] if self._for_others else []
        super().__init__(app, ["localhost", settings.host, *hostname, *settings.allowed_hosts], www_redirect=False)

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
    match = re.fullmatch(r"\[([^\]]*)\](?::\d*)?|([^:]*)(?::\d*)?", host.strip().lower())
    return host.strip().lower() if match is None else match[1] or match[2] or ""
