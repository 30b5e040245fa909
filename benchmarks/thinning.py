"""What thinning a kernel costs and saves: mAP, a query, and the model's file, by the number of landmarks.

usage: python -m benchmarks.thinning DATA [SIZE ...]      default: all rows, 3000, 1500 and 500 landmarks

DATA is a labelled table or feature store; 30 % of each class rank each other. A query is one row through `transform`,
in processor time.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from rich.table import Table
from sklearn.model_selection import train_test_split

from benchmarks.__main__ import show
from likewise import SimilarityLearner
from likewise.rows import read_table

SIZES = (None, 3000, 1500, 500)
REPEATS = 50


def main() -> None:
    if len(sys.argv) < 2 or "--help" in sys.argv:
        sys.exit(__doc__)
    table = read_table(sys.argv[1]).labelled()
    X = np.asarray(table.X, dtype=np.float32)
    train, test = train_test_split(np.arange(len(X)), test_size=0.3, stratify=table.y, random_state=0)
    grid = Table("landmarks", "mAP × 100", "fit, processor s", "a query, ms", "file, MB", "map")
    for size in [int(word) for word in sys.argv[2:]] or SIZES:
        began = time.process_time()
        model = SimilarityLearner(n_landmarks=size, random_state=0).fit(X[train], table.y[train])
        learned = time.process_time()
        for _ in range(REPEATS):
            model.transform(X[test[:1]])
        query = 1000 * (time.process_time() - learned) / REPEATS
        with tempfile.TemporaryDirectory() as folder:
            file = model.save(Path(folder) / "model").stat().st_size / 1e6
        kind = f"kernel of width {model.setting_['gamma']:g}" if model.setting_["gamma"] else "linear"
        score = f"{100 * model.score(X[test], table.y[test]):.1f}"
        grid.add_row(f"{size or len(train):,}", score, f"{learned - began:.0f}", f"{query:.1f}", f"{file:.0f}", kind)
    show(f"{sys.argv[1]}: {len(train):,} rows of {X.shape[1]:,} learned from, {len(test):,} ranked", grid)


if __name__ == "__main__":
    main()
