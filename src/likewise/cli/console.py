"""Output shared by all verbs: results on stdout, everything else on stderr, errors as one sentence."""

import json
import os
import sys
import threading
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.segment import Segment
from typer.core import TyperGroup

from likewise.errors import LikewiseError

SERIOUS, WRONG, FAULT, INTERRUPTED = 1, 2, 3, 130
_SPINNER_DELAY = 2.0  # seconds before a spinner appears: shorter work needs none


class Verbs(TyperGroup):
    """A group of commands that reports an error as one sentence on stderr and an exit code."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The verb; a folder in its place is served: `likewise PHOTOS/`."""
        if args[0] not in self.commands and os.path.isdir(args[0]):
            args = ["serve", *args]
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run a verb; warnings and errors become lines on stderr."""
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: note(f"warning: {_sentence(message)}")
            try:
                return super().invoke(ctx)
            except (KeyboardInterrupt, MemoryError, OSError, ValueError, ArithmeticError) as error:
                _exit_with(ctx, error)
            except Exception as error:
                if type(error).__module__.startswith(("typer", "click")):
                    raise  # usage errors and exits: typer reports these itself
                _exit_with(ctx, error)


def _exit_with(ctx: Any, error: BaseException) -> None:
    """Report the error and exit with its code; with --debug, let the traceback through."""
    if isinstance(error, BrokenPipeError) or (ctx.params.get("debug") and not isinstance(error, KeyboardInterrupt)):
        raise error
    text = _sentence(error)
    if isinstance(error, KeyboardInterrupt):
        message, code = "stopped by Ctrl-C", INTERRUPTED
    elif isinstance(error, MemoryError):
        message, code = f"error: out of memory: {text}", WRONG
    elif isinstance(error, LikewiseError | ValueError | OSError):
        message, code = f"error: {text}", WRONG
    else:
        kind, code = type(error).__name__, FAULT
        message = f"error: {kind}: {text} (a bug in likewise; likewise --debug shows the traceback)"
    note(message)
    raise typer.Exit(code) from None


def _sentence(error: BaseException | Warning | str) -> str:
    """The first line of a message: some libraries append paragraphs of advice."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


# Control characters, and those that hide or reorder text: a terminal obeys them in names of files and labels too.
_UNSAFE = [*range(9), *range(0x0B, 0x20), *range(0x7F, 0xA0), *range(0x200B, 0x2010), *range(0x2028, 0x202F)]
_UNSAFE += [*range(0x2060, 0x206A), 0xFEFF, *range(0xD800, 0xE000)]
_PICTURES = {code: chr(0x2400 + code) if code < 0x20 else "\ufffd" for code in _UNSAFE} | {0x7F: "␡"}
_ESCAPES = {code: f"\\u{code:04x}" for code in _UNSAFE}


def printable(text: str) -> str:
    """Text with control characters as their pictures (␛ for an escape), others that would not show as �."""
    return text.translate(_PICTURES)


class _SafeConsole(Console):
    """A console whose texts are printable, wherever they come from; its own styles stay."""

    def render(self, renderable: Any, options: Any = None) -> Iterator[Segment]:
        """Segments of text and style; those that control the terminal are rich's own."""
        for part in super().render(renderable, options):
            yield part if part.control else Segment(printable(part.text), part.style)


def say(text: str) -> None:
    """Print a line on stdout; never styled or wrapped."""
    print(printable(text))


def note(text: str) -> None:
    """Print a line on stderr; never styled or wrapped, so that paths can be copied."""
    print(f"likewise: {printable(text)}", file=sys.stderr)


def held_out_line(worth: dict[str, Any]) -> str:
    """What a fit is worth on rows that it did not learn from."""
    parts = f" in {worth['splits']} splits, each" if worth.get("splits", 1) > 1 else ""
    others = f"{parts or ','} after learning from {worth['learned_from']:,} others" if "learned_from" in worth else ""
    return f"held-out mAP {worth['mAP']:.4f}, raw {worth['raw']:.4f}, of {worth['rows']:,} rows{others}"


def results() -> Console:
    """The console for results, on stdout."""
    return _SafeConsole(highlight=False)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table on stdout, its first column left-aligned and the others right-aligned."""
    from rich.table import Table as Grid

    grid = Grid(*columns)
    for column in grid.columns[1:]:
        column.justify = "right"
    for row in rows:
        grid.add_row(*map(printable, row))
    results().print(grid)


def emit_json(value: Any) -> None:
    """Print JSON on stdout; what would not show is escaped, and read back as it was."""
    text = json.dumps(value, indent=2, ensure_ascii=False, default=lambda v: getattr(v, "tolist", v.__str__)())
    print(text.translate(_ESCAPES))


@contextmanager
def working(text: str) -> Iterator[None]:
    """Show a spinner on stderr, if that is a terminal and the work takes more than two seconds."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    console = Console(stderr=True)
    bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    bar.add_task(printable(text), total=None)
    timer = threading.Timer(_SPINNER_DELAY, bar.start)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        bar.stop()
