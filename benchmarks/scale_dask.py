"""Time of a Dask cluster of two worker processes, compared with the memory engine on the same cores.

usage: python -m benchmarks.scale_dask [--rows 100000] [--features 512] [--classes 100] [--rank 64] [--landmarks 2000]
                                       [--iterations 3] [--exact-rows 20000]

Landmarks and all pairs, each fitted by the memory engine with two threads and by two workers of one thread that read
the rows from a file. The faster of two fits counts; in the second, the workers already hold their blocks.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from benchmarks.__main__ import show
from benchmarks.measure import best_seconds, clusters


def main() -> None:
    """Fit four times, print one table."""
    from distributed import Client, LocalCluster

    arguments = _arguments()
    options = {"rank": arguments.rank, "n_iter": arguments.iterations, "random_state": 0}
    marks = {"compress": "landmarks", "compress_size": arguments.landmarks}
    ways = {"landmarks": (arguments.rows, {**options, **marks}), "all pairs": (arguments.exact_rows, options)}
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        Client(cluster),
    ):
        found = {name: _compared(rows, given, arguments) for name, (rows, given) in ways.items()}
    _show(arguments, found)


def _compared(rows: int, options: dict[str, Any], arguments: argparse.Namespace) -> dict[str, float]:
    from likewise import SLR
    from likewise.data.dask import dask_rows

    X, y = clusters(rows, arguments.features, arguments.classes)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        np.save(path, X)
        there: list[Any] = []
        on_cluster = best_seconds(lambda: there.append(SLR(**options).fit(dask_rows(path), y)), 2)
    here: list[Any] = []
    in_memory = best_seconds(lambda: here.append(SLR(**options).fit(X, y)), 2)
    S, other = (model.similarity(X[:2000]) for model in (here[0], there[0]))
    return {
        "rows": rows,
        "memory": in_memory,
        "dask": on_cluster,
        "difference": float(np.abs(S - other).max() / np.abs(S).max()),
    }


def _show(arguments: argparse.Namespace, found: dict[str, dict[str, float]]) -> None:
    title = (
        f"{arguments.features} features, {arguments.classes} classes, rank {arguments.rank}, "
        f"{arguments.iterations} iterations; {arguments.landmarks:,} landmarks; two workers of one thread"
    )
    grid = Table("pairs", "rows", "memory engine", "Dask", "ratio (goal 1.3)", "difference of similarities (goal 1e-5)")
    for name, row in found.items():
        grid.add_row(
            name,
            f"{row['rows']:,.0f}",
            f"{row['memory']:.1f} s",
            f"{row['dask']:.1f} s",
            f"{row['dask'] / row['memory']:.2f}",
            f"{row['difference']:.1e}",
        )
    show(title, grid)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sizes = {"rows": 100_000, "features": 512, "classes": 100, "rank": 64, "landmarks": 2_000, "iterations": 3}
    for name, default in {**sizes, "exact-rows": 20_000}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    return parser.parse_args()


if __name__ == "__main__":
    main()
