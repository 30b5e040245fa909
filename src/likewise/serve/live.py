"""A server whose index is replaced while it serves: a request sees one version, from its beginning to its end."""

import asyncio
import gc
import logging
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from likewise.errors import LikewiseError
from likewise.search.index import BaseIndex
from likewise.search.storage import INDEX
from likewise.serve.access import refusal
from likewise.teach import load_index
from likewise.teach.taught_index import untaught

log = logging.getLogger("likewise.serve")
_PULSE = 1.0  # seconds between two looks at the folder
_VERSION = "x-likewise-version"  # of the index that a page shows, whose row numbers it sends


class OneVersionMiddleware:
    """`request.app.state` is the state of the version that was served when the request came."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        state = scope["app"].state
        if Headers(scope=scope).get(_VERSION, state.version) != state.version:
            await refusal(409, "the index was replaced: reload the page")(scope, receive, send)
            return
        scope["app"] = SimpleNamespace(state=state)
        state.in_flight += 1
        try:
            await self.app(scope, receive, send)
        finally:
            state.in_flight -= 1
            if state.retired and not state.in_flight:
                await asyncio.to_thread(_close, state)


class Live:
    """The versions of an index that a server has read, one after the other.

    Parameters
    ----------
    app : the application, whose `state` is that of the version that is served
    folder : the folder of the index; None for one that is in memory alone
    state_of : makes the state of another version from its index
    """

    def __init__(self, app: Any, folder: Path | None, state_of: Callable[[BaseIndex], Any]) -> None:
        self.app, self.folder, self._state_of = app, folder, state_of
        self.problem: str | None = None  # why the newest version is not served
        self.count = 0
        self._asked, self._refused = asyncio.Event(), ""
        self._lock = asyncio.Lock()

    async def follow(self) -> None:
        """Take over new versions as they come, and on SIGHUP."""
        with suppress(NotImplementedError, RuntimeError, ValueError, AttributeError):  # not in a thread, nor on Windows
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._asked.set)
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._asked.wait(), _PULSE)
            with suppress(LikewiseError):  # it is in the log
                await self.reload(again=self._asked.is_set())
            self._asked.clear()

    async def reload(self, again: bool = True) -> bool:
        """Serve the version in the folder; False if it is served already.

        A version that cannot be read raises, and is not tried again unless `again` is set; the one before is served.
        """
        async with self._lock:
            self.app.state.teaching.feedback.check_folder()  # another index in its place is not a new version of it
            current = None if self.folder is None else INDEX.current(self.folder)
            if (
                current is None
                or current.name == self.app.state.version
                or (current.name == self._refused and not again)
            ):
                return False
            try:
                state = await asyncio.to_thread(lambda: self._state_of(load_index(self.folder)))  # type: ignore[arg-type]
            except (LikewiseError, OSError) as error:
                self._refused, self.problem = current.name, str(error)
                log.error("a new version of the index is not served", extra={"facts": {"error": str(error)}})
                raise LikewiseError(f"the new version is not served, the one before is: {error}") from error
            before, self.app.state = self.app.state, state
            self.problem, self.count, before.retired = None, self.count + 1, True
            log.info("reload", extra={"facts": {"version": state.version, "items": len(state.session)}})
        if not before.in_flight:
            await asyncio.to_thread(_close, before)
        return True


def version_of(index: BaseIndex, folder: Path | None) -> str:
    """The name of the version that an index was loaded from; of one that was not loaded, the current one."""
    hold = untaught(index).hold
    current = None if folder is None else INDEX.current(folder)
    return hold.version.name if hold is not None else "" if current is None else current.name


def close_jobs(state: Any) -> None:
    """End the background work of a version."""
    for job in (*(drawn.job for drawn in state.maps.values()), state.duplicates.job, state.concepts.job):
        job.close()
    state.teaching.close()


def _close(state: Any) -> None:
    """Drop a version after its last request; what was there at the start of the server is frozen."""
    close_jobs(state)
    gc.unfreeze()
    gc.collect()
    gc.freeze()
