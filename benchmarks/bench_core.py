"""The pass against GEMM, SLR against LDA, the memory of an exact fit."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from benchmarks.measure import best_of_each, clusters, peak_bytes
from likewise import SLR, SimilarityLearner
from likewise.learn.maths.engine import MemoryEngine
from likewise.learn.maths.labels import LabelTarget
from likewise.learn.maths.passes import PassColumns

Row = dict[str, object]


def rows() -> Iterator[Row]:
    yield from all_pairs_pass()
    yield from all_pairs_pass(71_000, ranks=(64, 128), repeats=2)
    yield from fit_against_lda()
    yield from small_and_wide()
    yield from memory_of_an_exact_fit()


def all_pairs_pass(n: int = 20_000, ranks: tuple[int, ...] = (64, 100, 128), repeats: int = 6) -> Iterator[Row]:
    """Two products per pair, 4 n² r operations; the time includes clamping and loss.

    Symmetric scores, those of a whole matrix, need three products for two tiles: the rate is that of the four.
    """
    for r in ranks:
        X, y = clusters(n, r, 50)
        engine, L = MemoryEngine(X, y, 50), np.eye(r) / np.sqrt(r)
        gallery, A = engine.gallery(L), np.random.default_rng(0).standard_normal((4096, 4096), dtype=np.float32)

        def sweep(symmetric: bool, e: MemoryEngine = engine, L: np.ndarray = L, g: PassColumns = gallery) -> object:
            return e.sweep(L, g, LabelTarget(), symmetric=symmetric)

        gemm, plain, mirrored = best_of_each(
            lambda A=A: A @ A, partial(sweep, False), partial(sweep, True), repeats=repeats
        )
        rate = 2 * 4096**3 / gemm
        for what, seconds in (("", plain), (" of a symmetric matrix", mirrored)):
            ours = 4 * n**2 * r / seconds
            yield {
                "what": f"all-pairs pass{what}, n = {n:,}, r = {r}, float32",
                "ours": f"{ours / 1e9:.0f} GF/s",
                "rival": f"GEMM {rate / 1e9:.0f} GF/s",
                "ratio": ours / rate,
                "goal": "≥ 0.9",
            }


def _given(model: SLR | SimilarityLearner) -> str:
    """Non-default parameters, and the kernel."""
    plain = type(model)().get_params()
    parameters = {k: v for k, v in model.get_params().items() if k == "kernel" or v != plain[k]}
    return ", ".join(f"{name}={value!r}" for name, value in parameters.items())


def fit_against_lda() -> Iterator[Row]:
    X, y = clusters(6000, 1000, 101)
    for goal, model in (
        ("< 1", SLR(100, adaptive=False)),
        ("≤ 1.3", SLR(100, max_iter=2)),
        ("≤ 3", SLR(100, max_iter=10)),
        ("≤ 2", SimilarityLearner("linear")),
        ("≤ 3", SimilarityLearner("auto")),
    ):
        rival = LinearDiscriminantAnalysis(solver="eigen", shrinkage=0.1)
        lda, ours = best_of_each(lambda: rival.fit(X, y), lambda m=model: m.fit(X, y), repeats=3)  # noqa: B023
        yield {
            "what": f"fit 6,000 x 1,000, 101 classes: {type(model).__name__}({_given(model)})",
            "ours": f"{ours:.2f} s",
            "rival": f"LDA {lda:.2f} s",
            "ratio": ours / lda,
            "goal": goal,
        }


def small_and_wide() -> Iterator[Row]:
    """941 rows of 1,280 columns, as a folder of photographs with a few classes has, all choosing included."""
    X, y = clusters(941, 1280, 16)
    for goal, model in ((5.0, SimilarityLearner()), (10.0, SimilarityLearner(settings={"share": 0.0}))):
        (seconds,) = best_of_each(lambda m=model: m.fit(X, y), repeats=2)  # type: ignore[misc]
        yield {
            "what": f"fit 941 x 1,280, 16 classes: SimilarityLearner({_given(model)})",
            "ours": f"{seconds:.1f} s",
            "rival": f"goal {goal:g} s",
            "ratio": seconds / goal,
            "goal": "≤ 1",
        }


def memory_of_an_exact_fit() -> Iterator[Row]:
    prepare = """
from benchmarks.measure import clusters
from likewise import SLR, SimilarityLearner
X, y = clusters(60_000, 784, 10)
"""
    X = 60_000 * 784 * 4
    grown = peak_bytes(prepare, "SLR(64, max_iter=2).fit(X, y)")
    yield {
        "what": "peak memory of an exact fit, 60,000 x 784, rank 64, 2 iterations",
        "ours": f"X + {grown / 1e6:.0f} MB",
        "rival": f"X is {X / 1e6:.0f} MB",
        "ratio": (X + grown) / (2 * X + 500e6),
        "goal": "≤ 1 of 2 X + 500 MB",
    }
