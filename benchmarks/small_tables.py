"""SimilarityLearner on small tables: the gain of choosing the scaling, and of drawing several holdouts.

usage: python -m benchmarks.small_tables

mAP × 100 over five splits of 70/30, linear / kernel: unit rows and one holdout; the scaling chosen; and the default,
which also draws several holdouts if there are few rows.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from rich.progress import track
from rich.table import Table
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.model_selection import StratifiedShuffleSplit

from benchmarks.__main__ import show
from benchmarks.measure import clusters
from likewise import SimilarityLearner

WAYS: dict[str, dict[str, Any]] = {
    "unit rows, one holdout": {"scaling": "unit", "cv": StratifiedShuffleSplit(1, test_size=0.3, random_state=0)},
    "scaling chosen": {"cv": StratifiedShuffleSplit(1, test_size=0.3, random_state=0)},
    "default": {},
}


def tables() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Small data sets by name."""
    X, y = load_digits(return_X_y=True)
    units = np.exp(2 * np.random.default_rng(0).standard_normal(X.shape[1]))
    return {
        "iris": load_iris(return_X_y=True),
        "wine": load_wine(return_X_y=True),
        "breast cancer": load_breast_cancer(return_X_y=True),
        "145 digits": (X[:145], y[:145]),
        "digits": (X, y),
        "digits in random units": (X * units, y),
        "10 Gaussian classes": clusters(240, 64, 10),
    }


def measured(X: np.ndarray, y: np.ndarray, options: dict[str, Any]) -> str:
    """Mean and standard deviation over the splits."""
    splits = StratifiedShuffleSplit(5, test_size=0.3, random_state=1).split(X, y)
    scores = [SimilarityLearner(**options).fit(X[a], y[a]).score(X[b], y[b]) for a, b in splits]
    return f"{100 * np.mean(scores):.1f} ± {100 * np.std(scores, ddof=1):.1f}"


def main() -> None:
    if "--help" in sys.argv:
        sys.exit(__doc__)
    grid = Table("set", *WAYS)
    for name, (X, y) in track(tables().items(), "fitting", transient=True):
        cells = (
            " / ".join(measured(X, y, {**options, "kernel": kernel}) for kernel in ("linear", "auto"))
            for options in WAYS.values()
        )
        grid.add_row(name, *cells)
    show("mAP x 100 of SimilarityLearner, linear / kernel, five splits of 70/30", grid)


if __name__ == "__main__":
    main()
