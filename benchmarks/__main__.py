"""All benchmarks in one table: speed and memory relative to the GEMM of this machine and to rivals.

usage: python -m benchmarks [NAME ...]     the modules bench_NAME.py of this folder; default: all
"""

from __future__ import annotations

import os
import platform
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import scipy
import sklearn
from rich.console import Console
from rich.table import Table

import likewise

COLUMNS = ("what", "ours", "rival", "ratio", "goal")


def main() -> None:
    here = Path(__file__).parent
    names = sys.argv[1:] or sorted(path.stem.removeprefix("bench_") for path in here.glob("bench_*.py"))
    console = Console(width=None if sys.stdout.isatty() else 160)
    console.print(machine())
    table = Table(*COLUMNS)
    for name in names:
        for row in import_module(f"benchmarks.bench_{name}").rows():
            table.add_row(*(f"{row[c]:.3g}" if isinstance(row[c], float) else str(row[c]) for c in COLUMNS))
            found = f"{row['what']}: {row['ours']} ({row['rival']}): {row['ratio']}"
            Console(stderr=True, width=200).print(f"{name}: {found}")
    console.print(table)


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
