"""Background jobs: one of a kind at a time, each kind in a thread of its own."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from likewise.errors import LikewiseError

__all__ = ["Job"]

log = logging.getLogger("likewise.web")


class Job:
    """One kind of background work: idle, running, done or failed."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.state = "idle"
        self.error: str | None = None
        self.seconds: float | None = None
        self.count = 0
        self._began = 0.0
        self._thread = ThreadPoolExecutor(1, name)
        self._lock = threading.Lock()

    def start(self, work: Callable[[], object]) -> bool:
        """Start the job; False if it is running already."""
        with self._lock:
            if self.state == "running":
                return False
            self.state, self.error, self.seconds, self._began = "running", None, None, time.perf_counter()
        self._thread.submit(self._run, work)
        return True

    def submit(self, work: Callable[[], object]) -> None:
        """Prepare the next run in the same thread, without a state of its own; a failure will show in that run."""
        self._thread.submit(work)

    def _run(self, work: Callable[[], object]) -> None:
        state = "failed"
        try:
            work()
            state = "done"
        except LikewiseError as error:
            self.error = str(error)
        except Exception as error:
            log.exception("%s failed", self.name)
            self.error = f"{type(error).__name__}: {error}"
        self.seconds = time.perf_counter() - self._began
        self.count += 1
        self.state = state
        log.info(f"{self.name} {state}", extra={"facts": {"seconds": round(self.seconds, 3), "error": self.error}})

    def describe(self) -> dict[str, Any]:
        """State, error, seconds and number of runs."""
        running = time.perf_counter() - self._began if self.state == "running" else self.seconds
        return {"state": self.state, "error": self.error, "seconds": running, "count": self.count}

    def wait(self, seconds: float = 30.0) -> None:
        """Wait until nothing is running."""
        self._thread.submit(lambda: None).result(seconds)

    def close(self) -> None:
        """Start nothing more, without waiting for a running job."""
        self._thread.shutdown(wait=False, cancel_futures=True)
