"""Choosing a map for unseen classes by holding out classes."""

import time
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import lru_cache
from itertools import product

import numpy as np

from likewise.core.kernels import UnitRows
from likewise.core.unseen import Directions, ShrinkageMap, directions, scatter
from likewise.metrics import mean_average_precision
from likewise.selection.holdout import CVResults, Split, class_splits
from likewise.utils.arrays import unit_rows

SHRINK = (0.03, 0.1, 0.3, 0.5, 0.7, 0.9, 0.97, 1.0)
SPREAD = (0.3, 1.0, 3.0, 10.0)
POWER = (0.0, 0.25, 0.5, 0.75)
MOST_HELD = 2_000  # more held-out rows cost time and change no choice
FEWEST_CLASSES = 4


def choose_shrinkage_map(
    unit: UnitRows, results: CVResults, rng: np.random.Generator, on_score: Callable[[], None] = lambda: None
) -> ShrinkageMap:
    """The map that ranks held-out classes best: shrinkage first, then spread and power around it.

    Few classes make a noisy holdout, and its splits share classes, so a map that is not better than the plain cosine
    by more than the standard deviation of their difference over the splits gives way to it.
    """
    plain = ShrinkageMap(scaling=unit.scaling.name)
    if unit.n_classes < FEWEST_CLASSES:
        return plain
    repeats = 2 if unit.n_classes > 20 else 4  # few classes make a noisy holdout
    folds = [_ClassFold(unit, split, rng) for split in class_splits(unit.engine.row_codes, rng, repeats)]
    tried: dict[ShrinkageMap, np.ndarray] = {}

    def score(candidate: ShrinkageMap) -> float:
        if candidate not in tried:
            began = time.perf_counter()
            tried[candidate] = np.array([fold.score(candidate) for fold in folds])
            results.add(asdict(candidate), tried[candidate].tolist(), time.perf_counter() - began)
            on_score()
        return float(tried[candidate].mean())

    first = max([plain, *(replace(plain, shrink=a, power=p) for a, p in product(SHRINK, (0.0, 0.5)))], key=score)
    at = SHRINK.index(first.shrink)
    best = max([first, *(replace(first, spread=h, power=p) for h, p in product(SPREAD, POWER[1:]))], key=score)
    best = max([best, *(replace(best, shrink=a) for a in SHRINK[max(at - 1, 0) : at + 2])], key=score)
    gain = tried[best] - tried[plain]
    return best if gain.mean() > gain.std() else plain


class _ClassFold:
    """One split by class: directions from the classes seen, rows of those held out."""

    def __init__(self, unit: UnitRows, split: Split, rng: np.random.Generator) -> None:
        seen = unit.part(split.train)
        held = np.sort(rng.permutation(split.held)[:MOST_HELD])
        self.X, self.codes = seen.centred(unit.engine.X[held]), unit.engine.row_codes[held]
        self.scatter = scatter(seen)
        self.rotated = lru_cache(maxsize=2)(self._rotated)

    def _rotated(self, shrink: float) -> tuple[Directions, np.ndarray]:
        found = directions(*self.scatter, shrink)
        return found, self.X @ found.T.astype(self.X.dtype)

    def score(self, candidate: ShrinkageMap) -> float:
        found, Z = self.rotated(candidate.shrink)
        Z = unit_rows(Z * found.weights(candidate).astype(Z.dtype))
        return float(mean_average_precision(Z, Z, self.codes))
