"""Ten million vectors on disk, indexed and searched from the command line; a build that is killed ends the same.

usage: python -m benchmarks.ten_million [--rows 10000000] [--width 64] [--kind ivfpq] [--kills 3] [--folder DIR]
                                        [--store NAME]

The vectors are those of `benchmarks.catalogue`, in a .npy file. `likewise index` is killed (kill -9) at random moments
and called again, as often as --kills says, then built once more without; the lists, codes and vectors of both must be
the same, byte by byte. With --folder, the first build is kept for the next call. Then `likewise search` finds the
neighbours of single rows. Memory is the peak of the command.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import catalogue
from benchmarks.photo_story import LIKEWISE
from benchmarks.results import Figure, show_figures

CHECKED = ("approximate.faiss", "vectors.npy")


def command(rows: Path, index: Path, kind: str) -> list[str]:
    return [*LIKEWISE, "index", str(rows), "-o", str(index), "--approximate", kind, "--neighbors", "0", "--json"]


def killed(words: list[str], times: int, seconds: float) -> int:
    """Begin a build so often and kill it at a random moment; how often it was killed before it was done."""
    done = 0
    rng = random.Random(0)
    for _ in range(times):
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            process.wait(rng.uniform(0.1, 0.4) * seconds)
            break
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            done += 1
    return done


def finished(words: list[str]) -> tuple[dict[str, Any], float, float]:
    """What a build says, its seconds, and the gigabytes it took at most."""
    began, before = time.perf_counter(), peak_of_children()
    summary = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(summary), time.perf_counter() - began, max(before, peak_of_children())


def once(cache: Path, words: list[str]) -> tuple[dict[str, Any], float, float]:
    """As `finished`, or what it found the last time in this folder."""
    if not cache.exists():
        cache.write_text(json.dumps(finished(words)))
    summary, seconds, peak = json.loads(cache.read_text())
    return summary, seconds, peak


def peak_of_children() -> float:
    import resource

    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e6 * 1.024


def digests(index: Path) -> list[str]:
    values = []
    for name in CHECKED:
        with open(next(index.glob(f"*/{name}")), "rb") as file:
            values.append(hashlib.file_digest(file, "sha256").hexdigest())
    return values


def figures(folder: Path, words: argparse.Namespace) -> Iterator[Figure]:
    rows, whole, resumed = folder / "rows.npy", folder / "whole.index", folder / "resumed.index"
    if not rows.exists():
        catalogue.write(rows, words.rows, words.width)
    summary, seconds, peak = once(folder / "whole.json", command(rows, whole, words.kind))
    yield Figure(f"built ({summary['approximate']})", seconds, "s")
    yield Figure("memory of the build at most, mapped files included", peak, "GB")
    yield Figure("lists and codes, per item", summary["bytes_per_item"], "bytes")
    yield Figure("a vector itself, per item", 4 * words.width, "bytes")
    yield Figure("recall@10, against exact search by a sample of the rows", 100 * summary["recall"], "%")
    times = searched(whole, words.rows)
    yield Figure("likewise search by a row, checksums and all", times[0], "s")
    yield Figure("a search in an index that is open", times[1], "ms")
    if words.kills:
        n = killed(command(rows, resumed, words.kind), words.kills, seconds)
        finished(command(rows, resumed, words.kind))
        same = digests(whole) == digests(resumed)
        yield Figure(f"killed {n} times, resumed: the same lists and vectors (1) or not (0)", float(same))


def searched(index: Path, n: int) -> tuple[float, float]:
    """Seconds of the command, and milliseconds of a search in an open index."""
    from likewise.search import Index

    began = time.perf_counter()
    row = [*LIKEWISE, "search", str(index), "--row", str(n // 2), "-k", "10"]
    subprocess.run(row, check=True, stdout=subprocess.DEVNULL)
    seconds = time.perf_counter() - began
    opened = Index.load(index, verify=False)
    opened.search(rows=[1], k=10)
    began = time.perf_counter()
    for number in range(50):
        opened.search(rows=[(number * 7_919) % n], k=10)
    return seconds, 1e3 * (time.perf_counter() - began) / 50


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--kind", default="ivfpq")
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="folder for the vectors and the index; default: a temporary one")
    parser.add_argument("--store", help="name of the file in docs/results")
    words = parser.parse_args()
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.pop(name, None)
    with tempfile.TemporaryDirectory() as temporary:
        about = f"{words.rows:,} × {words.width} from the command line, generated"
        measured = figures(words.folder or Path(temporary), words)
        show_figures(about, "python -m benchmarks.ten_million", measured, words.store)


if __name__ == "__main__":
    main()
