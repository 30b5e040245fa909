"""Work in a fork of this process: what it does to itself ends with it, and libraries are imported once."""

from __future__ import annotations

import io
import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import dataclass

from threadpoolctl import threadpool_limits

from likewise.cli import main


@dataclass(frozen=True)
class Done:
    """How a fork ended, and what it printed."""

    returncode: int
    stdout: bytes
    stderr: bytes


def in_a_fork(work: Callable[[], object]) -> Done:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if child == 0:
            _run(work, out.fileno(), err.fileno())
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        return Done(code, *(os.pread(file.fileno(), 1 << 24, 0) for file in (out, err)))


def _run(work: Callable[[], object], out: int, err: int) -> None:
    """As a new process would: streams of its own in strict UTF-8, and threads of no library."""
    code = 1
    try:
        os.dup2(out, 1)
        os.dup2(err, 2)
        sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), "utf-8", "strict")
        sys.stderr = io.TextIOWrapper(io.FileIO(2, "w", closefd=False), "utf-8", "backslashreplace", write_through=True)
        with threadpool_limits(1):
            work()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


def likewise(*words: object, first: Callable[[], object] = lambda: None) -> Done:
    """The command line; `first` is done in the fork before it."""

    def work() -> None:
        first()
        sys.argv = ["likewise", *map(str, words)]
        main()

    return in_a_fork(work)
