"""Running the application: the socket, uvicorn, the log, the browser, a clean shutdown."""

import ctypes
import errno
import gc
import json
import logging
import multiprocessing
import os
import signal
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any
from urllib.parse import quote

import uvicorn
from fastapi.responses import JSONResponse, Response
from uvicorn.protocols.http.h11_impl import H11Protocol

from likewise.errors import LikewiseError
from likewise.search.index import BaseIndex
from likewise.serve.access import client_key, refusal
from likewise.serve.app import create_app
from likewise.serve.settings import ServerSettings
from likewise.teach import load_index
from likewise.utils.threads import single_threaded_blas
from likewise.words import TextSide

log = logging.getLogger("likewise.serve")
_SHORT_WAIT = 2.0  # seconds for the head of a request that will be refused


def listening(host: str, port: int) -> socket.socket:
    try:
        family, _, _, _, place = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(place)
        listener.listen(1024)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise LikewiseError(f"port {port} of {host} is in use; choose another with --port") from error
        raise LikewiseError(f"cannot listen on {host} port {port}: {error.strerror or error}") from error
    return listener


def address(settings: ServerSettings, port: int) -> str:
    """The address of the page, including the token."""
    everywhere = ("0.0.0.0", "::")  # nosec B104
    host = settings.host if settings.host not in everywhere else socket.gethostname()
    host = f"[{host}]" if ":" in host and not host.startswith("[") else host
    return f"http://{host}:{port}/" + (f"login?token={quote(settings.token, safe='')}" if settings.token else "")


class JsonFormatter(logging.Formatter):
    """Time, level, event, and whatever the record carries as `facts`."""

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {"time": when, "level": record.levelname.lower(), "event": record.getMessage()}
        line.update(getattr(record, "facts", {}))
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)  # in ASCII: a name may hold characters that command a terminal


