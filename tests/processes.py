"""Python in a process of its own, as `subprocess` starts it, but forked from one that has imported the library.

Imports take seconds of each process. The one that is forked from has done nothing else: it has no threads, and neither
`-c` nor `-m` finds anything in it that a new one would not import by itself.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import signal
import sys
import tempfile
from collections.abc import Mapping
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from pathlib import Path
from subprocess import DEVNULL, PIPE, CalledProcessError, CompletedProcess, TimeoutExpired
from typing import IO, Any

FORKED = multiprocessing.get_context("forkserver")
# Drivers of databases and onnxruntime start threads, which do not survive a fork: who needs one imports his own.
FORKED.set_forkserver_preload(
    [
        *("pytest", "PIL.Image", "sklearn.datasets", "likewise.cli", "likewise.learn.similarity", "likewise.learn.slr"),
        *("likewise.rivals", "likewise.rows.doctor", "likewise.search.stores", "likewise.pictures", "likewise.paper"),
        *("likewise.serve.server", "distributed", "dask.array"),
    ]
)


def ready_to_fork() -> None:
    """Start the one that is forked from, before somebody else says what it imports."""
    forkserver.ensure_running()


class Python:
    """The interpreter with words such as `-m likewise fit`; a stream is a file's number, PIPE, DEVNULL, or as here."""

    def __init__(
        self,
        *words: object,
        stdin: int | None = None,
        stdout: int | None = None,
        stderr: int | None = None,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        self.words = [str(word) for word in words]
        its_out, self.stdout = _stream(stdout, 1)
        its_err, self.stderr = _stream(stderr, 2)
        streams = [Connection(os.dup(0 if stdin is None else stdin)), its_out, its_err]
        settings = (dict(os.environ if env is None else env), os.fspath(cwd or Path.cwd()))
        self._process = FORKED.Process(target=_become, args=(self.words, streams, *settings))
        self._process.start()
        for stream in streams:
            stream.close()

    def __enter__(self) -> Python:
        return self

    def __exit__(self, *_: object) -> None:
        for stream in (self.stdout, self.stderr):
            if stream is not None:
                stream.close()
        self.wait()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise TimeoutExpired(self.words, timeout or 0)
        return self._process.exitcode

    def send_signal(self, sent: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, sent)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def ran(
    *words: object, input: str = "", check: bool = False, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> CompletedProcess[str]:
    """What it prints, and how it ends."""
    with (
        tempfile.TemporaryFile("w+") as given,
        tempfile.TemporaryFile("w+") as out,
        tempfile.TemporaryFile("w+") as err,
    ):
        given.write(input)
        given.seek(0)
        streams = {"stdin": given.fileno(), "stdout": out.fileno(), "stderr": err.fileno()}
        with Python(*words, **streams, env=env, cwd=cwd) as process:  # type: ignore[arg-type]
            code = process.wait()
        printed = [os.pread(file.fileno(), 1 << 24, 0).decode() for file in (out, err)]
    if check and code:
        raise CalledProcessError(code, process.words, *printed)
    return CompletedProcess(process.words, code, *printed)


def _stream(wanted: int | None, own: int) -> tuple[Connection, IO[str] | None]:
    """The end that the process gets, and ours of a pipe."""
    if wanted == DEVNULL:
        return Connection(os.open(os.devnull, os.O_WRONLY)), None
    if wanted != PIPE:
        return Connection(os.dup(own if wanted is None else wanted)), None
    ours, its = os.pipe()
    return Connection(its), open(ours)


def _text(number: int, mode: str, **options: Any) -> Any:
    return open(number, mode, encoding="utf-8", closefd=False, **options)


def _become(words: list[str], streams: list[Connection], environment: dict[str, str], folder: str) -> None:
    """What `python WORDS…` does once it runs."""
    for number, stream in enumerate(streams):
        os.dup2(stream.fileno(), number)
        stream.close()
    sys.stdin, sys.stdout = _text(0, "r"), _text(1, "w")
    sys.stderr = _text(2, "w", errors="backslashreplace", buffering=1)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell that runs the tests with & has it ignored
    try:
        _interpret(words)
    except SystemExit:
        raise
    except BaseException:
        sys.excepthook(*sys.exc_info())
        raise SystemExit(1) from None


def _interpret(words: list[str]) -> Any:
    option, program, *rest = words
    sys.path.insert(0, "")
    if option == "-m":
        sys.argv = [program, *rest]
        return runpy.run_module(program, run_name="__main__", alter_sys=True)
    assert option == "-c"
    sys.argv = ["-c", *rest]
    return exec(compile(program, "<string>", "exec"), {"__name__": "__main__"})
