"""Mean average precision compared with a loop over scikit-learn, and its peak memory."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from sklearn.metrics import average_precision_score

from benchmarks.measure import peak_bytes
from likewise.evaluate import mean_average_precision

__all__ = ["rows"]

N, D, CLASSES = 10_000, 64, 100
N_LOOP = 300  # queries the loop is timed on; its time is proportional to them

PREPARE = """
from benchmarks.bench_metrics import data
from likewise.evaluate import mean_average_precision
Q, y_q = data(10_000, seed=1)
G, y_g = data(60_000)
mean_average_precision(Q[:50], G[:500], y_q[:50], y_g[:500])
"""


def rows() -> list[dict[str, object]]:
    """Rows of the table: what, ours, rival, ratio, goal."""
    return [_speed(), _memory()]


def data(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Float32 rows around class means, and their labels."""
    rng = np.random.default_rng(seed)
    y = rng.integers(CLASSES, size=n)
    means = 0.5 * np.random.default_rng(99).standard_normal((CLASSES, D), dtype=np.float32)
    return means[y] + rng.standard_normal((n, D), dtype=np.float32), y


def _speed() -> dict[str, object]:
    X, y = data(N)
    ours = min(_seconds(lambda: mean_average_precision(X, X, y)) for _ in range(3))
    loop = min(_seconds(lambda: _loop(X, y)) for _ in range(2)) * N / N_LOOP
    return {
        "what": f"mAP of {N:,} × {N:,} (d = {D}, {CLASSES} classes, float32)",
        "ours": f"{ours:.2f} s",
        "rival": f"{loop:.1f} s: loop over average_precision_score, {N_LOOP} queries timed and scaled",
        "ratio": round(loop / ours, 1),
        "goal": "≥ 10 times faster",
    }


def _loop(X: np.ndarray, y: np.ndarray) -> float:
    """Mean average precision of the first queries with scikit-learn."""
    S = X[:N_LOOP] @ X.T
    others = np.full(len(X), True)
    values = []
    for i, scores in enumerate(S):
        others[i] = False
        values.append(average_precision_score(y[others] == y[i], scores[others]))
        others[i] = True
    return float(np.mean(values))


def _memory() -> dict[str, object]:
    megabytes = peak_bytes(PREPARE, "mean_average_precision(Q, G, y_q, y_g)") / 1e6
    return {
        "what": f"mAP of 10,000 queries × 60,000 (d = {D}): peak memory above the data",
        "ours": f"{megabytes:.0f} MB",
        "rival": "2,400 MB: all scores in float32",
        "ratio": megabytes / 1000,
        "goal": "≤ 1 of 1,000 MB above X",
    }


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
