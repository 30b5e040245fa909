"""Cost against the number of items: learning, building, searching and teaching, each with a line in proportion.

usage: python -m benchmarks.scale_cost [--rows 10000 100000 1000000] [--width 64] [--largest INDEX]
                                       [--picture cost.png] [--store NAME]

The items are those of `benchmarks.catalogue`, in a .npy file. Learning is `SLR` with landmarks from the file; building
is `Index.build` of the cosine, exact, and its `save`; a search is the median over rows, exact and by lists (ivf); a
lesson is learned from 20 marks, after what is prepared while they are given. --largest is an index of more items that
is there already, such as the one of `benchmarks.ten_million`: it is searched.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import catalogue
from benchmarks.results import store_table

CLASSES = 100
COLUMNS = ["learn, s", "build, s", "search, exact, ms", "search, by lists, ms", "prepare, s", "teach, s"]


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def costs(folder: Path, rows: int, width: int) -> list[float | None]:
    """What each step takes at one size."""
    from likewise import SLR
    from likewise.rivals import Cosine
    from likewise.search import Index

    path = catalogue.write(folder / "rows.npy", rows, width)
    y = np.concatenate([group for _, group in catalogue.blocks(rows, width)]) % CLASSES
    model = SLR(32, max_iter=3, compress="landmarks", compress_size=1_000, random_state=0)
    learn = seconds(lambda: model.fit(str(path), y))
    cosine = Cosine().fit(np.load(path, mmap_mode="r")[:1_000])
    build = seconds(lambda: Index.build(cosine, path, {"id": np.arange(rows)}).save(folder / "a.index"))
    exact = Index.load(folder / "a.index")
    lists = Index.build(cosine, path, approximate="ivf")
    return [learn, build, searched(exact), searched(lists), *taught(exact)]


def searched(index: Any) -> float:
    """Milliseconds of a search by a row."""
    n = len(index)
    index.search(rows=[1])
    return 1e3 * statistics.median(seconds(lambda i=i: index.search(rows=[(7_919 * i) % n])) for i in range(20))


def taught(index: Any) -> tuple[float, float]:
    """Seconds to prepare, and of a lesson from 20 marks."""
    from likewise.teach import Teacher

    teacher = Teacher(index)
    for place, row in enumerate(index.search(rows=[7], k=20).rows[0].tolist()):
        teacher.mark(7, row, place % 3 != 2)
    return seconds(teacher.prepare), seconds(teacher.learn)


def draw(path: Path, times: dict[int, list[float | None]]) -> None:
    """One panel per step, on logarithmic axes: a line of slope one is in proportion to the first size."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 6), layout="constrained")
    for place, name in enumerate(COLUMNS):
        axes = figure.add_subplot(2, 3, place + 1)
        known = [(n, values[place]) for n, values in sorted(times.items()) if values[place] is not None]
        n, cost = (list(part) for part in zip(*known, strict=True))
        axes.loglog(n, cost, "o-", label="measured")
        axes.loglog(n, [cost[0] * one / n[0] for one in n], "--", label="in proportion")
        axes.set(title=name, xlabel="items")
    figure.axes[0].legend()
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--largest", type=Path)
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--store", help="name of the file in docs/results")
    words = parser.parse_args()
    times: dict[int, list[float | None]] = {}
    print("| " + " | ".join(["items", *COLUMNS]) + " |\n" + "|---" * (1 + len(COLUMNS)) + "|", flush=True)
    for rows in words.rows:
        with tempfile.TemporaryDirectory() as folder:
            times[rows] = costs(Path(folder), rows, words.width)
        print(_line(rows, times[rows]), flush=True)
    if words.largest is not None:
        from likewise.search import Index

        opened = Index.load(words.largest, verify=False)
        times[len(opened)] = [None, None, None, searched(opened), None, None]
        print(_line(len(opened), times[len(opened)]), flush=True)
    if words.picture is not None:
        draw(words.picture, times)
    if words.store is not None:
        about = f"Cost against the number of items, {words.width} numbers each"
        rows_of = [_cells(rows, values) for rows, values in times.items()]
        store_table(words.store, about, "python -m benchmarks.scale_cost", ["items", *COLUMNS], rows_of)


def _line(rows: int, values: list[float | None]) -> str:
    return "| " + " | ".join(_cells(rows, values)) + " |"


def _cells(rows: int, values: list[float | None]) -> list[str]:
    return [f"{rows:,}", *("" if value is None else f"{value:.3g}" for value in values)]


if __name__ == "__main__":
    main()
