"""The largest run of the paper by size, on generated data: 71,000 rows, 1,000 features, 50 classes, rank 100, T = 5.

usage: python -m benchmarks.scale_imagenet50 [--rows 71000] [--features 1000] [--classes 50] [--rank 100]
                                             [--iterations 5] [--sample 20000] [--json] [--store NAME]

SLR on all pairs and SLR-C-m, each in its own process: wall-clock and processor seconds, peak resident memory beyond the
data and the interpreter, and mAP of test rows. The data is generated (overlapping Gaussian classes), because the
features of the paper are not public: times and memory do not depend on the values, mAP does.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time

from benchmarks.__main__ import machine
from benchmarks.measure import clusters, gemm_rate, mark_memory, peak_resident
from benchmarks.results import show_table

TEST_ROWS = 5000
# Published for SLR-C-20k, on 12 cores at 2.4 GHz and the features of the paper.
PAPER_MINUTES = 30.0


def main() -> None:
    """Measure both variants and print a table."""
    arguments = _arguments()
    if arguments.only is not None:
        print(json.dumps(measure(arguments.only, arguments)))
        return
    names = ["SLR", f"SLR-C-{arguments.sample}"]
    size = min(4096, arguments.rows)
    rate = gemm_rate(size)
    results = {name: _in_a_process(name) for name in names}
    rate = max(rate, gemm_rate(size))  # in case one of the two was disturbed
    if arguments.json:
        print(json.dumps({"machine": machine(), "gemm_gflops": rate / 1e9, "results": results}, indent=2))
    else:
        _show(arguments, results, rate)


def measure(name: str, arguments: argparse.Namespace) -> dict[str, float]:
    """One fit in this process."""
    from likewise.paper import variant

    n, d, k = arguments.rows, arguments.features, arguments.classes
    X, y = clusters(n + min(TEST_ROWS, n), d, k)
    X, y, Q, y_q = X[:n], y[:n], X[n:], y[n:]
    model = variant(name, rank=arguments.rank, max_iter=arguments.iterations, random_state=0)
    before, began, cpu = mark_memory(), time.perf_counter(), time.process_time()
    model.fit(X, y)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    peak = peak_resident()
    return {
        "seconds": seconds,
        "cpu_seconds": cpu,
        "memory_bytes": float(peak - before),
        "data_bytes": float(X.nbytes),
        "mAP": model.score(Q, y_q),
    }


def _in_a_process(name: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.scale_imagenet50", *sys.argv[1:], "--only", name]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    result: dict[str, float] = json.loads(output.splitlines()[-1])
    return result


def _show(arguments: argparse.Namespace, results: dict[str, dict[str, float]], rate: float) -> None:
    title = (
        f"{arguments.rows:,} x {arguments.features:,} float32, generated; {arguments.classes} classes, "
        f"rank {arguments.rank}, T = {arguments.iterations}; GEMM {rate / 1e9:.0f} GF/s; SLR-C-20k took "
        f"{PAPER_MINUTES:g} minutes on 12 cores in the paper"
    )
    # The products of all pairs alone: 4 n² r operations per pass, two passes per iteration
    ideal = 8 * arguments.iterations * arguments.rows**2 * arguments.rank / rate
    columns = ["", "seconds", "of processor", "memory beyond X", "X", "mAP", "of the GEMM rate"]
    cells = [_cells(name, figures, ideal) for name, figures in results.items()]
    show_table(title, "python -m benchmarks.scale_imagenet50", columns, cells, arguments.store)


def _cells(name: str, figures: dict[str, float], ideal: float) -> list[str]:
    return [
        "SLR, exact over all pairs" if name == "SLR" else name, f"{figures['seconds']:.0f}",
        f"{figures['cpu_seconds']:.0f}", f"{figures['memory_bytes'] / 1e6:.0f} MB",
        f"{figures['data_bytes'] / 1e6:.0f} MB",
        f"{figures['mAP']:.3f}", f"{ideal / figures['seconds']:.2f}" if name == "SLR" else "",
    ]  # fmt: skip


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sizes = {"rows": 71_000, "features": 1_000, "classes": 50, "rank": 100, "iterations": 5, "sample": 20_000}
    for name, default in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--store", help="name of the file in docs/results")
    parser.add_argument("--only", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
