"""Work that goes on while others are served: one job of a kind at a time, each in its own thread."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from likewise.errors import LikewiseError

__all__ = ["Job"]

log = logging.getLogger("likewise.web")


class Job:
    """One kind of work in the background: idle, running, done or failed."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.state = "idle"
        self.error: str | None = None
        self.seconds: float | None = None
        self.result: Any = None
        self.count = 0
        self._began = 0.0
        self._thread = ThreadPoolExecutor(1, name)
        self._lock = threading.Lock()

    def start(self, work: Callable[[], Any]) -> bool:
        """Begin, unless it is still running; says whether it began."""
        with self._lock:
            if self.state == "running":
                return False
            self.state, self.error, self.seconds, self._began = "running", None, None, time.perf_counter()
        self._thread.submit(self._run, work)
        return True

    def ahead(self, work: Callable[[], Any]) -> None:
        """Do something that the next job will need, unseen; if it fails the job itself will say so."""
        self._thread.submit(work)

    def _run(self, work: Callable[[], Any]) -> None:
        try:
            self.result, self.error, state = work(), None, "done"
        except LikewiseError as error:
            self.error, state = str(error), "failed"
        except Exception as error:
            log.exception("%s failed", self.name)
            self.error, state = f"{type(error).__name__}: {error}", "failed"
        self.seconds = time.perf_counter() - self._began
        self.count += 1
        self.state = state
        log.info(f"{self.name} {state}", extra={"facts": {"seconds": round(self.seconds, 3), "error": self.error}})

    def describe(self) -> dict[str, Any]:
        """What the page shows of it."""
        running = time.perf_counter() - self._began if self.state == "running" else self.seconds
        return {"state": self.state, "error": self.error, "seconds": running, "count": self.count}

    def settle(self, seconds: float = 30.0) -> None:
        """Wait until nothing is running; for tests and for leaving."""
        done: Future[None] = self._thread.submit(lambda: None)
        done.result(seconds)

    def close(self) -> None:
        """Start nothing more; what is running is not waited for."""
        self._thread.shutdown(wait=False, cancel_futures=True)
