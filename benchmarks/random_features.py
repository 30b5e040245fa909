"""What it costs that blocks add up: mAP of maps that `partial_fit` can learn, beside those that need all rows at once.

usage: python -m benchmarks.random_features [DATA ...]      default: digits fashion-mnist

Digits, Fashion-MNIST as pixels (Debian's dataset-fashion-mnist) or any feature stores: half of the rows to learn from,
10,000 at most, and 3,000 at most of the others to rank each other. Settings are chosen by `fit` inside the rows to
learn from; `for_blocks` fixes them, and ten blocks are added with `partial_fit`. mAP × 100, and seconds: for blocks
those of adding and solving, for the others those of the fit, choosing included.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from rich.table import Table

from benchmarks.__main__ import show
from likewise import SimilarityLearner
from likewise.evaluate import mean_average_precision
from likewise.paper.datasets import Dataset, load_dataset

MOST_TRAIN, MOST_TEST, BLOCKS = 10_000, 3_000, 10
Learned = tuple[Any, float]  # a model, seconds


def in_blocks(chosen: SimilarityLearner, X: np.ndarray, y: np.ndarray) -> Learned:
    """The model of ten blocks, with the settings of a fit."""
    model, began = chosen.for_blocks(), time.perf_counter()
    for block in np.array_split(np.arange(len(y)), BLOCKS):
        model.partial_fit(X[block], y[block], solve=False)
    return model.solve(), time.perf_counter() - began


def at_once(X: np.ndarray, y: np.ndarray, kernel: str, size: int | None = None) -> Learned:
    began = time.perf_counter()
    scaling = "auto" if size is None else "unit"
    return SimilarityLearner(kernel, kernel_size=size, scaling=scaling).fit(X, y), time.perf_counter() - began


def blocks(kernel: str, size: int | None = None) -> Callable[[np.ndarray, np.ndarray], Learned]:
    """Scalings that add up are tried, and the better one taken by held-out rows."""

    def learned(X: np.ndarray, y: np.ndarray) -> Learned:
        tried = [
            SimilarityLearner(kernel, kernel_size=size, scaling=scaling).fit(X, y) for scaling in ("unit", "roots")
        ]
        return in_blocks(max(tried, key=lambda model: model.held_out_["mAP"]), X, y)

    return learned


WAYS: dict[str, Callable[[np.ndarray, np.ndarray], Learned]] = {
    "blocks, linear": blocks("linear"),
    **{f"blocks, {size:,} random features": blocks("random", size) for size in (1_000, 2_000)},
    "all rows, linear and adapted": lambda X, y: at_once(X, y, "linear"),
    "all rows, 1,500 landmarks": lambda X, y: at_once(X, y, "rbf", 1_500),
    "all rows, `SimilarityLearner()`": lambda X, y: at_once(X, y, "auto"),
}


def measured(data: Dataset) -> list[str]:
    """The cells of one data set: the raw cosine, then each way."""
    order, n = np.random.default_rng(0).permutation(len(data.y)), min(len(data.y) // 2, MOST_TRAIN)
    train, test = order[:n], order[n : n + MOST_TEST]
    X, Q = data.X[train].astype(np.float32), data.X[test].astype(np.float32)
    Z = Q / np.maximum(np.linalg.norm(Q, axis=1, keepdims=True), 1e-30)
    cells = [f"{100 * mean_average_precision(Z, Z, data.y[test]):.1f}"]
    for name, way in WAYS.items():
        model, seconds = way(X, data.y[train])
        cells.append(f"{100 * model.score(Q, data.y[test]):.1f}, {seconds:.1f} s")
        print(data.name, name, cells[-1], file=sys.stderr, flush=True)
    return cells


def main() -> None:
    sets = [load_dataset(name) for name in (sys.argv[1:] or ("digits", "fashion-mnist"))]
    columns = [measured(data) for data in sets]
    grid = Table("", *(f"{data.name}, {min(len(data.y) // 2, MOST_TRAIN):,} × {data.X.shape[1]:,}" for data in sets))
    for name, *cells in zip(["raw cosine", *WAYS], *columns, strict=True):
        grid.add_row(name, *cells)
    show("mAP × 100 of rows not learned from, and seconds", grid)


if __name__ == "__main__":
    main()
