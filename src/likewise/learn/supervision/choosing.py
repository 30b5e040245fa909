"""Learning from relevant pairs with the settings that rank held-out queries best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import cache
from typing import NamedTuple

import numpy as np

from likewise.errors import LikewiseError
from likewise.learn.choose.search import CVResults
from likewise.learn.maths.labels import sample_rows
from likewise.learn.supervision.discriminant import MOST_ROWS, PairSetting, PairSpace, Reduction, pair_map, pair_scatter
from likewise.learn.supervision.held_queries import HeldQueries, Verdict, decide, query_folds
from likewise.learn.supervision.reading import Supervision
from likewise.rows.relevance import Relevance
from likewise.utils.arrays import unit_rows


class PairChoice(NamedTuple):
    """The setting that is best on held-out queries, the verdict on it, and all that were tried."""

    setting: PairSetting
    verdict: Verdict | None
    results: CVResults


class RelatedRows:
    """Unit rows of queries and of the items with a known relevance to them, and the spaces to learn in."""

    def __init__(self, given: Supervision, rng: np.random.Generator) -> None:
        assert isinstance(given.known, Relevance)
        known = given.known
        if not (known.R.data > 0).any():
            raise LikewiseError("relevance holds no relevant pair: there is nothing to learn from")
        items = np.arange(known.shape[1]) if known.complete else np.unique(known.R.indices)
        self.relevance = Relevance(known.R[:, items], unstored=known.unstored, kind=known.kind)
        self.reduction = Reduction.of(given.gallery, rng)
        self.Q, self.G = self.reduction(given.X), self.reduction(given.gallery[items])
        some = self.reduction(given.gallery[sample_rows(given.gallery.shape[0], MOST_ROWS, rng)])
        self.folds = query_folds(self.relevance, self.Q, self.G, rng, items if given.one_set else None)
        seed = int(rng.integers(2**31))
        self.space = cache(lambda kernel: PairSpace.of(some, kernel, np.random.default_rng(seed)))
        self._rows = cache(lambda kernel: (self.space(kernel)(self.Q), self.space(kernel)(self.G)))
        self._scatter = cache(self._scatter_of)

    def choose(self, settings: Sequence[PairSetting]) -> PairChoice:
        """The best of some settings; no verdict if there are too few queries to hold some out."""
        results = CVResults()
        if not self.folds:
            return PairChoice(settings[0], None, results)
        raw = [fold.average_precisions(self.Q, self.G) for fold in self.folds]
        tried = [[self._score(fold, setting) for fold in self.folds] for setting in settings]
        for setting, scores in zip(settings, tried, strict=True):
            results.add(asdict(setting), [float(part.mean()) for part in scores])
        best, verdict = decide(raw, tried)
        return PairChoice(settings[best], verdict, results)

    def learned(self, setting: PairSetting) -> np.ndarray:
        """The map from all pairs."""
        return pair_map(*self._scatter(setting.kernel, None), setting)

    def _score(self, fold: HeldQueries, setting: PairSetting) -> np.ndarray:
        L = pair_map(*self._scatter(setting.kernel, fold), setting)
        A, B = self._rows(setting.kernel)
        return fold.average_precisions(unit_rows(A @ L), unit_rows(B @ L))

    def _scatter_of(self, kernel: str, fold: HeldQueries | None) -> tuple[np.ndarray, np.ndarray]:
        return pair_scatter(*self._rows(kernel), self.relevance.R if fold is None else fold.seen)
