"""Errors: one sentence each, naming the argument, what was given and what is expected."""

from importlib import import_module
from typing import Any


class LikewiseError(ValueError):
    """Invalid input, explained in one sentence."""


class FileFormatError(LikewiseError):
    """A file that is truncated, altered, of another kind, or of a newer format."""


class MissingExtraError(LikewiseError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs the extra '{extra}': pip install 'likewise[{extra}]'")


def optional(module: str, what: str, extra: str) -> Any:
    """A module of an extra; where it is not installed, the error says which extra `what` needs."""
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError(what, extra) from error


class InterruptedFitWarning(UserWarning):
    """A fit was stopped by Ctrl-C; the model is that of the last full iteration."""

    def __init__(self, n_iter: int) -> None:
        super().__init__(f"stopped by Ctrl-C: the model is that of iteration {n_iter}")
