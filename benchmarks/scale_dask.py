"""Time of a Dask cluster on this machine's cores, compared with the memory engine on the same cores.

usage: python -m benchmarks.scale_dask [--rows 100000] [--features 512] [--classes 100] [--rank 64] [--landmarks 2000]
                                       [--iterations 3] [--exact-rows 20000] [--workers 2] [--repeats 3] [--store NAME]

Landmarks and all pairs, each fitted by the memory engine with all threads and by workers of one thread that read the
rows from a file. Fits take turns, and the fastest of each counts. Where others use the machine as well, seconds of
processor say more: those of the client, the scheduler and all workers, against those of the memory engine. The goal for
the difference of the similarities is 1e-5.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import clusters
from benchmarks.results import show_table

Seconds = tuple[float, float]  # of the clock, of processor


def main() -> None:
    """Fit both ways some times, print one table."""
    from distributed import Client, LocalCluster

    arguments = _arguments()
    options = {"rank": arguments.rank, "max_iter": arguments.iterations, "random_state": 0}
    marks = {"compress": "landmarks", "compress_size": arguments.landmarks}
    ways = {"landmarks": (arguments.rows, {**options, **marks}), "all pairs": (arguments.exact_rows, options)}
    with (
        LocalCluster(
            n_workers=arguments.workers, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
    ):
        results = {name: _compared(rows, labels, arguments, client) for name, (rows, labels) in ways.items()}
    _show(arguments, results)


def _compared(rows: int, options: dict[str, Any], arguments: argparse.Namespace, client: Any) -> dict[str, Any]:
    from likewise import SLR
    from likewise.learn.engines.dask import dask_rows

    X, y = clusters(rows, arguments.features, arguments.classes)
    models: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        np.save(path, X)
        ways: dict[str, Callable[[], Any]] = {
            "memory": lambda: SLR(**options).fit(X, y),
            "dask": lambda: SLR(**options).fit(dask_rows(path), y),
        }
        times: dict[str, list[Seconds]] = {name: [] for name in ways}
        for _ in range(arguments.repeats):
            for name, fit in ways.items():
                before = time.perf_counter(), _processor(client)
                models[name] = fit()
                times[name].append((time.perf_counter() - before[0], _processor(client) - before[1]))
    S, other = (model.similarity(X[:2000]) for model in models.values())
    fastest = {name: tuple(map(min, zip(*taken, strict=True))) for name, taken in times.items()}
    return {"rows": rows, **fastest, "difference": float(np.abs(S - other).max() / np.abs(S).max())}


def _processor(client: Any) -> float:
    """Seconds of processor of this process, in which the scheduler runs, and of all workers."""
    return time.process_time() + sum(client.run(time.process_time).values())


def _show(arguments: argparse.Namespace, results: dict[str, dict[str, Any]]) -> None:
    title = (
        f"{arguments.features} features, {arguments.classes} classes, rank {arguments.rank}, "
        f"{arguments.iterations} iterations; {arguments.landmarks:,} landmarks; "
        f"{arguments.workers} workers of one thread"
    )
    columns = [
        "pairs", "rows", "memory engine", "Dask", "ratio (goal 1.15)", "of processor", "ratio", "difference",
    ]  # fmt: skip
    cells = [_cells(name, row) for name, row in results.items()]
    show_table(title, "python -m benchmarks.scale_dask", columns, cells, arguments.store)


def _cells(name: str, row: dict[str, Any]) -> list[str]:
    (memory, its_processor), (dask, processor) = row["memory"], row["dask"]
    return [
        name, f"{row['rows']:,.0f}", f"{memory:.1f} s", f"{dask:.1f} s", f"{dask / memory:.2f}",
        f"{its_processor:.1f} and {processor:.1f} s", f"{processor / its_processor:.2f}", f"{row['difference']:.1e}",
    ]  # fmt: skip


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sizes = {"rows": 100_000, "features": 512, "classes": 100, "rank": 64, "landmarks": 2_000, "iterations": 3}
    for name, default in {**sizes, "exact-rows": 20_000, "workers": 2, "repeats": 3}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--store", help="name of the file in docs/results")
    return parser.parse_args()


if __name__ == "__main__":
    main()
