"""Where the time of a pass over all pairs goes, and which tile is fastest.

usage: python -m benchmarks.pass_tiles [--rounds 40]

One thread, float32, 512 rows against 15,360 columns of 50 classes. Tile widths take turns, and each is compared with
1,024 columns in the same round, so that the load of others does not decide; medians. The parts of the chosen tile are
shares of its own time.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from rich.table import Table

from benchmarks.__main__ import show
from likewise.learn.maths import passes
from likewise.learn.maths.labels import LabelTarget, class_starts, label_runs
from likewise.utils.threads import single_threaded_blas

WIDTHS, RANKS, COLUMNS, CLASSES = (1024, 768, 640, 512, 384), (64, 100, 128), 15_360, 50
PARTS = ("scores", "clamp", "back", "sum")
TARGET = LabelTarget()


def problem(r: int) -> tuple[np.ndarray, np.ndarray, passes.PassColumns]:
    rng = np.random.default_rng(0)
    columns = np.sort(rng.integers(0, CLASSES, COLUMNS))
    codes = columns[COLUMNS // 2 :][: passes.ROWS]  # rows come sorted by class: few of them in a block
    G = rng.standard_normal((COLUMNS, r), dtype=np.float32)
    gallery = passes.PassColumns(G, class_starts(columns, CLASSES))
    return rng.standard_normal((passes.ROWS, r), dtype=np.float32), codes, gallery


def by_width(r: int, rounds: int) -> list[float]:
    """Time of a pass relative to tiles of 1,024 columns, the median of rounds."""
    (P, codes, gallery), before, taken = problem(r), passes.COLUMNS, np.empty((rounds, len(WIDTHS)))
    for i, j in np.ndindex(taken.shape):
        passes.COLUMNS = WIDTHS[j]
        began = time.perf_counter()
        passes.residual(P, codes, gallery, TARGET)
        taken[i, j] = time.perf_counter() - began
    passes.COLUMNS = before
    return [float(ratio) for ratio in np.median(taken / taken[:, :1], axis=0)]


def parts(r: int, rounds: int) -> list[float]:
    """Shares of the two products, the clamp and the sum in the time of a tile."""
    (P, codes, gallery), width, taken = problem(r), passes.COLUMNS, []
    runs, total = label_runs(codes), np.zeros_like(P)
    F, part = np.empty((len(P), width), dtype=np.float32), np.empty_like(P)
    for first in [*range(0, COLUMNS - width + 1, width)] * rounds:
        tile, clock = slice(first, first + width), [time.perf_counter()]
        for step in (
            lambda tile=tile: np.matmul(P, gallery.G[tile].T, out=F),
            lambda first=first: TARGET.fold_tile(F, runs, gallery.starts, first),
            lambda tile=tile: np.matmul(F, gallery.back[tile], out=part),
            lambda: np.add(total, part, out=total),
        ):
            step()
            clock.append(time.perf_counter())
        taken.append(np.diff(clock))
    middle = np.median(taken, axis=0)
    return [float(share) for share in middle / middle.sum()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40)
    rounds = parser.parse_args().rounds
    grid = Table("rank", *(f"{width:,} columns" for width in WIDTHS), *(f"share of {name}" for name in PARTS))
    with single_threaded_blas():
        for r in RANKS:
            grid.add_row(str(r), *(f"{value:.3f}" for value in (*by_width(r, rounds), *parts(r, rounds))))
    show(f"time relative to 1,024 columns; parts of a tile of {passes.ROWS} x {passes.COLUMNS}", grid)


if __name__ == "__main__":
    main()
