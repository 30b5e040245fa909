"""All benchmarks on one page: speed and memory relative to the GEMM of this machine and to rivals.

usage: python -m benchmarks [NAME ...] [--store]     the modules bench_NAME.py of this folder; default: all
       python -m benchmarks MODULE [OPTIONS]         any other module of this folder, such as open_gallery

The page goes to build/bench.md with a picture of all ratios, bench.png, and says what fell by more than a tenth since
the last page that was stored. --store makes this one the last: bench.json, bench.md and bench.png in benchmarks/stored.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import sys
import time
from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy
import sklearn
from rich.console import Console
from rich.table import Table

import likewise

ROOT = Path(__file__).parents[1]
STORED = ROOT / "benchmarks" / "stored"
FELL = 0.1  # of a margin: smaller changes are the machine's
_GOAL = re.compile(r"^\s*([<>≤≥])\s*(-?[\d,]*\.?\d+)")


def main() -> None:
    if len(sys.argv) > 1 and (Path(__file__).parent / f"{sys.argv[1]}.py").is_file():
        del sys.argv[0]
        import_module(f"benchmarks.{sys.argv[0]}").main()
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--store", action="store_true")
    words = parser.parse_args()
    here, before = Path(__file__).parent, stored()
    names = words.names or sorted(path.stem.removeprefix("bench_") for path in here.glob("bench_*.py"))
    lines = measured(names)
    write_page(ROOT / "build", lines, before)
    if words.store:
        latest = {line.what: line for line in (*before, *lines)}
        write_page(STORED, list(latest.values()), before)
        text = json.dumps([line._asdict() for line in latest.values()], indent=1, ensure_ascii=False)
        (STORED / "bench.json").write_text(text + "\n", "utf-8")
    print((ROOT / "build" / "bench.md").read_text("utf-8"))


def write_page(folder: Path, lines: list[Measured], before: list[Measured]) -> None:
    """The page and its picture."""
    folder.mkdir(exist_ok=True)
    (folder / "bench.md").write_text(markdown(lines, before, time.strftime("%Y-%m-%d"), machine()), "utf-8")
    draw(lines, folder / "bench.png")


def measured(names: list[str]) -> list[Measured]:
    """All lines, each printed on stderr as soon as it is measured."""
    lines = []
    for name in names:
        for row in import_module(f"benchmarks.bench_{name}").rows():
            lines.append(Measured.of(row))
            print(f"{name}: {' | '.join(lines[-1].cells)}", file=sys.stderr, flush=True)
    return lines


def stored() -> list[Measured]:
    """The lines of the last page that was stored."""
    path = STORED / "bench.json"
    return [Measured(**line) for line in json.loads(path.read_text("utf-8"))] if path.exists() else []


def show(title: str, grid: Table) -> None:
    """Print a table with the machine and the title above it."""
    console = Console(width=None if sys.stdout.isatty() else 160)
    for part in (machine(), title, grid):
        console.print(part)


def machine() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor())
    return (
        f"{model}, {os.cpu_count()} cores; Python {platform.python_version()}, numpy {np.__version__}, "
        f"scipy {scipy.__version__}, scikit-learn {sklearn.__version__}, likewise {likewise.__version__}"
    )


# ---------------------------------------------------------------------------------------------------------------------
# The page: each ratio against its goal, and what fell since the last page that was stored


class Measured(NamedTuple):
    """A line of the page: what was measured, against what, as text; its ratio, if it is a number; the goal."""

    what: str
    ours: str
    rival: str
    ratio: float | str
    goal: str

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Measured:
        ratio = row["ratio"]
        number = float(ratio) if isinstance(ratio, int | float) else str(ratio)
        return cls(str(row["what"]), str(row["ours"]), str(row["rival"]), number, str(row["goal"]))

    @property
    def margin(self) -> float | None:
        """How many times better than the goal: at least 1 if it is met; None without a goal that is a number."""
        goal = _GOAL.match(self.goal)
        if goal is None or isinstance(self.ratio, str):
            return None
        wanted = float(goal[2].replace(",", ""))
        better, worse = (wanted, self.ratio) if goal[1] in "<≤" else (self.ratio, wanted)
        return better / worse if worse > 0 else None

    @property
    def cells(self) -> list[str]:
        """As a row of a table."""
        ratio = f"{self.ratio:.3g}" if isinstance(self.ratio, float) else self.ratio
        margin = self.margin
        return [
            self.what,
            self.ours,
            self.rival,
            ratio,
            self.goal,
            "" if margin is None else "yes" if margin >= 1 else "**no**",
        ]


COLUMNS = ["what", "ours", "rival", "ratio", "goal", "met"]


def fallen(now: Iterable[Measured], before: Iterable[Measured]) -> list[str]:
    """What is further from its goal than it was, by more than a tenth, in words."""
    known = {line.what: line.margin for line in before}
    sentences = []
    for line in now:
        old, new = known.get(line.what), line.margin
        if old is not None and new is not None and new < (1 - FELL) * old:
            sentences.append(f"{line.what}: {new:.2f} times its goal, {old:.2f} before")
    return sentences


def markdown(lines: list[Measured], before: list[Measured], when: str, machine: str) -> str:
    """The page."""
    met = [line.margin >= 1 for line in lines if line.margin is not None]
    text = ["# Benchmarks", "", f"{when}, {machine}", "", f"{sum(met)} of {len(met)} goals are met.", ""]
    text += ["| " + " | ".join(cells) + " |" for cells in (COLUMNS, ["---"] * len(COLUMNS), *(x.cells for x in lines))]
    fell = fallen(lines, before)
    text += ["", f"Fell by more than {FELL:.0%} since the last page stored:", ""] if fell else []
    text += [f"- {one}" for one in fell]
    if before and not fell:
        text += ["", f"Nothing fell by more than {FELL:.0%} since the last page stored."]
    return "\n".join([*text, ""])


def draw(lines: list[Measured], path: Path) -> None:
    """How many times better than its goal each line is; what is left of the line at 1 is not met."""
    from matplotlib.figure import Figure

    shown = [(line.what, line.margin) for line in lines if line.margin is not None][::-1]
    figure = Figure(figsize=(10, 0.28 * len(shown) + 1), layout="constrained")
    axes = figure.add_subplot()
    colours = ["tab:green" if margin >= 1 else "tab:red" for _, margin in shown]
    axes.barh(
        [what if len(what) <= 70 else what[:69] + "…" for what, _ in shown],
        [margin - 1 for _, margin in shown],
        left=1,
        color=colours,
    )
    axes.set(xscale="log", xlabel="times better than the goal")
    axes.axvline(1, color="black", linewidth=1)
    axes.tick_params(axis="y", labelsize=7)
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
