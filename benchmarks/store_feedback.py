"""A lesson against the feedback of a store: Qdrant's three-parameter feedback query and Rocchio, from the same marks.

usage: LIKEWISE_DATA=DIR python -m benchmarks.store_feedback [STORE ...] [--seeds N]

STORE is a labelled feature store; newsgroups20.npz is taken from LIKEWISE_DATA. The tasks are those of
benchmarks.teaching_photos: 600 items of some 16 classes without labels, four concepts, the first ten marks of a user
each; average precision counts items that nobody marked. Qdrant runs embedded; its query scores
a·s(target) + Σ c·confidence^b·(s(better) − s(worse)) over all pairs of marked items. Marks are right or wrong, so that
every confidence is 1 and b has no effect; a is 1, and c, whether the query itself counts as an item marked right, and
whether raw or the index's own vectors are searched, are chosen on five other draws. Rocchio's weights are the
textbook's (1, 0.75, 0.25), and its vectors are chosen in the same way.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import product
from pathlib import Path

import numpy as np
from qdrant_client import QdrantClient, models
from rich.table import Table
from sklearn.preprocessing import normalize

from benchmarks.__main__ import show
from benchmarks.teaching_photos import (
    FIRST_SEED,
    Marks,
    Task,
    newsgroups,
    rocchio,
    searched,
    stored,
    task,
    taught,
    untouched_ap,
)
from likewise.search import Index

CHOICES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
OTHER_SEEDS = range(FIRST_SEED - 50, FIRST_SEED - 45)

Scores = Callable[[Marks], np.ndarray]


def data(stores: list[str]) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Name, rows and classes."""
    for store in stores:
        yield Path(store).stem, *stored(store)
    path = Path(os.environ.get("LIKEWISE_DATA", "")) / "newsgroups20.npz"
    if path.is_file():
        yield "newsgroups", *newsgroups(path)


class Collection:
    """The rows of a task in Qdrant."""

    def __init__(self, Z: np.ndarray) -> None:
        self.Z, self.client = Z.astype(np.float32), QdrantClient(":memory:")
        self.client.create_collection("items", models.VectorParams(size=Z.shape[1], distance=models.Distance.DOT))
        self.client.upsert("items", models.Batch(ids=list(range(len(Z))), vectors=self.Z.tolist()))

    def scores(self, marks: Marks, c: float, with_query: bool = False, a: float = 1.0, b: float = 1.0) -> np.ndarray:
        """Scores of all rows by the feedback query."""
        right = [*marks.right, *([marks.query] if with_query else [])]
        items = [(row, 1.0) for row in right] + [(row, 0.0) for row in marks.wrong]
        feedback = [models.FeedbackItem(example=self.Z[row].tolist(), score=score) for row, score in items]
        strategy = models.NaiveFeedbackStrategy(naive=models.NaiveFeedbackStrategyParams(a=a, b=b, c=c))
        query = models.RelevanceFeedbackInput(target=self.Z[marks.query].tolist(), feedback=feedback, strategy=strategy)
        answer = self.client.query_points(
            "items", query=models.RelevanceFeedbackQuery(relevance_feedback=query), limit=len(self.Z)
        )
        S = np.full(len(self.Z), -np.inf)
        for point in answer.points:
            S[point.id] = point.score
        return S


def vectors(index: Index, learned: bool) -> np.ndarray:
    return index.vectors if learned else normalize(index.raw)


def by_qdrant(t: Task, learned: bool, c: float, with_query: bool) -> float:
    return untouched_ap(t, partial(collection(t.index, learned).scores, c=c, with_query=with_query))


@cache
def collection(index: Index, learned: bool) -> Collection:
    """Filled once for all settings."""
    return Collection(vectors(index, learned))


def by_rocchio(t: Task, learned: bool) -> float:
    Z = vectors(t.index, learned)
    return untouched_ap(t, lambda marks: rocchio(marks, Z))


def chosen(measure: Callable[..., float], settings: list[tuple[object, ...]], tasks: list[Task]) -> tuple[object, ...]:
    """The setting with the best mean on some tasks."""
    return max(settings, key=lambda setting: np.mean([measure(t, *setting) for t in tasks]))


def compared(X: np.ndarray, y: np.ndarray, worst: bool, seeds: int) -> dict[str, list[float]]:
    """AP of each method on each draw."""
    others = [task(X, y, seed, worst) for seed in OTHER_SEEDS]
    tasks = [task(X, y, FIRST_SEED + seed, worst) for seed in range(seeds)]
    qdrant = chosen(by_qdrant, list(product((True, False), CHOICES, (True, False))), others)
    plain = chosen(by_rocchio, [(True,), (False,)], others)
    return {
        "before": [untouched_ap(t, partial(searched, t.index)) for t in tasks],
        "Rocchio": [by_rocchio(t, *plain) for t in tasks],
        f"Qdrant c={qdrant[1]:g}": [by_qdrant(t, *qdrant) for t in tasks],
        "lesson": [untouched_ap(t, partial(searched, taught(t.index, t.marks))) for t in tasks],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stores", nargs="*")
    parser.add_argument("--seeds", type=int, default=5)
    arguments = parser.parse_args()
    grid = Table("task", "method", "mean AP", "± over draws", "draws where the lesson wins")
    for (name, X, y), worst in product(data(arguments.stores), (True, False)):
        results = compared(X, y, worst, arguments.seeds)
        for method, aps in results.items():
            wins = "" if method == "lesson" else f"{sum(np.array(results['lesson']) > aps)} of {len(aps)}"
            cells = f"{100 * np.mean(aps):.1f}", f"{100 * np.std(aps, ddof=1):.1f}", wins
            grid.add_row(f"{name}, {'worst' if worst else 'any'} four", method, *cells)
    show("Average precision of items nobody marked, after ten marks for each of four concepts", grid)


if __name__ == "__main__":
    main()
