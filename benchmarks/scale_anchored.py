"""SimilarityLearner on rows on disk, its kernel included, and the linear map: time, memory, mAP; killed and resumed.

usage: python -m benchmarks.scale_anchored [--rows 1000000] [--features 512] [--classes 100] [--modes 3] [--folder DIR]
                                           [--fits "linear, 2GB, kill" "kernel, 2GB" …] [--store NAME]

Rows are those of `benchmarks.scale_disk`, but each class has several centres, so that no linear map is enough. Nothing
is set but the memory limit and the checkpoint. Each fit runs in a process of its own, whose peak memory includes the
interpreter. A fit with "kill" is then started once more, killed with -9 at a random moment after its settings were
chosen, and run to the end: the same model must come out as from the run that nobody disturbed. On Dask, two workers of
one thread run on this machine; memory is that of the largest process. With --store the table is kept in docs/results.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.results import show_table
from benchmarks.scale_disk import generate

WAYS = {"linear": "linear", "kernel": "auto", "kernel on Dask": "auto"}
FITS = ["linear, 2GB, kill", "kernel, 2GB", "kernel, 250MB, kill", "kernel on Dask, 250MB"]
FIT = """
import json, sys, time
from contextlib import ExitStack
import numpy as np
from benchmarks.measure import peak_resident
from likewise import SimilarityLearner
given = json.loads(sys.argv[1])

def main():
    model = SimilarityLearner(given["kernel"])
    with ExitStack() as opened:
        X, workers = given["data"], dict
        if given["dask"]:
            from distributed import Client, LocalCluster
            from likewise.learn.engines.dask import dask_rows
            options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
            cluster = opened.enter_context(LocalCluster(**options))
            client = opened.enter_context(Client(cluster))
            X, workers = dask_rows(X), lambda: client.run(lambda: (time.process_time(), peak_resident()))
        began, processor = time.perf_counter(), time.process_time() + sum(one for one, _ in workers().values())
        model.fit(X, np.load(given["labels"]))
        found, ended = {"seconds": time.perf_counter() - began}, workers().values()
        found["peak"] = max([peak_resident(), *(peak for _, peak in ended)])
        found["processor"] = time.process_time() + sum(one for one, _ in ended) - processor
    model.save(given["model"])
    test = np.load(given["test"])
    found |= {"mAP": model.score(test["X"], test["y"]), "setting": model.setting_}
    found["landmarks"] = 0 if model.landmarks_ is None else len(model.landmarks_)
    print(json.dumps(found))

if __name__ == "__main__":
    main()
"""


def main() -> None:
    arguments = _arguments()
    results = []
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        files = generate(Path(folder), arguments.rows, arguments.features, arguments.classes, arguments.modes)
        for fit in arguments.fits:
            way, limit, *kill = (word.strip() for word in fit.split(","))
            results.append({"way": way, "limit": limit, **_learned(files, way, limit, Path(folder), bool(kill))})
            print(results[-1], file=sys.stderr, flush=True)
    _show(arguments, results)


def _learned(files: dict[str, str], way: str, limit: str, folder: Path, kill: bool) -> dict[str, Any]:
    options = {**files, "kernel": WAYS[way], "limit": limit, "dask": "Dask" in way}
    whole = {**options, "model": str(folder / "whole.likewise"), "checkpoint": str(folder / f"{way} {limit}")}
    result: dict[str, Any] = json.loads(_run(whole).splitlines()[-1])
    if kill:
        again = {**options, "model": str(folder / "again.likewise"), "checkpoint": str(folder / f"{way} {limit} again")}
        result["killed"] = _killed(again, result["seconds"])
        result["left"] = json.loads(_run(again).splitlines()[-1])["seconds"]
        result["same"] = _digest(whole["model"]) == _digest(again["model"])
    return result


def _run(options: dict[str, Any]) -> str:
    command = [sys.executable, "-c", FIT, json.dumps(options)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def _killed(options: dict[str, Any], seconds: float) -> float:
    """Start a fit and kill it after its checkpoint was written, at a random moment of what is left."""
    began = time.perf_counter()
    with subprocess.Popen([sys.executable, "-c", FIT, json.dumps(options)], stdout=subprocess.DEVNULL) as process:
        while not Path(options["checkpoint"]).exists() and process.poll() is None:
            time.sleep(0.05)
        left = max(seconds - (time.perf_counter() - began), 0.0)
        time.sleep(random.Random(0).uniform(0.2, 0.8) * left)
        process.kill()
    return time.perf_counter() - began


def _digest(model: str) -> str:
    """Of all arrays that were learned; the name of the checkpoint differs."""
    from likewise.learn.model_file import read_tensors

    digest = hashlib.sha256()
    for name, value in sorted(read_tensors(model)[0].items()):
        digest.update(name.encode() + np.ascontiguousarray(value).tobytes())
    return digest.hexdigest()


def _show(arguments: argparse.Namespace, results: list[dict[str, Any]]) -> None:
    title = (
        f"SimilarityLearner, {arguments.rows:,} rows on disk x {arguments.features} float32, {arguments.classes:,} "
        f"classes of {arguments.modes} centres"
    )
    columns = [
        "memory limit", "map", "landmarks", "seconds", "of processor", "peak memory", "mAP", "killed; the same model",
    ]  # fmt: skip
    command = "python -m benchmarks.scale_anchored"
    show_table(title, command, columns, [_cells(row) for row in results], arguments.store)


def _cells(row: dict[str, Any]) -> list[str]:
    killed = ""
    if "killed" in row:
        same = "yes" if row["same"] else "NO"
        killed = f"after {row['killed']:.0f} s, resumed for {row['left']:.0f} s: {same}"
    return [
        row["limit"], row["way"], f"{row['landmarks']:,}" if row["landmarks"] else "", f"{row['seconds']:.0f}",
        f"{row['processor']:.0f}", f"{row['peak'] / 1e6:,.0f} MB", f"{row['mAP']:.3f}", killed,
    ]  # fmt: skip


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in {"rows": 1_000_000, "features": 512, "classes": 100, "modes": 3}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--folder", help="folder for the generated rows; default: the temporary folder of the system")
    parser.add_argument("--fits", nargs="+", default=FITS, help="each a map, its memory limit, and kill or nothing")
    parser.add_argument("--store", help="name of the file in docs/results")
    return parser.parse_args()


if __name__ == "__main__":
    main()
