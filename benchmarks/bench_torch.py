"""The pass in torch compared with NumPy and with a square GEMM, in float32."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np

from benchmarks.measure import best_seconds, clusters, gemm_rate
from likewise.learn.maths.engine import MemoryEngine
from likewise.learn.maths.labels import LabelTarget

Row = dict[str, object]


def rows(n: int = 12_000, r: int = 100) -> Iterator[Row]:
    """4 n² r operations per pass; the time includes clamping and loss."""
    try:
        import torch
    except ImportError:
        yield _row("torch is not installed", "", "", "", "")
        return
    from likewise.learn.engines.array_api import ArrayEngine

    torch.set_num_threads(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    X, y = clusters(n, r, 50)
    rate = gemm_rate()
    numpy_rate = _rate(MemoryEngine(X, y, 50), n, r)
    torch_rate = _rate(ArrayEngine(torch.from_numpy(X), y, 50), n, r)
    yield _row(
        f"NumPy pass, n = {n:,}, r = {r}, float32", numpy_rate, f"GEMM {rate / 1e9:.0f} GF/s", numpy_rate / rate, ""
    )
    yield _row(
        "torch pass, float32, against NumPy's", torch_rate, f"{numpy_rate / 1e9:.0f} GF/s", torch_rate / numpy_rate, ""
    )
    gemm = _torch_gemm(torch)
    yield _row("torch GEMM, float32, against NumPy's", gemm, f"{rate / 1e9:.0f} GF/s", gemm / rate, "")


def _rate(engine: object, n: int, r: int) -> float:
    L = np.eye(r) / np.sqrt(r)
    gallery = engine.gallery(L)  # type: ignore[attr-defined]
    return 4 * n**2 * r / best_seconds(lambda: engine.sweep(L, gallery, LabelTarget()))  # type: ignore[attr-defined]


def _torch_gemm(torch: object, size: int = 4096) -> float:
    A = torch.randn(size, size)  # type: ignore[attr-defined]
    return 2 * size**3 / best_seconds(lambda: A @ A)


def _row(what: str, ours: object, rival: str, ratio: object, goal: str) -> Row:
    shown = f"{ours / 1e9:.0f} GF/s" if isinstance(ours, float) else ours
    return {"what": what, "ours": shown, "rival": rival, "ratio": ratio, "goal": goal}
