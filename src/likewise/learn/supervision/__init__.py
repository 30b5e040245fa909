"""Learning from more, or less, than one label per row: relevance, pairs, several labels, two sides, a prior."""

from likewise.learn.supervision.fitting import PairFit, fit_pairs

__all__ = ["PairFit", "fit_pairs"]
