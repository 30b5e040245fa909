"""What every verb shares: results on stdout, everything else on stderr, errors in one sentence."""

from __future__ import annotations

import json
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from typer.core import TyperGroup

from likewise.errors import LikewiseError

__all__ = ["FAULT", "INTERRUPTED", "SERIOUS", "WRONG", "Verbs", "emit_json", "note", "results", "working"]

SERIOUS, WRONG, FAULT, INTERRUPTED = 1, 2, 3, 130
_PATIENCE = 2.0  # seconds after which one wants to see that something is going on


class Verbs(TyperGroup):
    """A group of commands whose errors are one sentence on stderr and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        """Run a verb."""
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: note(f"warning: {_sentence(message)}")
            try:
                return super().invoke(ctx)
            except (KeyboardInterrupt, MemoryError, OSError, ValueError, ArithmeticError) as error:
                _give_up(ctx, error)
            except Exception as error:
                if type(error).__module__.startswith(("typer", "click")):
                    raise  # usage errors and exits, which typer itself reports
                _give_up(ctx, error)


def _give_up(ctx: Any, error: BaseException) -> None:
    """Say what happened and leave with the code that goes with it."""
    if isinstance(error, BrokenPipeError) or (ctx.params.get("debug") and not isinstance(error, KeyboardInterrupt)):
        raise error
    words, code = _verdict(error)
    note(words)
    raise typer.Exit(code) from None


def _verdict(error: BaseException) -> tuple[str, int]:
    if isinstance(error, KeyboardInterrupt):
        return "stopped by Ctrl-C", INTERRUPTED
    if isinstance(error, MemoryError):
        return f"error: out of memory: {_sentence(error) or 'the data does not fit'}", WRONG
    if isinstance(error, LikewiseError | ValueError | OSError):
        return f"error: {_sentence(error)}", WRONG
    kind = type(error).__name__
    return f"error: {kind}: {_sentence(error)} (this is a fault; likewise --debug shows where)", FAULT


def _sentence(error: BaseException | Warning | str) -> str:
    """The first line; some libraries add paragraphs of advice on their own functions."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def note(text: str) -> None:
    """A remark on stderr; never styled, so that paths stay whole and can be copied."""
    print(f"likewise: {text}", file=sys.stderr)


def results() -> Console:
    """The console for results, which go to stdout."""
    return Console(highlight=False)


def emit_json(value: Any) -> None:
    """A result for programs."""
    print(json.dumps(value, indent=2, ensure_ascii=False, default=_plain))


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)


@contextmanager
def working(text: str) -> Iterator[None]:
    """Show on stderr, where that is a terminal, that something is going on, if it goes on for more than 2 s."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    console = Console(stderr=True)
    bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    bar.add_task(text, total=None)
    timer = threading.Timer(_PATIENCE, bar.start)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        bar.stop()
