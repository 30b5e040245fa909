"""A generated catalogue of any size: vectors in groups, ids, a few labels, and columns to filter by.

usage: python -m benchmarks.catalogue FILE.parquet [--rows 1000000] [--width 128]
       python -m benchmarks.catalogue FILE.npy [--rows 10000000] [--width 64]

Groups lie around random centres that lie around fifty others, as kinds of goods do; their rows differ in 32 directions,
with a little noise in all. One row in fifty has the name of its group as its label. A file is the same every time, and
a row is the same whatever the number of rows.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np

BLOCK = 50_000
KINDS, GROUPS, INNER = 50, 2_000, 32
LABELLED = 50  # one row in this many


def blocks(rows: int, width: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Vectors in float32 and the number of the group of each row, block by block."""
    rng = np.random.default_rng(0)
    kinds = rng.standard_normal((KINDS, INNER), dtype=np.float32)
    centres = kinds[np.arange(GROUPS) % KINDS] + 0.7 * rng.standard_normal((GROUPS, INNER), dtype=np.float32)
    directions = np.linalg.qr(rng.standard_normal((width, min(INNER, width))))[0].T.astype(np.float32)
    for first in range(0, rows, BLOCK):
        block_rng = np.random.default_rng((1, first))  # so that no block depends on those before it
        group = block_rng.integers(0, GROUPS, BLOCK)
        inner = centres[group] + 0.5 * block_rng.standard_normal((BLOCK, INNER), dtype=np.float32)
        X = inner[:, : len(directions)] @ directions + 0.05 * block_rng.standard_normal(
            (BLOCK, width), dtype=np.float32
        )
        yield X[: rows - first], group[: rows - first]


def write_npy(path: Path, rows: int, width: int) -> Path:
    """The vectors alone, as a matrix."""
    out = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(rows, width))
    for number, (X, _) in enumerate(blocks(rows, width)):
        out[number * BLOCK : number * BLOCK + len(X)] = X
    out.flush()
    return path


def write_parquet(path: Path, rows: int, width: int) -> Path:
    """Vectors, ids, labels, and a kind, a price and a day for each row."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = {"id": pa.string(), "embedding": pa.list_(pa.float32(), width), "label": pa.string(), "kind": pa.string()}
    schema = pa.schema([*types.items(), ("price", pa.float64()), ("day", pa.date32())])
    with pq.ParquetWriter(path, schema, compression="none") as file:
        for number, (X, group) in enumerate(blocks(rows, width)):
            rng, first = np.random.default_rng((2, number)), number * BLOCK
            ids = [f"item-{row:08d}" for row in range(first, first + len(X))]
            labels = [f"group {g}" if (first + i) % LABELLED == 0 else None for i, g in enumerate(group)]
            columns = [
                pa.array(ids),
                pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), width),
                pa.array(labels, pa.string()),
                pa.array([f"kind {g % KINDS:02d}" for g in group]),
                pa.array(rng.gamma(2, 20, len(X)).round(2)),
                pa.array(rng.integers(18_000, 20_500, len(X)).astype(np.int32)).cast(pa.date32()),
            ]
            file.write_batch(pa.record_batch(columns, schema=schema))
    return path


def write(path: Path, rows: int, width: int) -> Path:
    """The file that its ending says."""
    return (write_npy if path.suffix == ".npy" else write_parquet)(path, rows, width)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--width", type=int, default=128)
    arguments = parser.parse_args()
    write(arguments.file, arguments.rows, arguments.width)


if __name__ == "__main__":
    main()
