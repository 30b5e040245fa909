"""All benchmarks on one page: speed and memory relative to the GEMM of this machine and to rivals.

usage: python -m benchmarks [NAME ...] [--store]     the modules bench_NAME.py of this folder; default: all

The page goes to build/bench.md with a picture of all ratios, bench.png, and says what fell by more than a tenth since
the last page that was stored. --store makes this one the last: docs/results/bench.json and docs/images/bench.png.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path

import numpy as np
import scipy
import sklearn
from rich.console import Console
from rich.table import Table

import likewise
from benchmarks.one_page import COLUMNS, Measured, draw, markdown

ROOT = Path(__file__).parents[1]
STORED, PICTURE = ROOT / "docs" / "results" / "bench.json", ROOT / "docs" / "images" / "bench.png"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--store", action="store_true")
    words = parser.parse_args()
    here, before = Path(__file__).parent, stored()
    names = words.names or sorted(path.stem.removeprefix("bench_") for path in here.glob("bench_*.py"))
    lines = measured(names)
    page = markdown(lines, before, time.strftime("%Y-%m-%d"), machine())
    build = ROOT / "build"
    build.mkdir(exist_ok=True)
    (build / "bench.md").write_text(page, "utf-8")
    draw(lines, build / "bench.png")
    print(page)
    if words.store:
        store({line.what: line for line in (*before, *lines)}.values())


def measured(names: list[str]) -> list[Measured]:
    """All lines, each of them told on stderr as soon as it is there."""
    lines = []
    for name in names:
        for row in import_module(f"benchmarks.bench_{name}").rows():
            lines.append(Measured.of(row))
            print(f"{name}: {' | '.join(lines[-1].cells)}", file=sys.stderr, flush=True)
    return lines


def stored() -> list[Measured]:
    """The lines of the last page that was stored."""
    if not STORED.exists():
        return []
    return [Measured(**line) for line in json.loads(STORED.read_text("utf-8"))["lines"]]


def store(lines: Iterable[Measured]) -> None:
    """Make these lines the ones that the next page is compared with, and show them in docs/."""
    kept = list(lines)
    facts = {"about": "All ratios, each against its goal", "command": "make bench", "date": time.strftime("%Y-%m-%d")}
    table = {"columns": COLUMNS, "rows": [line.cells for line in kept]}
    found = {**facts, "machine": machine(), "table": table, "lines": [line._asdict() for line in kept]}
    STORED.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", "utf-8")
    draw(kept, PICTURE)


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


if __name__ == "__main__":
    main()
