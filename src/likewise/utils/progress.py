"""A progress bar on standard error, or nothing at all."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


class Advance(Protocol):
    """Advances a bar, and may change its text."""

    def __call__(self, steps: int = 1, text: str | None = None) -> None: ...


@contextmanager
def progress_bar(text: str, total: int | None, enabled: bool = True) -> Iterator[Advance]:
    """A bar of `total` steps that is drawn on standard error if `enabled`; yields the function that moves it."""
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), disable=not enabled) as bar:
        task = bar.add_task(text, total=total)

        def advance(steps: int = 1, text: str | None = None) -> None:
            bar.update(task, advance=steps, description=text)

        yield advance
