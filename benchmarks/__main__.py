"""All benchmarks on one page: speed and memory relative to the GEMM of this machine and to rivals.

usage: python -m benchmarks [NAME ...] [--store]     the modules bench_NAME.py of this folder; default: all

The page goes to build/bench.md with a picture of all ratios, bench.png, and says what fell by more than a tenth since
the last page that was stored. --store makes this one the last: bench.json, bench.md and bench.png in benchmarks/stored.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from importlib import import_module
from pathlib import Path

import numpy as np
import scipy
import sklearn
from rich.console import Console
from rich.table import Table

import likewise
from benchmarks.one_page import Measured, draw, markdown

ROOT = Path(__file__).parents[1]
STORED = ROOT / "benchmarks" / "stored"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--store", action="store_true")
    words = parser.parse_args()
    here, before = Path(__file__).parent, stored()
    names = words.names or sorted(path.stem.removeprefix("bench_") for path in here.glob("bench_*.py"))
    lines = measured(names)
    write_page(ROOT / "build", lines, before)
    if words.store:
        kept = {line.what: line for line in (*before, *lines)}
        write_page(STORED, list(kept.values()), before)
        found = json.dumps([line._asdict() for line in kept.values()], indent=1, ensure_ascii=False)
        (STORED / "bench.json").write_text(found + "\n", "utf-8")
    print((ROOT / "build" / "bench.md").read_text("utf-8"))


def write_page(folder: Path, lines: list[Measured], before: list[Measured]) -> None:
    """The page and its picture."""
    folder.mkdir(exist_ok=True)
    (folder / "bench.md").write_text(markdown(lines, before, time.strftime("%Y-%m-%d"), machine()), "utf-8")
    draw(lines, folder / "bench.png")


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


if __name__ == "__main__":
    main()
