"""Who may come in: the access token, the sessions it is exchanged for, and the wait after wrong ones."""

import hashlib
import hmac
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from cachetools import TTLCache
from starlette.datastructures import Headers
from starlette.responses import Response

IDLE_SECONDS = 12 * 3600  # a session ends when it has not been used for so long,
SESSION_SECONDS = 7 * 86400  # and after this time in any case
_RENEW_SECONDS = 3600  # a session in use gets a new cookie once an hour
_FREE_ATTEMPTS = 5  # wrong tokens before a client has to wait
_LONGEST_WAIT = 900.0
_MOST_CLIENTS = 4096


@dataclass(frozen=True)
class LoginSession:
    """A browser that has logged in; times are seconds since 1970."""

    name: str
    started: int
    expires: int

    def __str__(self) -> str:
        return f"{self.name}.{self.started}.{self.expires}"


class AccessToken:
    """The token of a server, in the Authorization header or exchanged for a session; without one, all are authorised.

    Sessions are signed with a key of this process: they end when it does, when they expire, or at logout.
    """

    def __init__(self, token: str | None, clock: Callable[[], float] = time.time) -> None:
        self._token, self._clock = token, clock
        self._key = secrets.token_bytes(32)
        self._ended: dict[str, int] = {}  # sessions that were logged out, until they would have expired

    @property
    def required(self) -> bool:
        return self._token is not None

    def matches(self, given: str) -> bool:
        """Whether this is the token, compared in constant time."""
        return self._token is None or _equal(given, self._token)

    def session(self, headers: Headers, secure: bool) -> LoginSession | None:
        """The valid session among the cookies of a request; foreign and malformed cookies are ignored."""
        wanted = cookie_name(secure)
        pairs = (part.partition("=") for line in headers.getlist("cookie") for part in line.split(";"))
        found = (self._read(value.strip()) for name, _, value in pairs if name.strip() == wanted)
        return next((session for session in found if session is not None), None)

    def begin(self) -> LoginSession:
        """A new session."""
        now = int(self._clock())
        return LoginSession(secrets.token_urlsafe(16), now, now + IDLE_SECONDS)

    def renewed(self, session: LoginSession) -> LoginSession | None:
        """The session with a later end; None if it is not yet time for that."""
        expires = min(int(self._clock()) + IDLE_SECONDS, session.started + SESSION_SECONDS)
        if expires - session.expires < _RENEW_SECONDS:
            return None
        return LoginSession(session.name, session.started, expires)

    def end(self, session: LoginSession) -> None:
        """Log out: the cookie is worth nothing from now on, wherever it has been copied to."""
        now = self._clock()
        last = session.started + SESSION_SECONDS + IDLE_SECONDS
        self._ended = {**{name: end for name, end in self._ended.items() if end > now}, session.name: last}

    def set_cookie(self, response: Response, session: LoginSession, secure: bool) -> None:
        """Send a session to the browser, out of the reach of scripts and of other sites."""
        seconds = max(0, session.expires - int(self._clock()))
        value = f"{session}.{self._sign(str(session))}"
        response.set_cookie(cookie_name(secure), value, seconds, secure=secure, httponly=True, samesite="strict")

    def _read(self, value: str) -> LoginSession | None:
        text, _, signature = value.rpartition(".")
        if not _equal(signature, self._sign(text)):
            return None
        name, started, expires = text.rsplit(".", 2)
        session = LoginSession(name, int(started), int(expires))
        return session if session.expires > self._clock() and name not in self._ended else None

    def _sign(self, text: str) -> str:
        return hmac.new(self._key, text.encode("utf-8", "surrogateescape"), "sha256").hexdigest()


def cookie_name(secure: bool) -> str:
    """Under TLS the name binds the cookie to this very host."""
    return "__Host-likewise" if secure else "likewise"


def _equal(given: str, expected: str) -> bool:
    digests = (hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest() for text in (given, expected))
    return hmac.compare_digest(*digests)


class LoginThrottle:
    """Makes a client wait after wrong tokens: five are free, then the wait doubles from one second to 15 minutes."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # Wrong tokens of a client, and until when it has to wait; forgotten an hour after the last one.
        self._failed: TTLCache[str, tuple[int, float]] = TTLCache(_MOST_CLIENTS, 3600, clock)
        self._lock = threading.Lock()

    def wait(self, client: str) -> float:
        """Seconds until the client may try again."""
        with self._lock:
            return max(0.0, self._failed.get(client, (0, 0.0))[1] - self._clock())

    def failed(self, client: str) -> None:
        """Count a wrong token."""
        with self._lock:
            count = self._failed.get(client, (0, 0.0))[0] + 1
            wait = min(2.0 ** min(count - _FREE_ATTEMPTS, 30), _LONGEST_WAIT) if count >= _FREE_ATTEMPTS else 0.0
            self._failed[client] = count, self._clock() + wait

    def succeeded(self, client: str) -> None:
        """Forget the wrong tokens of a client."""
        with self._lock:
            self._failed.pop(client, None)
