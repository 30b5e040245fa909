"""Choosing a map for unseen classes by holding out classes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np

from likewise.evaluate.calibration import Calibration, ScoredPairs
from likewise.evaluate.ranking import LabelRelevance, RankingProblem, measured, whole
from likewise.learn.choose.anchored_search import Choice
from likewise.learn.choose.search import CVResults, Search, Split, class_splits, mean_interval, mean_of_found
from likewise.learn.maths.engine import MemoryEngine
from likewise.learn.maths.kernels import BaseMap, UnitRows, completed, padded
from likewise.learn.maths.scatter import leading_directions, shrunk
from likewise.learn.maths.unseen import ShrinkageMap, between_directions, class_scatter
from likewise.utils.arrays import unit_rows
from likewise.utils.threads import ordered_map

SHRINK = (0.03, 0.1, 0.3, 0.5, 0.7, 0.9, 0.97, 1.0)
FIRST_SHRINK = SHRINK[1::2]  # the others are tried if they are next to the best
SPREAD = (0.3, 1.0, 3.0, 10.0)
POWER = (0.25, 0.5, 0.75)
MOST_HELD = 700  # more held-out rows cost time and change no choice
OTHERS = 3  # one of so many rows of the other classes is held out with them
FEWEST_CLASSES, FEWEST_ROWS = 4, 50  # fewer choose worse than the plain cosine ranks


class BaseRows:
    """Unit rows with labels, in the leading directions of all rows at hand: what a base part is learned from."""

    def __init__(self, known: np.ndarray, codes: np.ndarray, rows: np.ndarray, width: int) -> None:
        self.width, self.centre = width, rows.mean(axis=0, dtype=np.float64).astype(rows.dtype)
        V = leading_directions(rows - self.centre, None, min(width, *rows.shape))[1]
        self.V = completed(V, min(width, rows.shape[1]))
        classes, codes = np.unique(codes, return_inverse=True)
        self.unit = UnitRows(MemoryEngine(unit_rows((known - self.centre) @ self.V), codes, len(classes)))

    def map(self, chosen: ShrinkageMap) -> BaseMap:
        """The base part by a map of the family."""
        B = self.V @ chosen.learned_from(self.unit).astype(self.V.dtype)
        return BaseMap(self.centre, padded(B, self.width))


def choose_shrinkage_map(
    unit: UnitRows,
    results: CVResults,
    rng: np.random.Generator,
    on_score: Callable[[], None] = lambda: None,
    fixed: dict[str, Any] | None = None,
) -> Choice:
    """The map that ranks held-out classes best: shrinkage first, then spread and power around it.

    Few classes make a noisy holdout, and its splits share classes, so a map that is not better than the plain cosine
    by more than the standard deviation of their difference over the splits gives way to it. It is worth the "mAP" of
    rows of held-out classes, "raw" is that of the plain cosine; nothing is held out if there are too few classes.
    `fixed` are settings that are not to be chosen.
    """
    fixed, plain = fixed or {}, ShrinkageMap()
    splits = _splits(unit, rng, among_others=False)
    if not splits:
        return Choice(asdict(replace(plain, **fixed)), 0, results)
    search = ShrinkageSearch(unit, splits, results, on_score)
    best = _best(search, fixed)
    n_held = len(np.unique(np.concatenate([s.held[f.is_new] for s, f in zip(splits, search.folds, strict=True)])))
    held_out: dict[str, Any] = {"rows": n_held}
    for name, one in (("mAP", best), ("raw", plain)):
        interval = mean_interval(search.average_precisions(one), [split.held for split in splits])
        held_out |= {name: search.score(one), f"{name}_interval": interval}
    meaning = Calibration.measured(fold.pairs(best) for fold in search.folds)
    return Choice(asdict(best), 0, results, held_out, None if meaning is None else meaning.as_dict())


def chosen_map(unit: UnitRows, rng: np.random.Generator) -> ShrinkageMap:
    """The map alone, for a gallery that has the classes of these rows too, without what it is worth."""
    splits = _splits(unit, rng, among_others=True)
    return _best(ShrinkageSearch(unit, splits, CVResults(), lambda: None), {}) if splits else ShrinkageMap()


def _best(search: ShrinkageSearch, fixed: dict[str, Any]) -> ShrinkageMap:
    def best_of(*candidates: ShrinkageMap) -> ShrinkageMap:
        return search.best(dict.fromkeys(replace(candidate, **fixed) for candidate in candidates))

    plain = ShrinkageMap()
    best = best_of(plain, *(ShrinkageMap(a, power=p) for a, p in product(FIRST_SHRINK, (0.0, 0.5))))
    best = best_of(best, *(replace(best, spread=h, power=p) for h, p in product(SPREAD, POWER)))
    at = int(np.argmin(np.abs(np.array(SHRINK) - best.shrink)))
    best = best_of(best, *(replace(best, shrink=a) for a in SHRINK[max(at - 1, 0) : at + 2]))
    return best if fixed or search.clearly_better(best, plain) else plain


def _splits(unit: UnitRows, rng: np.random.Generator, among_others: bool) -> list[Split]:
    """Splits by class whose held-out rows have something to find; none where classes or rows are too few.

    Among others, rows of the classes that are learned from are held out too: where a gallery has both, new items must
    not be closer to them than to each other.
    """
    codes, splits = unit.engine.row_codes, []
    if unit.n_classes < FEWEST_CLASSES or len(codes) < FEWEST_ROWS:
        return []
    for split in class_splits(codes, rng, repeats=2 if unit.n_classes > 20 else 4):
        held, train = rng.permutation(split.held)[:MOST_HELD], rng.permutation(split.train)
        n_others = min(len(train) // OTHERS, MOST_HELD) if among_others else 0
        if np.bincount(codes[held]).max() > 1:
            splits.append(Split(np.sort(train[n_others:]), np.sort(np.concatenate([held, train[:n_others]]))))
    return splits


class ShrinkageSearch(Search[ShrinkageMap, "_ClassFold"]):
    """Scores of maps on splits by class; what maps share is computed once."""

    folds: list[_ClassFold]

    def __init__(self, unit: UnitRows, splits: list[Split], results: CVResults, on_score: Callable[[], None]) -> None:
        folds = [_ClassFold(unit, split) for split in splits]
        super().__init__(_ClassFold.score, folds, results, on_score=on_score)

    def timed(self, candidates: list[ShrinkageMap]) -> Iterator[tuple[list[float], float]]:  # type: ignore[override]
        """The scores of each map on the folds, which run in threads."""
        for candidate in candidates:
            began = time.perf_counter()
            scores = list(ordered_map(lambda fold, c=candidate: fold.score(c), self.folds))  # type: ignore[misc]
            yield scores, time.perf_counter() - began

    def average_precisions(self, candidate: ShrinkageMap) -> list[np.ndarray]:
        """For each split the average precision of every held-out row of a new class, nan for others and lone ones."""
        return [fold.average_precisions(candidate) for fold in self.folds]


class _ClassFold:
    """One split by class: the scatter of the classes seen, and inner products of the rows held out.

    The rows of B, which span the directions between classes, follow the held-out rows.
    """

    def __init__(self, unit: UnitRows, split: Split) -> None:
        seen = unit.part(split.train)
        scatter = class_scatter(seen)
        self.w, self.width = scatter.w, scatter.width
        held = seen.centred(unit.engine.X[split.held])
        rows = np.vstack([held, scatter.B])
        along = rows @ scatter.V
        self.along, self.outside = along.astype(held.dtype), (rows @ rows.T - along @ along.T).astype(held.dtype)
        codes = unit.engine.row_codes
        self.relevance = LabelRelevance.by_label(codes[split.held], None)
        self.is_new = ~np.isin(codes[split.held], codes[split.train])
        self.whitened = lru_cache(maxsize=1)(self._whitened)

    def _whitened(self, shrink: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Inner products of the whitened rows, their coordinates between classes, and the variances b along these."""
        along, outside = shrunk(self.w, self.width, shrink)
        kind, n = self.along.dtype, len(self.relevance.code)
        S = (self.along / along.astype(kind)) @ self.along.T + self.outside / kind.type(outside)
        b, U = between_directions(S[n:, n:].astype(np.float64))
        return S[:n, :n], S[:n, n:] @ U.astype(kind), b

    def score(self, candidate: ShrinkageMap) -> float:
        return mean_of_found(self.average_precisions(candidate))

    def average_precisions(self, candidate: ShrinkageMap) -> np.ndarray:
        """Average precision of each held-out row of a new class; nan for others, and where there is nothing to find."""
        S, length = self._products(candidate)
        problem, values = _Scored(S / length, S, self.relevance), np.full(len(S), np.nan)
        queries = problem.queries[self.is_new[problem.queries]]
        values[queries] = measured(problem, {"mAP": whole}, queries)["mAP"]
        return values

    def pairs(self, candidate: ShrinkageMap) -> dict[int, ScoredPairs]:
        """Cosines of the held-out rows of new classes with all held-out rows."""
        S, length = self._products(candidate)
        C, code = S / length / length[:, None], self.relevance.code
        others = ~np.eye(len(code), dtype=bool)
        return {0: ScoredPairs(*(pairs[self.is_new] for pairs in (C, code[:, None] == code, others)))}

    def _products(self, candidate: ShrinkageMap) -> tuple[np.ndarray, np.ndarray]:
        """Inner products of the mapped held-out rows, and their lengths."""
        S, P, b = self.whitened(candidate.shrink)
        weights = candidate.weights(b, self.width).astype(S.dtype)
        S = S + (P * (weights**2 - 1)) @ P.T if candidate.power else S
        return S, np.sqrt(np.maximum(S.diagonal(), np.finfo(S.dtype).tiny))


class _Scored(RankingProblem):
    """Scores computed before, as Q; a row is not divided by its own length, which changes no ranking."""

    def negated_scores(self, block: np.ndarray) -> np.ndarray:
        S = -self.Q[block]
        S[np.arange(block.size), block] = np.inf
        return np.asarray(S)
