"""The pass in torch compared with NumPy and with a square GEMM, in float32 and with bfloat16 tiles."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np

from benchmarks.measure import best_seconds, clusters, gemm_rate
from likewise.learn.engines.memory import MemoryEngine
from likewise.learn.maths.labels import LabelTarget

Row = dict[str, object]


def rows(n: int = 12_000, r: int = 100) -> Iterator[Row]:
    """4 n² r operations per pass; the time includes clamping and loss."""
    try:
        import torch
    except ImportError:
        yield _row("torch is not installed", "", "", "", "")
        return
    from likewise.learn.engines.array_api import ArrayEngine, gains_from_bfloat16

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
    own = _torch_gemm(torch)
    yield _row("torch GEMM, float32, against NumPy's", own, f"{rate / 1e9:.0f} GF/s", own / rate, "")
    has = gains_from_bfloat16()
    some = n if has else min(n, 2000)  # without these instructions bfloat16 is emulated, and very slow
    half = _rate(ArrayEngine(torch.from_numpy(X[:some]), y[:some], 50, tile_dtype="bfloat16"), some, r)
    what = "torch pass, bfloat16 tiles" + ("" if has else ": no gain, this processor has no AVX512_BF16")
    yield _row(what, half, f"GEMM {rate / 1e9:.0f} GF/s", half / rate, "≥ 1.4" if has else "")
    yield from precision()


def precision() -> Iterator[Row]:
    """mAP with float32 and bfloat16 tiles on digits, real data."""
    import torch
    from sklearn.datasets import load_digits

    from likewise import SLR

    X, y = load_digits(return_X_y=True)
    X = torch.from_numpy((X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32))
    plain, half = (
        100 * SLR(32, n_iter=5, rows={"tile_dtype": kind}).fit(X[:1200], y[:1200]).score(X[1200:], y[1200:])
        for kind in (None, "bfloat16")
    )
    yield _row(
        "mAP on digits, bfloat16 tiles against float32",
        f"{half:.2f} %",
        f"{plain:.2f} %",
        half / plain,
        "within .2 points",
    )


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
