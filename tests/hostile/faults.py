"""Lets the k-th write, rename, link, sync or new folder of a process fail, or be the last thing it does."""

from __future__ import annotations

import builtins
import errno
import os
import traceback
from collections.abc import Callable
from typing import Any

from likewise.errors import LikewiseError

SUCCESS, SENTENCE, WRONG, DEAD = 0, 10, 11, 12
_CALLS = ("replace", "rename", "fsync", "link", "mkdir", "posix_fallocate", "truncate")


class _Writer:
    """A file whose writes are events."""

    def __init__(self, file: Any, event: Callable[[], None]) -> None:
        self._file, self._event = file, event

    def write(self, data: Any) -> Any:
        self._event()
        return self._file.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> Any:
        self._file.__enter__()
        return self

    def __exit__(self, *error: Any) -> Any:
        return self._file.__exit__(*error)

    def __iter__(self) -> Any:
        return iter(self._file)


def inject(number: int, how: str) -> list[int]:
    """From now on count events in this process; at event `number` the disk is full, or the process ends."""
    seen = [0]

    def event() -> None:
        seen[0] += 1
        if seen[0] - 1 == number:
            if how == "die":
                os._exit(DEAD)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def act(*args: Any, **options: Any) -> Any:
            event()
            return call(*args, **options)

        return act

    def opening(call: Callable[..., Any]) -> Callable[..., Any]:
        def act(file: Any, mode: str = "r", *args: Any, **options: Any) -> Any:
            opened = call(file, mode, *args, **options)
            return _Writer(opened, event) if set(mode) & set("wa+x") else opened

        return act

    for name in _CALLS:
        setattr(os, name, counted(getattr(os, name)))
    os.fdopen, builtins.open = opening(os.fdopen), opening(builtins.open)  # type: ignore[assignment]
    return seen


def with_fault(work: Callable[[], object], number: int, how: str) -> tuple[int, bool]:
    """Run `work` in a fork with a fault; how it ended, and whether the fault came."""
    inlet, outlet = os.pipe()
    child = os.fork()
    if child == 0:
        code, seen = WRONG, [0]
        try:
            seen = inject(number, how)
            work()
            code = SUCCESS
        except LikewiseError:
            code = SENTENCE
        except BaseException:
            traceback.print_exc()
        finally:
            os.write(outlet, b"!" if seen[0] > number else b".")
            os._exit(code)
    os.close(outlet)
    came = os.read(inlet, 1) != b"."
    os.close(inlet)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), came
