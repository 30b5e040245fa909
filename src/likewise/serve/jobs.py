"""Background work: searches that arrive together share one product with the gallery; jobs in a thread."""

import asyncio
import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from likewise.errors import LikewiseError
from likewise.search.rank import Space
from likewise.utils.threads import n_cores

log = logging.getLogger("likewise.serve")
Result = TypeVar("Result")
_MOST = 64  # searches that are answered together


class Ranked(NamedTuple):
    """The results of one query, best first: rows, scores, probabilities and the novelty of the query where known."""

    rows: np.ndarray
    scores: np.ndarray
    probabilities: np.ndarray | None
    novelty: float | None


class _Pending(NamedTuple):
    space: Space
    query: int | np.ndarray
    k: int
    result: asyncio.Future[Ranked]


class SearchBatcher:
    """Queue of searches by one item or one raw row; those that arrive together are answered together.

    Any other work on an index runs in the same threads, one for each core: more of them would only take turns.
    """

    def __init__(self) -> None:
        self._queue: list[_Pending] = []
        self._task: asyncio.Task[None] | None = None
        self._threads = ThreadPoolExecutor(n_cores(), "search")

    async def search(self, space: Space, query: int | np.ndarray, k: int) -> Ranked:
        """The k items most similar to an item of the gallery, which is left out, or to a row of raw features."""
        pending = _Pending(space, query, k, asyncio.get_running_loop().create_future())
        self._queue.append(pending)
        if self._task is None:
            self._task = asyncio.create_task(self._work())
        return await pending.result

    async def run(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """The result of `work(*arguments)`."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)

    async def _work(self) -> None:
        while self._queue:
            await asyncio.sleep(0)  # one turn of the loop: requests that are arriving join
            space, kind = self._queue[0].space, type(self._queue[0].query)  # one product answers searches of one kind
            batch = [p for p in self._queue if p.space is space and isinstance(p.query, kind)][:_MOST]
            taken = set(map(id, batch))
            self._queue = [pending for pending in self._queue if id(pending) not in taken]
            queries, ks = [pending.query for pending in batch], [pending.k for pending in batch]
            try:
                results: list[Ranked] | Exception = await self.run(ranked_together, space, queries, ks)
            except Exception as error:  # each of the waiting requests gets it
                results = error
            for place, pending in enumerate(batch):
                if pending.result.done():  # the client has disconnected
                    continue
                if isinstance(results, Exception):
                    pending.result.set_exception(results)
                else:
                    pending.result.set_result(results[place])
        self._task = None

    def close(self) -> None:
        """Finish the running searches and drop the others."""
        self._threads.shutdown(cancel_futures=True)


def ranked_together(space: Space, queries: Sequence[int | np.ndarray], ks: Sequence[int]) -> list[Ranked]:
    """The ks[i] items most similar to queries[i]; all of them are rows of the gallery, or raw rows."""
    example: dict[str, Any] = {"rows" if isinstance(queries[0], int) else "queries": np.array(queries)}
    results = space.index.search(**example, k=max(ks), space=space.kind)
    novelty = [None] * len(ks) if results.novelty is None else results.novelty.tolist()
    return [
        Ranked(one.rows[:n], one.scores[:n], None if one.probabilities is None else one.probabilities[:n], new)
        for one, n, new in zip(results, ks, novelty, strict=True)
    ]


def public_text(text: str, folder: Path | None) -> str:
    """A sentence for clients: the index is named as its folder is, without its place on this machine."""
    if folder is not None:
        for parent in {folder.absolute().parent, folder.resolve().parent} - {Path("/")}:
            text = text.replace(f"{parent}/", "")
    return text.replace(f"{Path.home()}/", "~/")


class Job:
    """One kind of background work: idle, running, done or failed.

    It runs in a daemon thread: Python waits at its end for the threads of an executor, and Ctrl-C would hang until a
    lesson is learned. What a lesson writes is written in one rename, so that nothing is half there.
    """

    def __init__(self, name: str, folder: Path | None = None) -> None:
        self.name, self._folder = name, folder
        self.state = "idle"
        self.error: str | None = None
        self.seconds: float | None = None
        self.count = 0
        self._began, self._closed = 0.0, False
        self._queue: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def start(self, work: Callable[[], object], ended: Callable[[], object] = lambda: None) -> bool:
        """Start the job; False if it is running already. `ended` is called when the job no longer runs."""
        with self._lock:
            if self.state == "running":
                return False
            self.state, self.error, self.seconds, self._began = "running", None, None, time.perf_counter()
        self.submit(partial(self._run, work, ended))
        return True

    def submit(self, work: Callable[[], object]) -> None:
        """Do this after all before it, without a state; a failure will show in the next run."""
        if self._closed:
            raise RuntimeError(f"{self.name} is closed")
        self._queue.put(work)
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name=self.name, daemon=True)
                self._thread.start()

    def _work(self) -> None:
        while (work := self._queue.get()) is not None:
            if not self._closed:
                with suppress(Exception):  # a job reports its own
                    work()

    def _run(self, work: Callable[[], object], ended: Callable[[], object]) -> None:
        state = "failed"
        try:
            work()
            state = "done"
        except LikewiseError as error:
            self.error = public_text(str(error), self._folder)
        except Exception as error:
            if self._closed:  # the process is ending, and with it what the work needs
                return
            log.exception("%s failed", self.name)
            self.error = f"{type(error).__name__}; the log of the server says more"
        self.seconds = time.perf_counter() - self._began
        self.count += 1
        self.state = state
        log.info(f"{self.name} {state}", extra={"facts": {"seconds": round(self.seconds, 3), "error": self.error}})
        ended()

    def describe(self) -> dict[str, Any]:
        running = time.perf_counter() - self._began if self.state == "running" else self.seconds
        return {"state": self.state, "error": self.error, "seconds": running, "count": self.count}

    def wait(self, seconds: float = 30.0) -> None:
        """Wait until nothing is running."""
        finished = threading.Event()
        self.submit(finished.set)
        if not finished.wait(seconds):
            raise TimeoutError(f"{self.name} is still running after {seconds:g} s")

    def close(self) -> None:
        """Drop what waits, without waiting for what is running."""
        self._closed = True
        self._queue.put(None)
