"""Search and teaching at the size of Caltech101, and search in 100,000 items, compared with one bare product.

Features are generated, 8,677 × 1,280 in 101 overlapping classes, unless LIKEWISE_STORE names a feature store.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import best_seconds, clusters

__all__ = ["rows"]


def rows() -> list[dict[str, object]]:
    """Seconds per lesson, milliseconds per query."""
    from likewise import SimilarityLearner
    from likewise.rivals import Cosine
    from likewise.search import Index

    X, y = _features()
    some = np.random.default_rng(0).permutation(len(X))[:3000]
    trained = SimilarityLearner(kernel="linear", settings={"ridge": 0.3, "adaptation": 0.0, "geometry": "one-hot"}).fit(
        X[some], y[some]
    )
    table = []
    for name, model in (("untrained cosine", Cosine(centre=True).fit(X)), ("SimilarityLearner", trained)):
        table.append(_lesson(name, Index.build(model, X, {"label": y}), y))
    table.append(_query("a query by row, learned side", Index.build(trained, X)))
    V = np.random.default_rng(0).standard_normal((100_000, 100), dtype=np.float32)
    table.append(_query("a query by row, 100,000 items, width 100", Index.build(Cosine().fit(V), V)))
    return table


def _features() -> tuple[np.ndarray, np.ndarray]:
    if "LIKEWISE_STORE" not in os.environ:
        return clusters(8677, 1280, 101)
    from likewise.rows import FeatureStore

    store = FeatureStore.open(Path(os.environ["LIKEWISE_STORE"]))
    return np.asarray(store.features, np.float32), np.asarray(store.labels)


def _lesson(name: str, index: Any, y: np.ndarray) -> dict[str, object]:
    """From 20 marks to an index that is ready to search, including mAP on held-out items before and after."""
    from likewise.teach import Teacher

    began = time.perf_counter()
    teacher = Teacher(index)
    teacher.prepare()
    ready = time.perf_counter() - began
    for query, item in _pairs(teacher, y):
        teacher.mark(query, item, bool(y[query] == y[item]))
    lessons = []
    for _ in range(3):
        teacher.index = index
        lessons.append(teacher.learn())
    seconds = min(lesson.seconds for lesson in lessons)
    lesson = lessons[-1]
    return {
        "what": f"refit from {lesson.n_marks} marks, {len(y):,} × {index.raw.shape[1]:,}, {name}",
        "ours": f"{seconds:.2f} s; once per index {ready:.1f} s",
        "rival": f"{lesson.n_marks} marks",
        "ratio": round(seconds, 3),
        "goal": "< 1 s",
    }


def _pairs(teacher: Any, y: np.ndarray) -> list[tuple[int, int]]:
    """Five queries; for each, two wrong results among the first 20 if there are any, and the lowest right ones."""
    rng = np.random.default_rng(0)
    free = np.setdiff1d(np.arange(len(y)), teacher._held)
    pairs = []
    for query in rng.choice(free, 5, replace=False):
        top = teacher.index.search(rows=[query], k=60).rows[0]
        top = top[np.isin(top, free)][:20]
        wrong, right = top[y[top] != y[query]], top[y[top] == y[query]][::-1]
        pairs += [(int(query), int(item)) for item in [*wrong[:2], *right, *wrong[2:]][:4]]
    return pairs


def _query(name: str, index: Any) -> dict[str, object]:
    """One query at a time, compared with the bare product of one vector with all others."""
    rng = np.random.default_rng(1)
    queries = rng.integers(0, len(index), 100)
    index.search(rows=[0], k=10)
    ours = best_seconds(lambda: [index.search(rows=[row], k=10) for row in queries]) / len(queries)
    bare = best_seconds(lambda: [index.vectors @ index.vectors[row] for row in queries]) / len(queries)
    return {
        "what": name,
        "ours": f"{ours * 1e3:.2f} ms",
        "rival": f"one product {bare * 1e3:.2f} ms",
        "ratio": round(ours / bare, 2),
        "goal": "",
    }


if __name__ == "__main__":
    for row in rows():
        print(row)
