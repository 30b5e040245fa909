"""Who may come in: the Host header against DNS rebinding, the Origin against forged posts, the token."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import socket
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie

from likewise.web.settings import Settings, is_loopback

__all__ = ["COOKIE", "HEADERS", "Guard", "bare_host"]

COOKIE = "likewise"
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
# Content types that a form of a foreign page cannot send without asking first.
_FORMS = ("application/x-www-form-urlencoded", "multipart/form-data", "text/plain")

HEADERS: tuple[tuple[bytes, bytes], ...] = (
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


class Guard:
    """Says why a request is refused, or None."""

    def __init__(self, settings: Settings) -> None:
        self._token = settings.token
        self._open = not is_loopback(settings.host)
        names = {"localhost", settings.host.strip("[]"), *settings.allowed_hosts}
        self._names = {name.lower() for name in (names | ({socket.gethostname()} if self._open else set()))}
        self.session = "" if self._token is None else hmac.new(self._token.encode(), b"session", "sha256").hexdigest()

    def host_known(self, headers: Mapping[bytes, bytes]) -> bool:
        """Only names that cannot have been pointed here by a stranger: our own, and addresses themselves."""
        name = bare_host(headers.get(b"host", b"").decode("latin-1"))
        if name in self._names:
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return self._open or address.is_loopback

    def same_origin(self, method: str, headers: Mapping[bytes, bytes], form: bool = False) -> bool:
        """Whether what changes something comes from our own page, or from a program that is no browser.

        `form` allows a form of our own (the one that asks for the token).
        """
        if method in _SAFE:
            return True
        if headers.get(b"sec-fetch-site", b"same-origin") not in (b"same-origin", b"none"):
            return False
        if not form and headers.get(b"content-type", b"").decode("latin-1").lower().startswith(_FORMS):
            return False
        origin = headers.get(b"origin")
        return origin is None or origin.partition(b"://")[2].lower() == headers.get(b"host", b"").lower()

    def authorised(self, headers: Mapping[bytes, bytes]) -> bool:
        """The token in the Authorization header, or the cookie that the page got for it."""
        if self._token is None:
            return True
        scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
        if scheme.lower() == b"bearer" and self.is_token(given.strip().decode("latin-1")):
            return True
        return _equal(_cookie(headers.get(b"cookie", b"").decode("latin-1")), self.session)

    def is_token(self, given: str) -> bool:
        """Compare in constant time."""
        return self._token is None or _equal(given, self._token)


def bare_host(host: str) -> str:
    """The name without its port, in lower case and without the brackets of IPv6."""
    host = host.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if host.count(":") == 1 else host


def _equal(given: str, expected: str) -> bool:
    digests = (hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest() for text in (given, expected))
    return hmac.compare_digest(*digests)


def _cookie(text: str) -> str:
    try:
        found = SimpleCookie(text).get(COOKIE)
    except CookieError:
        return ""
    return "" if found is None else found.value
