"""Compile an inner loop with numba where it is installed; the same Python runs, slower, where it is not."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import Any, TypeVar

__all__ = ["compiled"]

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F) -> F:
    """`function`, compiled by numba at its first call: importing the module costs nothing and needs no numba."""

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
    except RuntimeError:  # no folder that could hold the cache may be written to
        return numba.njit(**options)(function)
