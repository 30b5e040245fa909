"""Compile inner loops with numba if it is installed; otherwise the same Python runs, slower."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import Any, TypeVar

__all__ = ["compiled"]

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F) -> F:
    """`function`, compiled by numba at its first call, so that importing a module neither needs numba nor waits."""

    @cache
    def best() -> Callable[..., Any]:
        return _compile(function)

    @wraps(function)
    def call(*args: Any) -> Any:
        return best()(*args)

    return call  # type: ignore[return-value]


def _compile(function: Callable[..., Any]) -> Callable[..., Any]:
    try:
        import numba
    except ImportError:
        return function
    options = {"nogil": True, "fastmath": True}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:  # no writable folder for the cache
        return numba.njit(**options)(function)
