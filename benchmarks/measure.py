"""Measuring time and memory, the same way in all benchmarks."""

from __future__ import annotations

import gc
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np


def best_seconds(function: Callable[[], object], repeats: int = 3) -> float:
    """The shortest of a few runs: the time without disturbance by other processes."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        function()
        times.append(time.perf_counter() - began)
    return min(times)


def best_of_each(*functions: Callable[[], object], repeats: int = 5) -> list[float]:
    """The shortest time of each function, run in turns, so that a disturbance does not affect only one of them."""

    def rested(function: Callable[[], object]) -> float:
        time.sleep(0.2)  # BLAS threads of the last product keep spinning for a while
        return best_seconds(function, 1)

    rounds = [[rested(function) for function in functions] for _ in range(repeats)]
    return [min(times) for times in zip(*rounds, strict=True)]


def gemm_rate(size: int = 4096, dtype: type = np.float32) -> float:
    """Floating-point operations per second of a square matrix product with all threads."""
    A = np.random.default_rng(0).standard_normal((size, size)).astype(dtype)
    return 2 * size**3 / best_seconds(lambda: A @ A, 5)


def peak_resident() -> int:
    """Peak resident memory of this process, in bytes.

    `ru_maxrss` is only the fallback, since a child process inherits that of its parent.
    """
    status = Path("/proc/self/status")
    if status.exists():
        return int(status.read_text().split("VmHWM:")[1].split()[0]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def mark_memory() -> int:
    """Reset the peak and return the resident memory; without Linux, where it cannot be reset, return the peak."""
    gc.collect()
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return peak_resident()


def peak_bytes(prepare: str, run: str) -> int:
    """Increase of peak resident memory by `run`, in a process that has executed `prepare`."""
    script = f"""
from benchmarks.measure import mark_memory, peak_resident
{prepare}
before = mark_memory()
{run}
print(peak_resident() - before)
"""
    output = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
    return int(output.split()[-1])


def clusters(n: int, d: int, n_classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Overlapping Gaussian classes in float32, the labelled rows of the benchmarks."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    centres = 0.3 * rng.standard_normal((n_classes, d), dtype=np.float32)
    return centres[y] + rng.standard_normal((n, d), dtype=np.float32), y
