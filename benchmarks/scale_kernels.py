"""Kernels by the number of rows: all rows as landmarks, as many as 1 GB holds by two solvers, and 1,500 anchored ones.

usage: python -m benchmarks.scale_kernels [ROWS ...]      default: 2000 5000 10000 15000 25000 50000

Fashion-MNIST as pixels (Debian's dataset-fashion-mnist), settings fixed, each fit in a process of its own; mAP × 100 of
3,000 further rows ranking each other. Seconds are processor time of the fit; memory is the rise of the peak during it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
import scipy.linalg
from rich.table import Table
from sklearn.preprocessing import normalize
from sklearn.utils import gen_batches

from benchmarks.__main__ import show
from benchmarks.fashion_mnist import load_fashion_mnist
from benchmarks.measure import mark_memory, peak_resident
from likewise.evaluate import mean_average_precision
from likewise.learn.maths.engine import MemoryEngine
from likewise.learn.maths.kernels import Features, UnitRows
from likewise.learn.maths.regressions import ExactKernel, LandmarkKernel, RegressionFactory, class_target
from likewise.learn.maths.setting import Setting

ROWS = (2_000, 5_000, 10_000, 15_000, 25_000, 50_000)
N_TEST = 3_000
WIDTH, RIDGE = 2.0, 0.1
STEPS = 20  # of conjugate gradients
MOST_EXACT = 30_000  # rows: 3.6 GB, and minutes
Map = Callable[[np.ndarray], np.ndarray]


def exact(unit: UnitRows) -> Map:
    kernel = ExactKernel(unit, WIDTH)
    learned = kernel.learn(Setting(ridge=RIDGE), last=True)
    return lambda rows: kernel.encode(rows) @ learned.L


def gram(unit: UnitRows) -> Map:
    """As many landmarks as 1 GB holds, by one pass and two Cholesky factors: what SimilarityLearner does."""
    kernel = LandmarkKernel(unit, _landmarks(unit))
    learned = kernel.learn(Setting(ridge=RIDGE), last=True)
    return lambda rows: kernel.encode(rows) @ learned.L.astype(rows.dtype)


def gradients(unit: UnitRows) -> Map:
    """The same landmarks by conjugate gradients, preconditioned by their own kernel (FALKON): a pass for each step."""
    features, X = _landmarks(unit), unit.engine.X
    K_mm = features.metric()
    assert K_mm is not None
    n, m = len(X), len(K_mm)
    P = class_target(unit.size)[unit.engine.row_codes].astype(X.dtype)
    T = scipy.linalg.cholesky(K_mm)
    A = scipy.linalg.cholesky(T @ T.T * (n / m) + RIDGE * np.eye(m))
    mean = np.mean([features(X[part]).mean(axis=0) for part in gen_batches(n, 2048)], axis=0)

    def precondition(R: np.ndarray, trans: int = 0) -> np.ndarray:
        for factor in (T, A) if trans else (A, T):
            R = scipy.linalg.solve_triangular(factor, R, trans=trans, check_finite=False)
        return R

    def normal(V: np.ndarray | None) -> np.ndarray:
        """KᵀK V, or KᵀP; K centred, computed again in every pass."""
        total = 0.0
        for part in gen_batches(n, 2048):
            K = features(X[part]) - mean.astype(X.dtype)
            total = total + K.T @ (P[part] if V is None else K @ V.astype(X.dtype))
        return np.asarray(total, dtype=np.float64)

    B = precondition(normal(None), 1)
    Z, R = np.zeros_like(B), B.copy()
    D, square = R.copy(), np.einsum("ij,ij->j", R, R)
    for _ in range(STEPS):
        V = precondition(D)
        AD = precondition(normal(V) + RIDGE * K_mm @ V, 1)
        step = square / np.maximum(np.einsum("ij,ij->j", D, AD), 1e-300)
        Z, R = Z + step * D, R - step * AD
        new = np.einsum("ij,ij->j", R, R)
        D, square = R + new / np.maximum(square, 1e-300) * D, new
    projection = precondition(Z).astype(X.dtype)
    return lambda rows: (features(rows) - mean.astype(rows.dtype)) @ projection


def anchored(unit: UnitRows) -> Map:
    """1,500 landmarks, adapted: `n_landmarks=1500`."""
    regression = RegressionFactory(1500)(unit, 1.0)
    learned = regression.learn(Setting(1.0, 0.1, adaptation=1.0))
    return lambda rows: regression.encode(rows) @ learned.L.astype(rows.dtype)


WAYS = {"all rows": exact, "5,000, one pass": gram, "5,000, 20 gradients": gradients, "1,500 anchored": anchored}


def _landmarks(unit: UnitRows) -> Features:
    return unit.kernel(WIDTH, RegressionFactory().most_landmarks, np.random.default_rng(0))


def measured(way: str, n: int) -> dict[str, float]:
    """Seconds, bytes and mAP of one fit, in this process."""
    X, y = load_fashion_mnist()
    chosen = np.random.default_rng(0).permutation(len(y))[: n + N_TEST]
    X, codes = normalize(X[chosen]), np.unique(y[chosen], return_inverse=True)[1]
    unit = UnitRows(MemoryEngine(X[:n], codes[:n], 10))
    before, began = mark_memory(), time.process_time()
    images = WAYS[way](unit)
    seconds, memory = time.process_time() - began, peak_resident() - before
    Z = normalize(images(X[n:]))
    return {"seconds": seconds, "bytes": memory, "mAP": float(mean_average_precision(Z, Z, codes[n:]))}


def main() -> None:
    if "--help" in sys.argv:
        sys.exit(__doc__)
    grid = Table("rows", *WAYS)
    for n in [int(word) for word in sys.argv[1:]] or ROWS:
        cells = []
        for way in WAYS:
            if WAYS[way] is exact and n > MOST_EXACT:
                cells.append("-")
                continue
            script = (
                f"import json; from benchmarks.scale_kernels import measured; print(json.dumps(measured({way!r}, {n})))"
            )
            done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
            result = json.loads(done.stdout.splitlines()[-1])
            cells.append(f"{100 * result['mAP']:.1f}, {result['seconds']:.1f} s, {result['bytes'] / 1e6:,.0f} MB")
            print(n, way, cells[-1], file=sys.stderr)
        grid.add_row(f"{n:,}", *cells)
    show("Fashion-MNIST, 784 pixels, 10 classes: mAP × 100, seconds of processor to fit, memory above the rows", grid)


if __name__ == "__main__":
    main()
