"""Features of many pictures by `likewise features`: images per second and memory as they grow, killed and resumed.

usage: python -m benchmarks.scale_features PHOTOS [--images 100000] [--kills 2] [--extractor efficientnet-lite0]
                                           [--folder DIR] [--store NAME]

The pictures are those of PHOTOS, each several times: a copy has its number behind the end of the picture, so that no
two files have the same bytes and each is read, decoded and computed. The command is killed (kill -9) at random moments
and called again; at the end the features of all copies of a picture must be the same, bit by bit. Memory is the
resident set of the command and of the processes it started without mapped files, which the system takes back when it
needs them; it is seen twice a second.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.photo_story import LIKEWISE
from benchmarks.results import Figure, show_figures

ENDINGS = (".jpg", ".jpeg", ".png")  # readers of these stop at the end of the picture
TENTHS = 10


def copies(photos: Path, folder: Path, n: int) -> int:
    """Write n files, and return of how many pictures they are."""
    files = sorted(path for path in photos.rglob("*") if path.suffix.lower() in ENDINGS)
    if not files:
        raise SystemExit(f"{photos} has no JPEG or PNG files")
    for number, path in zip(range(n), itertools.cycle(files), strict=False):
        part = folder / f"{number // 1000:04d}"
        if number % 1000 == 0:
            part.mkdir(parents=True, exist_ok=True)
        (part / f"{number % len(files):06d}-{number:07d}{path.suffix}").write_bytes(path.read_bytes() + b"%d" % number)
    return min(n, len(files))


class Run:
    """`likewise features` in a process: how far it is, and what it holds."""

    def __init__(self, photos: Path, output: Path, extractor: str) -> None:
        words = [
            *LIKEWISE,
            "features",
            str(photos),
            "-o",
            str(output),
            "--extractor",
            extractor,
            "--labels",
            "none",
            "--json",
        ]
        self._rows = output / ".work" / "rows.bin"
        self.process = subprocess.Popen(
            [*words, "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def kill_after(self, seconds: float) -> bool:
        """Whether it was killed; False if it had ended before."""
        try:
            self.process.wait(seconds)
            return False
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return True

    def bytes_done(self) -> int:
        return self._rows.stat().st_size if self._rows.exists() else 0

    def megabytes(self, what: str) -> float:
        """Resident (VmRSS), or not of a mapped file (RssAnon), of the process and its children."""
        return sum(_resident(pid, what) for pid in [self.process.pid, *_children(self.process.pid)]) / 1e3

    def followed(self) -> tuple[dict[str, Any], list[tuple[float, int, float, float]]]:
        """What it says at its end, and (seconds, bytes done, megabytes of its own, megabytes) on the way."""
        seen, began = [], time.perf_counter()
        while self.process.poll() is None:
            if self.bytes_done():
                held = self.megabytes("RssAnon"), self.megabytes("VmRSS")
                seen.append((time.perf_counter() - began, self.bytes_done(), *held))
            time.sleep(0.5)
        summary = self.process.communicate()[0]
        if self.process.returncode:
            raise SystemExit(f"likewise features ended with {self.process.returncode}")
        return json.loads(summary), seen


def _resident(pid: int, what: str) -> float:
    try:
        return float(Path(f"/proc/{pid}/status").read_text().split(f"{what}:")[1].split()[0]) * 1.024
    except (OSError, IndexError):  # it has ended
        return 0.0


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def same_copies(output: Path, pictures: int) -> bool:
    """Whether all rows of a picture are the same."""
    from likewise.rows import FeatureStore

    store = FeatureStore.open(output)
    of = np.array([int(Path(str(path)).name.split("-")[0]) for path in store.paths])
    order = np.argsort(of, kind="stable")
    first = order[np.searchsorted(of[order], np.arange(pictures))]
    X = np.asarray(store.features)
    return all(np.array_equal(X[part], X[first[of[part]]]) for part in np.array_split(np.arange(len(X)), 100))


def figures(folder: Path, words: argparse.Namespace) -> Iterator[Figure]:
    photos, output, rng = folder / "photos", folder / "photos.features", random.Random(0)
    pictures = copies(words.photos, photos, words.images)
    yield Figure(f"images, copies of {pictures:,} pictures", words.images)
    killed, lost = 0, 0.0
    for _ in range(words.kills):
        run = Run(photos, output, words.extractor)
        killed += run.kill_after(rng.uniform(10, 40))
        lost = max(lost, float(run.bytes_done()))
    began = time.perf_counter()
    summary, seen = Run(photos, output, words.extractor).followed()
    width = 4 * summary["n_features"]
    rate = [(b[1] - a[1]) / width / (b[0] - a[0]) for a, b in itertools.pairwise(seen[:: max(1, len(seen) // TENTHS)])]
    yield Figure(f"images done before it was killed {killed} times", lost / width)
    yield Figure("the rest", time.perf_counter() - began, "s")
    yield Figure("images per second, all of the rest", (seen[-1][1] - seen[0][1]) / width / (seen[-1][0] - seen[0][0]))
    yield Figure("images per second, the slowest tenth", min(rate))
    tenth = max(1, len(seen) // TENTHS)
    for column, what in ((2, "memory"), (3, "memory, mapped files included,")):
        held = [line[column] for line in seen]
        yield Figure(f"{what} in the second tenth, at most", max(held[tenth : 2 * tenth] or held), "MB")
        yield Figure(f"{what} in the last tenth, at most", max(held[-tenth:]), "MB")
    yield Figure("images in the store", float(summary["n_items"]))
    yield Figure("all copies of a picture have the same features (1) or not (0)", float(same_copies(output, pictures)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", type=Path)
    parser.add_argument("--images", type=int, default=100_000)
    parser.add_argument("--kills", type=int, default=2)
    parser.add_argument("--extractor", default="efficientnet-lite0")
    parser.add_argument("--folder", help="folder for the copies; default: the temporary folder of the system")
    parser.add_argument("--store", help="name of the file in docs/results")
    words = parser.parse_args()
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.pop(name, None)
    with tempfile.TemporaryDirectory(dir=words.folder) as folder:
        about = f"{words.extractor} of {words.images:,} files"
        show_figures(about, "python -m benchmarks.scale_features PHOTOS", figures(Path(folder), words), words.store)


if __name__ == "__main__":
    main()
