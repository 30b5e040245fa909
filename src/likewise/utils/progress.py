"""A progress bar on standard error, or nothing at all."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich import progress
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text


class Advance(Protocol):
    """Advances a bar, and may change its text."""

    def __call__(self, steps: int = 1, text: str | None = None) -> None: ...


class Stage(Protocol):
    """Says what is being done, how much of it is done, and out of how much; 0 if that is unknown."""

    def __call__(self, stage: str, done: int, total: int) -> None: ...


class CountColumn(progress.MofNCompleteColumn):
    """Done and total, as in 41/100; only what is done while the total is unknown."""

    def render(self, task: progress.Task) -> Text:
        if task.total is not None:
            return super().render(task)
        return Text(f"{int(task.completed):,}" if task.completed else "", style="progress.download")


@contextmanager
def progress_bar(text: str, total: int | None, enabled: bool = True) -> Iterator[Advance]:
    """A bar of `total` steps that is drawn on standard error if `enabled`; yields the function that moves it."""
    columns = TextColumn("{task.description}"), BarColumn(), CountColumn(), progress.TimeElapsedColumn()
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), disable=not enabled) as bar:
        task = bar.add_task(text, total=total)

        def advance(steps: int = 1, text: str | None = None) -> None:
            bar.update(task, advance=steps, description=text)

        yield advance


@contextmanager
def stage_bar(unit: str, enabled: bool = True) -> Iterator[Stage]:
    """A bar on standard error for work in stages, with `unit` per second; it vanishes at the end."""
    rate = TextColumn("{task.fields[rate]}")
    columns = TextColumn("{task.description}"), BarColumn(), CountColumn(), rate, TimeRemainingColumn()
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not enabled or not console.is_terminal, transient=True) as bar:
        task = bar.add_task("", total=None, rate="")

        def show(stage: str, done: int, total: int) -> None:
            if stage != bar.tasks[0].description:
                bar.reset(task, total=total or None, description=stage, rate="")
            speed = bar.tasks[0].finished_speed or bar.tasks[0].speed
            rate = f"{speed:.1f} {unit}/s" if speed and total else ""
            bar.update(task, total=total or None, completed=done, description=stage, rate=rate)

        yield show
