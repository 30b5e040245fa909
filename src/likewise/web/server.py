"""Running the application: the socket, uvicorn, the browser, a clean shutdown."""

import errno
import gc
import logging
import secrets
import socket
import threading
import webbrowser
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import uvicorn

from likewise.errors import LikewiseError
from likewise.retrieval import Index
from likewise.utils.threads import blas_controller
from likewise.web.app import create_app
from likewise.web.settings import Limits, ServerSettings, is_loopback

log = logging.getLogger("likewise.web")


def secured(settings: ServerSettings) -> ServerSettings:
    """The settings with a token, if other machines can connect."""
    if settings.token or is_loopback(settings.host):
        return settings
    return replace(settings, token=secrets.token_urlsafe(18))


def listening(host: str, port: int) -> socket.socket:
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


def address(settings: ServerSettings, port: int) -> str:
    """The address of the page, including the token."""
    host = settings.host if settings.host not in ("0.0.0.0", "::") else socket.gethostname()
    host = f"[{host}]" if ":" in host and not host.startswith("[") else host
    return f"http://{host}:{port}/" + (f"login?token={settings.token}" if settings.token else "")


def server_for(app: Any, limits: Limits) -> uvicorn.Server:
    config = uvicorn.Config(
        app,
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=limits.connections,
        timeout_keep_alive=limits.idle_seconds,
        timeout_graceful_shutdown=10,
        h11_max_incomplete_event_size=16 * 2**10,  # of the headers, where httptools is not installed
    )
    return uvicorn.Server(config)


def serve(
    index: Index,
    folder: Path,
    settings: ServerSettings,
    browser: bool = True,
    ready: Callable[[str], object] = lambda address: None,
) -> None:
    """Serve until interrupted; `ready` is called with the address when the socket listens."""
    settings = secured(settings)
    # One BLAS thread: the products of a search are small, and requests are answered in parallel.
    one_thread = blas_controller().limit(limits=1, user_api="blas")
    with listening(settings.host, settings.port) as made, one_thread:
        port = made.getsockname()[1]
        server = server_for(create_app(index, settings, folder), settings.limits)
        gc.collect()
        gc.freeze()  # the index lives as long as the server: no collection has to walk through it
        ready(address(settings, port))
        if browser:
            opener = threading.Timer(0.5, webbrowser.open, [address(settings, port)])
            opener.daemon = True
            opener.start()
        log.info("start", extra={"facts": {"host": settings.host, "port": port, "items": len(index)}})
        server.run(sockets=[made])
        log.info("stop")
