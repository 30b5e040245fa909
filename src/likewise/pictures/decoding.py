"""Decoding in worker processes: slow, huge or hostile pictures are stopped there, and the process is replaced.

Memory and computing time are limited where the system can do that (Linux; macOS in part), elapsed time everywhere.
"""

import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import nullcontext, suppress
from ctypes import CDLL
from dataclasses import dataclass
from functools import cache
from multiprocessing.context import SpawnContext, SpawnProcess
from types import ModuleType
from typing import Any, Self
from weakref import finalize

import numpy as np
import psutil
from filelock import FileLock
from pebble import ProcessExpired, ProcessPool

from likewise.errors import LikewiseError
from likewise.pictures import images
from likewise.pictures.images import MAX_PIXELS, ImageError, ImageTooCostlyError, encode_jpeg, load_image, open_image
from likewise.utils.files import os_errors

_PATIENCE = 6  # times the seconds of computing: on a busy machine, or behind another large picture, they take longer
_LARGE = 8_000_000  # pixels; larger pictures are decoded one at a time


@dataclass(frozen=True)
class DecoderLimits:
    """Memory in bytes and seconds of computing for one picture."""

    memory: int = 2 * 2**30
    seconds: int = 20


@dataclass(frozen=True)
class Decoded:
    """Pixels or the bytes of a JPEG, and the width and height of the picture itself."""

    content: Any
    size: tuple[int, int]


class DecodersClosedError(LikewiseError):
    """The processes have been closed."""


class Decoders:
    """A fixed number of decoding processes, started when first needed; to be closed, or used in a `with` block."""

    def __init__(self, n: int, limits: DecoderLimits | None = None) -> None:
        self.limits = limits or DecoderLimits()
        self._n, self._closed = n, False
        with os_errors("cannot create a temporary folder"):
            self._folder = tempfile.TemporaryDirectory(prefix="likewise-", ignore_cleanup_errors=True)
        self._lock = os.path.join(self._folder.name, "lock")  # held by the process that decodes a large picture
        self._starting = threading.Lock()
        self._pool: ProcessPool | None = None
        self._pending: set[Future[Decoded]] = set()

    def pixels(
        self, data: bytes, at_least: int | None = None, max_pixels: int = MAX_PIXELS, reduced: bool = False
    ) -> Decoded:
        """Decode a picture as `load_image` does, or if `reduced` as `load_reduced` does."""
        return self._run(_pixels, data, max_pixels, at_least, reduced)

    def load(self, data: bytes, at_least: int | None, max_pixels: int) -> np.ndarray:
        """Pixels as by `load_image`: in this process if that is certainly cheap, which saves a millisecond."""
        if images.is_cheap(data):
            return load_image(data, at_least, max_pixels)
        return np.asarray(self.pixels(data, at_least, max_pixels).content)

    def thumbnail(self, path: str | os.PathLike[str], longest: int, max_pixels: int = MAX_PIXELS) -> bytes:
        """The picture in a file as JPEG of at most `longest` pixels on its longer side."""
        return bytes(self._run(_thumbnail, os.fspath(path), max_pixels, longest).content)

    def start(self) -> None:
        """Start the processes before they are needed, so that the first picture does not wait for them."""
        self._running()

    def close(self) -> None:
        """End the processes; requests that are waiting for them raise `DecodersClosedError`."""
        with self._starting:  # a second caller waits until the processes have ended
            self._closed = True
            for future in list(self._pending):
                future.cancel()
            pool, self._pool = self._pool, None
            _end(pool)
        self._folder.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, decode: Callable[..., Decoded], source: Any, max_pixels: int, *options: Any) -> Decoded:
        seconds = self.limits.seconds
        arguments = (decode, source, max_pixels, options, seconds, self._lock)
        try:
            try:
                return self._result(arguments)
            except BrokenProcessPool:  # an idle process has died, which is not the fault of this picture
                return self._result(arguments)
        except MemoryError as error:
            limit = self.limits.memory // 2**20
            raise ImageTooCostlyError(f"needs more than {limit} MB of memory to decode") from error
        except TimeoutError as error:
            raise ImageTooCostlyError(f"takes longer than {_PATIENCE * seconds} s to decode") from error
        except (ProcessExpired, BrokenProcessPool) as error:
            if sys.platform != "win32" and getattr(error, "exitcode", 0) == -signal.SIGXCPU:
                raise ImageTooCostlyError(f"takes longer than {seconds} s to decode") from error
            raise ImageTooCostlyError("stops the process that decodes it") from error
        except CancelledError as error:
            raise DecodersClosedError("the server is stopping") from error

    def _result(self, arguments: tuple[Any, ...]) -> Decoded:
        pool = self._running()
        try:
            future: Future[Decoded] = pool.schedule(_answer, arguments, timeout=_PATIENCE * self.limits.seconds)
        except RuntimeError as error:  # it broke or was closed since
            raise CancelledError if self._closed else BrokenProcessPool(str(error)) from error
        self._pending.add(future)
        try:
            if self._closed:
                future.cancel()
            while not wait({future}, 1).done:  # a pool that breaks may forget what has just been scheduled
                if not pool.active:
                    raise BrokenProcessPool
            return future.result()
        finally:
            self._pending.discard(future)

    def _running(self) -> ProcessPool:
        """The pool, with its processes started; a new one if it broke."""
        with self._starting:
            if self._closed:
                raise DecodersClosedError("the server is stopping")
            if self._pool is None or not self._pool.active:
                _end(self._pool)
                self._pool = ProcessPool(self._n, 0, _prepare, (self.limits.memory,), _Context())
                _ = self._pool.active  # starts the processes
            return self._pool