def start_logging(level: str = "info") -> None:
    """Send the log of likewise, and uvicorn's warnings, to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    for name, least in (("likewise", level.upper()), ("uvicorn", "WARNING")):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(least)


class BoundedConnection(H11Protocol):
    """A connection that must bring a whole head in time; beyond the places of its client it gets only /healthz.

    Parameters
    ----------
    settings : of the server; connections of a named proxy are of many clients, and limited by the proxy
    options : what uvicorn gives a protocol
    """

    def __init__(self, *, settings: ServerSettings, **options: Any) -> None:
        super().__init__(**options)
        self.settings, self.limits, self.is_beyond = settings, settings.limits, False

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        client, limits = client_key({"client": self.client}), self.limits
        others: Any = self.connections - {self}
        placed = [other for other in others if not other.is_beyond]
        same = sum(client_key({"client": other.client}) == client for other in placed)
        is_full = same >= limits.client_connections and not self.settings.is_proxy((self.client or [""])[0])
        self.is_beyond = is_full or len(placed) >= limits.connections
        if self.is_beyond:
            self.app = _no_place
        if self.is_beyond and len(others) - len(placed) >= limits.client_connections:
            transport.abort()  # files are limited, too
        wait = _SHORT_WAIT if self.is_beyond else limits.header_seconds
        self.timeout_keep_alive_task = self.loop.call_later(wait, self.timeout_keep_alive_handler)

    def data_received(self, data: bytes) -> None:
        """As uvicorn does, but a part of a head does not end the wait for the whole."""
        until = self.timeout_keep_alive_task and self.timeout_keep_alive_task.when()
        super().data_received(data)
        waits = self.cycle is None or self.cycle.response_complete
        if waits and until and self.timeout_keep_alive_task is None and not self.transport.is_closing():
            self.timeout_keep_alive_task = self.loop.call_at(until, self.timeout_keep_alive_handler)


async def _no_place(scope: Any, receive: Any, send: Any) -> None:
    answer: Response = JSONResponse({"status": "ok"})
    if scope["path"] != "/healthz":
        answer = refusal(503, "the server has no place for another connection; try again", {"Retry-After": "2"})
    answer.headers["Connection"] = "close"
    await answer(scope, receive, send)


def server_for(app: Any, settings: ServerSettings) -> uvicorn.Server:
    """A server of the application that waits no longer, and takes no more, than the limits say."""
    limits = settings.limits
    config = uvicorn.Config(
        app,
        # httptools has no limit of headers; a request costs a fifth more this way
        http=partial(BoundedConnection, settings=settings),  # type: ignore[arg-type]
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # the middleware reads those of named proxies
        timeout_keep_alive=limits.idle_seconds,
        timeout_graceful_shutdown=10,
        h11_max_incomplete_event_size=limits.header_bytes,
    )
    server = uvicorn.Server(config)
    if hasattr(app, "state"):
        app.state.stopping = lambda: server.should_exit
    return server


def _give_back_memory() -> None:
    """Have glibc return large blocks to the system when they are freed, instead of keeping the most it ever used."""
    mmap_threshold = -3  # M_MMAP_THRESHOLD of <malloc.h>
    with suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL(None).mallopt(mmap_threshold, 1 << 20)


def serve(
    index: BaseIndex,
    folder: Path,
    settings: ServerSettings,
    browser: bool = True,
    ready: Callable[[str], object] = lambda address: None,
    side: TextSide | None = None,
) -> None:
    """Serve until interrupted; `ready` is called with the address when the socket listens."""
    with listening(settings.host, settings.port) as listener:

        def announce() -> None:
            port = listener.getsockname()[1]
            ready(address(settings, port))
            if browser:
                opener = threading.Timer(0.5, webbrowser.open, [address(settings, port)])
                opener.daemon = True
                opener.start()
            log.info("start", extra={"facts": {"host": settings.host, "port": port, "items": len(index)}})

        if settings.workers > 1:
            _supervise(listener, folder, settings, announce)
        else:
            if hasattr(signal, "SIGHUP") and threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until the event loop takes it
            _answer(listener, index, folder, settings, side, announce)
        log.info("stop")


def _answer(
    listener: socket.socket,
    index: BaseIndex,
    folder: Path,
    settings: ServerSettings,
    side: TextSide | None = None,
    announce: Callable[[], None] = lambda: None,
) -> None:
    """Answer requests in this process."""
    _give_back_memory()
    # One BLAS thread: the products of a search are small, and requests are answered in parallel.
    with single_threaded_blas():
        app = create_app(index, settings, folder, side)
        if app.state.session.has_pictures:
            app.state.session.decoders.start()  # the first page asks for pictures
        server = server_for(app, settings)
        gc.collect()
        gc.freeze()  # the index lives as long as the server: no collection has to walk through it
        announce()
        server.run(sockets=[listener])


# ---------------------------------------------------------------------------------------------------------------------
# Several processes that answer on one socket


def _supervise(listener: socket.socket, folder: Path, settings: ServerSettings, announce: Callable[[], None]) -> None:
    """Run the workers until SIGTERM or Ctrl-C; SIGHUP is passed on, and a worker that ends is replaced."""
    # Not forked: a fork would inherit locks of the threads of BLAS and OpenMP.
    context = multiprocessing.get_context("spawn")
    is_ready = context.Event()
    arguments = (listener, folder, settings, logging.getLogger("likewise").level, is_ready)
    workers: list[Any] = []
    received: list[int] = []

    def start() -> None:
        workers.append(context.Process(target=_work, args=arguments))
        workers[-1].start()

    def pass_on(number: int, frame: Any) -> None:
        for worker in workers:
            if worker.is_alive():
                os.kill(worker.pid, signal.SIGHUP if number == signal.SIGHUP else signal.SIGTERM)
        received.extend([number] if number != signal.SIGHUP else [])

    for _ in range(settings.workers):
        start()
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = {number: signal.signal(number, pass_on) for number in numbers}
    is_announced = False
    while not received:
        wait([worker.sentinel for worker in workers], None if is_announced else 0.1)
        if is_ready.is_set() and not is_announced:
            is_announced = True
            announce()
        for worker in [worker for worker in workers if not worker.is_alive()]:
            if not is_announced and not received:
                pass_on(signal.SIGTERM, None)
                raise LikewiseError(f"a worker ended before it was ready, with code {worker.exitcode}")
            if not received:
                log.error("a worker ended", extra={"facts": {"code": worker.exitcode}})
                workers.remove(worker)
                start()
    for worker in workers:
        worker.terminate()
        worker.join()
    for number, handler in before.items():
        signal.signal(number, handler)
    signal.raise_signal(received[0])


def _work(listener: socket.socket, folder: Path, settings: ServerSettings, level: int, is_ready: Any) -> None:
    """One worker, which ends with its supervisor, however that ends."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    supervisor = multiprocessing.parent_process()
    assert supervisor is not None

    def follow() -> None:
        supervisor.join()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=follow, daemon=True).start()
    start_logging(logging.getLevelName(level))
    with suppress(KeyboardInterrupt):  # of the terminal, as the supervisor has it
        _answer(listener, load_index(folder), folder, settings, announce=is_ready.set)
