"""Running the application: the socket, uvicorn, slow clients, leaving in good order."""

from __future__ import annotations

import asyncio
import errno
import logging
import secrets
import socket
import threading
import webbrowser
from dataclasses import replace
from pathlib import Path
from typing import Any

import uvicorn

from likewise.errors import LikewiseError
from likewise.web.app import create_app
from likewise.web.settings import Limits, Settings, is_loopback

__all__ = ["address", "listening", "patient", "secured", "serve", "server_for"]

log = logging.getLogger("likewise.web")


def secured(settings: Settings) -> Settings:
    """With a token, if others than this machine can connect."""
    if settings.token or is_loopback(settings.host):
        return settings
    return replace(settings, token=secrets.token_urlsafe(18))


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens, or one sentence on why not."""
    try:
        family, _, _, _, place = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)[0]
        made = socket.socket(family, socket.SOCK_STREAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(place)
        made.listen(1024)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise LikewiseError(f"port {port} of {host} is in use; choose another with --port") from error
        raise LikewiseError(f"cannot listen on {host} port {port}: {error.strerror or error}") from error
    return made


def address(settings: Settings, port: int) -> str:
    """Where a browser finds the page, the token included."""
    host = settings.host if settings.host not in ("0.0.0.0", "::") else socket.gethostname()
    host = f"[{host}]" if ":" in host and not host.startswith("[") else host
    return f"http://{host}:{port}/" + (f"login?token={settings.token}" if settings.token else "")


def server_for(app: Any, limits: Limits) -> uvicorn.Server:
    """uvicorn with our limits and our log."""
    config = uvicorn.Config(
        app,
        http=patient(limits),
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=limits.connections,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=10,
    )
    return uvicorn.Server(config)


def patient(limits: Limits) -> type[asyncio.Protocol]:
    """uvicorn's protocol, patient only so long: it waits for ever for a request's head and for a reader."""
    return type("Patient", (Patience, _protocol()), {"limits": limits})


class Patience(asyncio.Protocol):
    """Before a protocol of uvicorn: closes connections whose client is too slow to ask, or to read the answer."""

    limits: Limits
    loop: asyncio.AbstractEventLoop  # this and the next three are uvicorn's
    transport: asyncio.Transport
    client: tuple[str, int] | None
    cycle: Any
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wait(self.limits.header_seconds)

    def data_received(self, data: bytes) -> None:
        if self._timer is None and not self._answering():  # a new request on an old connection has begun
            self._wait(self.limits.header_seconds)
        super().data_received(data)
        if self._answering():
            self._stop()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._wait(self.limits.write_seconds)

    def resume_writing(self) -> None:
        self._stop()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)

    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _wait(self, seconds: float) -> None:
        self._stop()
        self._timer = self.loop.call_later(seconds, self._give_up)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        log.info("slow client", extra={"facts": {"client": (self.client or ("",))[0]}})
        self._timer = None
        self.transport.abort()


def _protocol() -> Any:
    try:
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

        return HttpToolsProtocol
    except ImportError:
        from uvicorn.protocols.http.h11_impl import H11Protocol

        return H11Protocol


def serve(index: Any, folder: Path, settings: Settings, browser: bool = True, ready: Any = None) -> None:
    """Serve until interrupted; `ready` is called with the address once it is there."""
    from threadpoolctl import threadpool_limits

    settings = secured(settings)
    with listening(settings.host, settings.port) as made, threadpool_limits(1, "blas"):
        where = address(settings, made.getsockname()[1])
        app = create_app(index, settings, folder)
        server = server_for(app, settings.limits)
        if ready is not None:
            ready(where)
        if browser:
            opener = threading.Timer(0.5, webbrowser.open, [where])
            opener.daemon = True
            opener.start()
        log.info("start", extra={"facts": {"host": settings.host, "port": made.getsockname()[1], "items": len(index)}})
        server.run(sockets=[made])
        log.info("stop")
