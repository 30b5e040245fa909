"""Vectors in a Parquet file that is larger than the memory given to them: peak memory of a fit and of an index.

usage: python -m benchmarks.scale_parquet [--rows 100000 400000] [--width 256] [--limit 300MB] [--folder DIR]

Rows are classes around random centres. Each step runs in its own process: an empty one that only imports, a
fit of SimilarityLearner from the path, and an index of all rows, whose vectors alone are in memory. Peaks are of
resident memory and include the interpreter.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.table import Table

from benchmarks.__main__ import show

BLOCK, CENTRES = 20_000, 100
STEP = """
import json, sys, time
from benchmarks.measure import peak_resident
from likewise import SimilarityLearner, load, open_rows
from likewise.search import Index
step, path, model, limit = sys.argv[1:]
began = time.perf_counter()
if step == "fit":
    made = SimilarityLearner(kernel="linear", random_state=0)
    made.fit(open_rows(path, memory_limit=limit)).save(model)
elif step == "index":
    Index.build(load(model), path).save(model + ".index")
print(json.dumps([time.perf_counter() - began, peak_resident()]))
"""


def write(path: Path, rows: int, width: int) -> None:
    """Vectors and labels, a row group at a time."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(CENTRES, width)).astype(np.float32)
    schema = pa.schema([("id", pa.string()), ("embedding", pa.list_(pa.float32(), width)), ("label", pa.int64())])
    with pq.ParquetWriter(path, schema, compression="none") as file:
        for first in range(0, rows, BLOCK):
            y = rng.integers(0, CENTRES, min(BLOCK, rows - first))
            X = centres[y] + 2 * rng.standard_normal((len(y), width), dtype=np.float32)
            ids = [f"doc-{row}" for row in range(first, first + len(y))]
            vectors = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), width)
            file.write_batch(pa.record_batch([ids, vectors, y], schema=schema))


def step(name: str, path: Path, limit: str) -> tuple[float, float]:
    """Seconds and peak megabytes."""
    command = [sys.executable, "-c", STEP, name, str(path), str(path.with_suffix(".likewise")), limit]
    seconds, peak = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    return seconds, peak / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 400_000])
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--limit", default="300MB")
    parser.add_argument("--folder")
    arguments = parser.parse_args()
    grid = Table("rows", "file, MB", "imports, MB", "fit, s", "peak, MB", "index, s", "peak, MB", "its vectors, MB")
    for rows in arguments.rows:
        with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
            path = Path(folder) / "rows.parquet"
            write(path, rows, arguments.width)
            lines = [step(name, path, arguments.limit) for name in ("import", "fit", "index")]
            held = np.load(next(path.with_suffix(".likewise.index").glob("**/vectors.npy")), mmap_mode="r").nbytes
            cells = [path.stat().st_size / 2**20, lines[0][1], *lines[1], *lines[2], held / 2**20]
            grid.add_row(f"{rows:,}", *(f"{value:.0f}" for value in cells))
    show(f"Vectors of {arguments.width} numbers in Parquet, a memory limit of {arguments.limit}", grid)


if __name__ == "__main__":
    main()
