"""Figures as a table: printed while they are measured, with their goals, and stored for the pages of docs/."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from rich.table import Table

from benchmarks.__main__ import machine, show

RESULTS = Path(__file__).parents[1] / "docs" / "results"


class Figure(NamedTuple):
    """Something measured, its unit, and what it should not exceed, if there is such a goal."""

    what: str
    value: float
    unit: str = ""
    goal: float | None = None

    @property
    def cells(self) -> list[str]:
        """As a row of a table."""
        value = f"{self.value:,.0f}" if self.value >= 100 else f"{self.value:.3g}"
        return [self.what, f"{value} {self.unit}".strip(), "" if self.goal is None else f"< {self.goal:g} {self.unit}"]


def show_figures(about: str, command: str, figures: Iterable[Figure], store: str | None = None) -> None:
    """Print a Markdown table line by line; `store` is the name of its file in docs/results."""
    print(f"{machine()}\n\n{about}\n\n| what | measured | goal |\n|---|---|---|", flush=True)
    rows = []
    for figure in figures:
        rows.append(figure.cells)
        print("| " + " | ".join(figure.cells) + " |", flush=True)
    if store is not None:
        store_table(store, about, command, ["what", "measured", "goal"], rows)


def show_table(about: str, command: str, columns: list[str], rows: list[list[str]], store: str | None) -> None:
    """Print a table for a terminal; `store` is the name of its file in docs/results."""
    grid = Table(*columns)
    for cells in rows:
        grid.add_row(*cells)
    show(about, grid)
    if store is not None:
        store_table(store, about, command, columns, rows)


def store_table(name: str, about: str, command: str, columns: list[str], rows: list[list[str]]) -> None:
    """A table as the pages take it: with its command, the day and the machine."""
    stored = {"about": about, "command": command, "date": time.strftime("%Y-%m-%d"), "machine": machine()}
    table = {**stored, "table": {"columns": columns, "rows": rows}}
    (RESULTS / f"{name}.json").write_text(json.dumps(table, indent=1, ensure_ascii=False) + "\n", "utf-8")