class LimitedExtractor:
    """A saved extractor that runs in a process with limits of memory and time, since its model is not known here."""

    def __init__(self, path: str | os.PathLike[str], limits: DecoderLimits | None = None) -> None:
        self._path, self._limits = os.fspath(path), limits or DecoderLimits(4 * 2**30, 60)
        self._pool: ProcessPool | None = None
        self._lock = threading.Lock()

    def transform(self, X: Any) -> np.ndarray:
        """Features of images."""
        return np.asarray(self._run("transform", X))

    def at_least(self) -> int | None:
        """Smallest side in pixels that a large JPEG may be decoded to."""
        side: int | None = self._run("at_least")
        return side

    def _run(self, name: str, *arguments: Any) -> Any:
        seconds = self._limits.seconds
        with self._lock:
            if self._pool is None or not self._pool.active:
                _end(self._pool)
                self._pool = ProcessPool(1, 0, _prepare, (self._limits.memory,), _Context())
                finalize(self, _end, self._pool)
            future = self._pool.schedule(_extracted, (self._path, name, arguments, seconds), timeout=2 * seconds)
        try:
            return future.result()
        except (TimeoutError, MemoryError, ProcessExpired, BrokenProcessPool) as error:
            limit = f"{self._limits.memory >> 20} MB and {seconds} s of computing"
            raise LikewiseError(f"the extractor of the index takes more than {limit}: it was stopped") from error


class _Process(SpawnProcess):
    """A new interpreter that does not import the main module again: a script needs no `if __name__ == "__main__"`."""

    @staticmethod
    def _Popen(process_obj: Any) -> Any:
        main = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")  # has no file, so that the new process looks for none
        try:
            return SpawnProcess._Popen(process_obj)
        finally:
            sys.modules["__main__"] = main


class _Context(SpawnContext):
    Process = _Process


def _end(pool: ProcessPool | None) -> None:
    if pool is not None:
        pool.stop()  # type: ignore[no-untyped-call]
        pool.join()


# -- In the worker processes -------------------------------------------------------------------------------------------


def _prepare(n_bytes: int) -> None:
    """Set the limits of a worker process."""
    if hasattr(os, "nice"):
        os.nice(5)  # lower priority than interactive work
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # decoders write remarks on odd files
    with suppress(AttributeError, OSError, TypeError):
        # glibc gives large blocks back at once, instead of raising this threshold (M_MMAP_THRESHOLD) as it goes.
        CDLL(None).mallopt(-3, 1 << 20)
    load_image(encode_jpeg(np.zeros((8, 8, 3), np.uint8), 8))  # loads all readers before memory is limited
    with suppress(ImportError, OSError, ValueError):
        import resource

        most = psutil.Process().memory_info().vms + n_bytes
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _limit_time(seconds: int) -> None:
    """The system ends this process after so many seconds of computing from now on."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        spent = resource.getrusage(resource.RUSAGE_SELF)
        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (int(spent.ru_utime + spent.ru_stime) + seconds + 1, hard))


def _extracted(path: str, name: str, arguments: tuple[Any, ...], seconds: int) -> Any:
    """The result of a method of the extractor in a file."""
    _limit_time(seconds)
    return getattr(_extractor(path), name)(*arguments)


@cache
def _extractor(path: str) -> Any:
    from likewise.pictures.base import load_extractor

    return load_extractor(path, trust=True)


def _answer(
    decode: Callable[..., Decoded], source: Any, max_pixels: int, options: tuple[Any, ...], seconds: int, lock: str
) -> Decoded:
    _limit_time(seconds)
    data = source if isinstance(source, bytes) else images.read_file(source)
    if not data:
        raise ImageError("the file is empty", "empty")
    with FileLock(lock) if _is_large(data, max_pixels) else nullcontext():  # one large picture in all processes
        try:
            return decode(data, max_pixels, *options)
        except Exception as error:  # its frames hold the pixels, and the pool keeps the last error of a process
            error.__context__ = None
            raise error.with_traceback(None) from None


def _is_large(data: bytes, max_pixels: int) -> bool:
    try:
        with open_image(data, max_pixels) as image:
            return bool(image.width * image.height > _LARGE)
    except MemoryError:
        raise
    except Exception:  # decoding will say what is wrong with it
        return False


def _pixels(data: bytes, max_pixels: int, at_least: int | None, reduced: bool) -> Decoded:
    if reduced:
        return Decoded(*images.load_reduced(data, at_least or 1, max_pixels))
    pixels = load_image(data, at_least, max_pixels)
    return Decoded(pixels, (pixels.shape[1], pixels.shape[0]))


def _thumbnail(data: bytes, max_pixels: int, longest: int) -> Decoded:
    pixels, size = images.load_reduced(data, longest, max_pixels)
    return Decoded(encode_jpeg(pixels, longest), size)
