"""Simulated click logs on digits."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_digits
from sklearn.preprocessing import normalize

from likewise.evaluate import mean_average_precision
from likewise.rows import Relevance


class ClickLog(NamedTuple):
    """Queries with a log, new queries, items, and the clicks."""

    Q: np.ndarray
    T: np.ndarray
    G: np.ndarray
    y_q: np.ndarray
    y_t: np.ndarray
    y_g: np.ndarray
    clicks: Relevance

    def mAP(self, model) -> float:
        return mean_average_precision(model.transform_query(self.T), model.transform(self.G), self.y_t, self.y_g)

    @property
    def raw_mAP(self) -> float:
        return mean_average_precision(normalize(self.T), normalize(self.G), self.y_t, self.y_g)


def clicked(random: float = 0.0, seed: int = 0, shown: int = 20) -> ClickLog:
    """Of the nearest items, 60 % of the relevant and 5 % of the others are clicked; a share goes anywhere instead."""
    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(seed)
    q, t, g, _ = np.split(rng.permutation(len(y)), [250, 450, 1250])
    top = np.argsort(-(normalize(X[q]) @ normalize(X[g]).T), axis=1, kind="stable")[:, :shown]
    chance = np.where(y[g][top] == y[q][:, None], 0.6, 0.05)
    queries, places = np.nonzero(rng.random(top.shape) < chance)
    items = top[queries, places]
    moved = rng.random(len(items)) < random
    items[moved] = rng.integers(0, len(g), moved.sum())
    return ClickLog(X[q], X[t], X[g], y[q], y[t], y[g], Relevance.from_clicks(queries, items, shape=(len(q), len(g))))
