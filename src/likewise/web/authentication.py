"""The access token: given in the Authorization header, or exchanged for a cookie by the login page."""

from __future__ import annotations

import hashlib
import hmac
from http.cookies import CookieError, SimpleCookie

from starlette.datastructures import Headers

__all__ = ["COOKIE", "AccessToken"]

COOKIE = "likewise"


class AccessToken:
    """Checks the token of a server; without one, every request is authorised."""

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
        return _equal(_cookie(headers.get("cookie", "")), self.cookie)


def _equal(given: str, expected: str) -> bool:
    digests = (hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest() for text in (given, expected))
    return hmac.compare_digest(*digests)


def _cookie(text: str) -> str:
    try:
        found = SimpleCookie(text).get(COOKIE)
    except CookieError:
        return ""
    return "" if found is None else found.value
