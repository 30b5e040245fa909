"""Rows on disk, more than fit in memory: time per row as they grow, and the loss of landmarks against all pairs.

usage: python -m benchmarks.scale_disk [--rows 100000 300000 1000000] [--features 512] [--classes 1000] [--rank 64]
                                       [--landmarks 5000] [--iterations 3] [--limit 1GB] [--picture scale.png]
                                       [--folder DIR] [--no-exact] [--store NAME]

Rows are generated into a float32 file: classes around random centres in 64 directions, noise in all directions. Each
fit runs in its own process, and its peak resident memory includes the interpreter.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from benchmarks.results import show_table

QUERIES, BLOCK = 5_000, 50_000
FIT = """
import json, sys, time
import numpy as np
from benchmarks.measure import peak_resident
from likewise import SLR, open_rows
given = json.loads(sys.argv[1])
y = np.load(given["labels"])
model = SLR(given["rank"], max_iter=given["iterations"], random_state=0,
            compress="landmarks" if given["landmarks"] else None, compress_size=given["landmarks"] or None)
began = time.perf_counter()
model.fit(open_rows(given["data"], y, memory_limit=given["limit"]))
seconds = time.perf_counter() - began
peak = peak_resident()
test = np.load(given["test"])
print(json.dumps({"seconds": seconds, "peak": peak, "mAP": model.score(test["X"], test["y"])}))
"""


def main() -> None:
    """Generate, fit, print one table, draw one picture."""
    arguments = _arguments()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        results = [_grown(Path(folder), rows, arguments) for rows in sorted(arguments.rows)]
    _show(arguments, results)
    if arguments.picture:
        _draw(Path(arguments.picture), results)


def _grown(folder: Path, rows: int, arguments: argparse.Namespace) -> dict[str, float]:
    """Landmarks at one size, and all pairs at the smallest."""
    files = generate(folder, rows, arguments.features, arguments.classes)
    result = _fit(files, rows, arguments, arguments.landmarks)
    result["rows"] = rows
    if rows == min(arguments.rows) and not arguments.no_exact:
        exact = _fit(files, rows, arguments, 0)
        result |= {"exact_mAP": exact["mAP"], "exact_seconds": exact["seconds"]}
    for path in files.values():
        Path(path).unlink()
    return result


def generate(folder: Path, rows: int, features: int, classes: int, modes: int = 1) -> dict[str, str]:
    """Training rows, their labels, and test rows of the same classes, each of them around `modes` centres."""
    rng = np.random.default_rng(0)
    directions = np.linalg.qr(rng.standard_normal((features, min(64, features))))[0].T.astype(np.float32)
    centres = rng.standard_normal((classes * modes, len(directions)), dtype=np.float32) @ directions
    y = rng.integers(0, classes * modes, rows + QUERIES)
    files = {name: str(folder / f"{name}-{rows}.npy") for name in ("data", "labels")}
    files["test"] = str(folder / f"test-{rows}.npz")
    out = np.lib.format.open_memmap(files["data"], mode="w+", dtype=np.float32, shape=(rows, features))
    for first in range(0, rows, BLOCK):
        part = slice(first, min(first + BLOCK, rows))
        out[part] = centres[y[part]] + _noise(rng, part.stop - first, features)
    out.flush()
    np.save(files["labels"], y[:rows] % classes)
    np.savez(files["test"], X=centres[y[rows:]] + _noise(rng, QUERIES, features), y=y[rows:] % classes)
    return files


def _noise(rng: np.random.Generator, rows: int, features: int) -> np.ndarray:
    return np.float32(0.8) * rng.standard_normal((rows, features), dtype=np.float32)


def _fit(files: dict[str, str], rows: int, arguments: argparse.Namespace, landmarks: int) -> dict[str, float]:
    options = {**files, "rows": rows, "landmarks": landmarks, "rank": arguments.rank}
    options |= {"iterations": arguments.iterations, "limit": arguments.limit}
    command = [sys.executable, "-c", FIT, json.dumps(options)]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    result: dict[str, float] = json.loads(output.splitlines()[-1])
    return result


def _show(arguments: argparse.Namespace, results: list[dict[str, float]]) -> None:
    title = (
        f"rows on disk x {arguments.features} float32, generated, {arguments.classes:,} classes; "
        f"{arguments.landmarks:,} landmarks, rank {arguments.rank}, {arguments.iterations} iterations, "
        f"memory_limit={arguments.limit!r}"
    )
    columns = ["rows", "file", "seconds", "µs per row", "peak memory of the process", "mAP"]
    cells = [_cells(row, arguments.features) for row in results]
    show_table(title, "python -m benchmarks.scale_disk", columns, cells, arguments.store)


def _cells(row: dict[str, float], features: int) -> list[str]:
    exact = f"; over all pairs {row['exact_mAP']:.3f} in {row['exact_seconds']:.0f} s" if "exact_mAP" in row else ""
    return [
        f"{row['rows']:,}", f"{row['rows'] * features * 4 / 1e6:,.0f} MB", f"{row['seconds']:.1f}",
        f"{1e6 * row['seconds'] / row['rows']:.0f}", f"{row['peak'] / 1e6:,.0f} MB", f"{row['mAP']:.3f}{exact}",
    ]  # fmt: skip


def _draw(path: Path, results: Iterable[dict[str, float]]) -> None:
    """Seconds against rows, on logarithmic axes: proportional growth is a line of slope one."""
    from matplotlib.figure import Figure

    rows, seconds = zip(*((row["rows"], row["seconds"]) for row in results), strict=True)
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.add_subplot()
    axes.loglog(rows, seconds, "o-", label="measured")
    axes.loglog(rows, [seconds[0] * n / rows[0] for n in rows], "--", label="proportional to the first")
    axes.set(xlabel="rows on disk", ylabel="seconds")
    axes.legend()
    figure.savefig(path, dpi=120)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 300_000, 1_000_000])
    sizes = {"features": 512, "classes": 1_000, "rank": 64, "landmarks": 5_000, "iterations": 3}
    for name, default in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--limit", default="1GB")
    parser.add_argument("--picture")
    parser.add_argument("--folder", help="folder for the generated rows; default: the temporary folder of the system")
    parser.add_argument("--no-exact", action="store_true", help="skip all pairs at the smallest size")
    parser.add_argument("--store", help="name of the file in docs/results")
    return parser.parse_args()


if __name__ == "__main__":
    main()
