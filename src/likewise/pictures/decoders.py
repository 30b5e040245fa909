"""Decoding in processes of their own: what is slow, huge or hostile is stopped there, and the process replaced."""

import fcntl
import json
import os
import queue
import select
import signal
import subprocess  # starts our own interpreter  # nosec B404
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from likewise.errors import LikewiseError
from likewise.pictures.images import (
    MAX_PIXELS,
    ImageError,
    ImageTooCostlyError,
    ImageTooLargeError,
    is_cheap,
    load_image,
)

_ERRORS = {"ImageTooLargeError": ImageTooLargeError, "ImageTooCostlyError": ImageTooCostlyError}
_PIPE = 1 << 20  # bytes; Linux's largest for everybody, against 64 kB by default
# With a fixed threshold, what a large picture took is given back at once; glibc would raise it and keep hundreds of MB.
_ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MALLOC_MMAP_THRESHOLD_": str(1 << 20)}
_PATIENCE = 6  # times the seconds of computing: on a busy machine, or behind another large picture, they take longer


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
        self._lock = tempfile.TemporaryFile()  # noqa: SIM115  held by the process that decodes a large picture
        self._idle: queue.LifoQueue[_Process | None] = queue.LifoQueue()
        self._n, self._closed = n, False
        for _ in range(n):
            self._idle.put(None)

    def pixels(
        self, data: bytes, at_least: int | None = None, max_pixels: int = MAX_PIXELS, reduced: bool = False
    ) -> Decoded:
        """Decode a picture as `load_image` does, or if `reduced` as `load_reduced` does."""
        return self._run(data, at_least=at_least, max_pixels=max_pixels, reduced=reduced)

    def load(self, data: bytes, at_least: int | None, max_pixels: int) -> np.ndarray:
        """Pixels as by `load_image`: in this process if that is certainly cheap, which saves a millisecond."""
        if is_cheap(data):
            return load_image(data, at_least, max_pixels)
        return np.asarray(self.pixels(data, at_least, max_pixels).content)

    def thumbnail(self, path: str | os.PathLike[str], longest: int, max_pixels: int = MAX_PIXELS) -> bytes:
        """The picture in a file as JPEG of at most `longest` pixels on its longer side."""
        name = os.fsencode(path).hex()
        how = {"at_least": longest, "longest": longest, "reduced": True}
        return bytes(self._run(b"", path=name, max_pixels=max_pixels, **how).content)

    def start(self) -> None:
        """Start the processes before they are needed, so that the first picture does not wait for them."""
        idle = [self._idle.get() for _ in range(self._n)]
        for process in idle:
            self._idle.put(process or _Process(self.limits, self._lock.fileno()))

    def close(self) -> None:
        """End the processes; those that are decoding end when they have finished."""
        self._closed = True
        for _ in range(self._n):
            with suppress(queue.Empty):
                process = self._idle.get_nowait()
                if process is not None:
                    process.end()
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, data: bytes, **request: Any) -> Decoded:
        request = {"path": None, "longest": None, "length": len(data), **request}
        with self._process() as process:
            head, body = process.ask(json.dumps(request).encode() + b"\n", data)
        if "error" in head:
            raise self._error(head)
        content: Any = body
        if "shape" in head:
            content = np.frombuffer(body, np.uint8).reshape(head["shape"])
        return Decoded(content, tuple(head["size"]))

    def _error(self, head: dict[str, Any]) -> ImageError:
        if head["error"] == "MemoryError":
            return ImageTooCostlyError(f"needs more than {self.limits.memory // 2**20} MB of memory to decode")
        if head["error"] in _ERRORS:
            return _ERRORS[head["error"]](head["message"])
        return ImageError(head["message"], head["kind"])

    @contextmanager
    def _process(self) -> "Iterator[_Process]":
        process = self._idle.get()
        try:
            if self._closed:
                raise DecodersClosedError("the server is stopping")
            process = process or _Process(self.limits, self._lock.fileno())
            yield process
        except BaseException:
            if process is not None:
                process.kill()
            process = None
            raise
        finally:
            if self._closed and process is not None:
                process.end()
            self._idle.put(process)


class _Process:
    """One decoding process."""

    def __init__(self, limits: DecoderLimits, lock: int) -> None:
        self._limits = limits
        given = json.dumps({"bytes": limits.memory, "seconds": limits.seconds, "lock": lock})
        # -P: a module in the current folder that is called like one of ours is not imported.
        command = [sys.executable, "-P", "-m", "likewise.pictures.decoder", given]
        environment = {**os.environ, **_ENVIRONMENT}
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(  # no word of the command comes from outside  # nosec B603
            command,
            stdin=pipe,
            stdout=pipe,
            stderr=subprocess.DEVNULL,
            env=environment,
            pass_fds=[lock],
            start_new_session=True,  # Ctrl-C is for the process that asks
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in, self._out = self._process.stdin, self._process.stdout
        _widen(self._in.fileno(), self._out.fileno())
        self._poll = select.poll()
        self._poll.register(self._out, select.POLLIN | select.POLLHUP)

    def ask(self, head: bytes, data: bytes) -> tuple[dict[str, Any], bytes]:
        """The answer to a request; an `ImageTooCostlyError` if there is none in time."""
        try:
            self._in.write(head)
            self._in.write(data)
            self._in.flush()
            if not self._poll.poll(1000 * _PATIENCE * self._limits.seconds):
                raise ImageTooCostlyError(f"takes longer than {_PATIENCE * self._limits.seconds} s to decode")
            answer = json.loads(self._out.readline())
            return answer, self._out.read(answer["length"])
        except (OSError, ValueError) as error:  # the process has ended
            raise ImageTooCostlyError(self._why_it_ended()) from error

    def _why_it_ended(self) -> str:
        code = self._process.wait()
        if code == -signal.SIGXCPU:
            return f"takes longer than {self._limits.seconds} s to decode"
        return "stops the process that decodes it"

    def kill(self) -> None:
        self._process.kill()
        self.end()

    def end(self) -> None:
        """Close the pipes, at which the process ends, and wait for it."""
        with suppress(OSError):
            self._in.close()
        self._process.wait()
        self._out.close()


def _widen(*pipes: int) -> None:
    for pipe in pipes:
        with suppress(OSError, AttributeError):
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE)
