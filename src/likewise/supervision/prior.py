"""The strength of a prior: chosen by the ranking of classes, or queries, that were held out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from likewise.core.labels import generator
from likewise.supervision.holdouts import Fold, holdouts
from likewise.supervision.learning import PairOptions, Prepared, learn_from_prior

__all__ = ["choose_strength"]

# Infinity is the prior itself. Unseen classes want a strong prior, queries of a known kind a weak one.
NO_CHANGE = float("inf")
FOR_CLASSES = (100.0, 30.0, 10.0, 3.0, 1.0)
FOR_QUERIES = (10.0, 1.0, 0.1, 0.01)
WEAKEST = 0.001
UNTRIED = 10.0  # if there is too little to hold out


def choose_strength(prepared: Prepared, options: PairOptions) -> tuple[float, list[dict[str, float]] | None]:
    """The strength given, or the one that ranks what is held out best; and all that were tried, if any were.

    Few classes make a noisy holdout, so a strength that is not better than the prior by more than the standard
    deviation of their difference over the splits is rejected.
    """
    if options.prior_strength is not None:
        return float(options.prior_strength), None
    folds = holdouts(prepared.given, generator(options.random_state))
    if not folds:
        return UNTRIED, None
    search = _Search(folds, prepared, replace(options, verbose=0))
    best = search.among_classes() if search.for_classes else search.among_queries()
    tried = [{"strength": one, "score": float(scores.mean())} for one, scores in search.tried.items()]
    gain = search.tried[best] - search.tried[NO_CHANGE]
    return (best * search.for_all() if gain.mean() > gain.std() else NO_CHANGE), tried


class _Search:
    """Strengths tried on every fold; `tried` has their scores."""

    def __init__(self, folds: list[Fold], whole: Prepared, options: PairOptions) -> None:
        self.folds, self.whole, self.options = folds, whole, options
        # a gallery that all folds share is whitened once
        self.parts = [
            Prepared.of(given, whole.target, whole.W_g if given.gallery is whole.given.gallery else None)
            for given, _ in folds
        ]
        self.tried = {NO_CHANGE: self._scores(NO_CHANGE, n_iter=0)}

    @property
    def for_classes(self) -> bool:
        return isinstance(self.whole.given.known, np.ndarray)

    def among_classes(self) -> float:
        """Each strength, with one iteration: digits and Caltech101 choose the same with five."""
        for strength in FOR_CLASSES:
            self._try(strength)
        return max(self.tried, key=self._mean)

    def among_queries(self) -> float:
        """The power of ten by the start alone, which is cheap; then steps of three, weaker first, while they gain.

        Iterations are done from there on because they move the best towards weaker strengths.
        """
        best = self._best_start()
        self._try(best)
        weaker = self._walk(best, 1 / 3)
        return weaker if weaker < best else self._walk(best, 3.0)

    def for_all(self) -> float:
        """What a strength chosen on some of the queries becomes for all: more of them need less of a ridge, by √n.

        A holdout of classes asks for classes never seen, and those do not become better known with more rows.
        """
        if self.for_classes:
            return 1.0
        return float(np.sqrt(self.folds[0][0].X.shape[0] / self.whole.given.X.shape[0]))

    def _best_start(self) -> float:
        scores: dict[float, float] = {}
        for strength in FOR_QUERIES:
            scores[strength] = float(self._scores(strength, n_iter=0).mean())
            if scores[strength] < max(scores.values()):
                break  # past the best
        return max(scores, key=lambda strength: scores[strength])

    def _walk(self, strength: float, factor: float) -> float:
        """Multiply a strength by `factor` as long as the score rises."""
        following = strength * factor
        while WEAKEST < following < 1 / WEAKEST and self._try(following) > self._mean(strength):
            strength, following = following, following * factor
        return strength

    def _try(self, strength: float) -> float:
        self.tried[strength] = self._scores(strength, n_iter=1)
        return self._mean(strength)

    def _mean(self, strength: float) -> float:
        return float(self.tried[strength].mean())

    def _scores(self, strength: float, n_iter: int) -> np.ndarray:
        options, scores = replace(self.options, n_iter=n_iter), []
        for part, (_, score) in zip(self.parts, self.folds, strict=True):
            found = learn_from_prior(part, strength, options)
            if found.result.interrupted:
                raise KeyboardInterrupt
            scores.append(score(found))
        return np.array(scores)
