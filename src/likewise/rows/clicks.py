"""A log of clicks as gains: how often each place is seen, which items attract, what was skipped, what is long ago.

The model is position-based: a row is clicked if its place is seen, with the propensity θ of the place, and its item
attracts. A pair of query and item attracts with γ₁ if it is relevant and with γ₀ if it is not, and EM estimates θ, γ
and which pairs are relevant. Pairs at several places, or shown many times, tell θ from γ; where every list was shown
once, a place that is clicked less counts as seen less.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from likewise.errors import LikewiseError
from likewise.utils.wording import plural

_DEEPEST = 100  # places beyond are one
_ROUNDS = 100  # of EM
_NAMES = ("1st", "2nd", "3rd", "4th", "5th")


@dataclass(frozen=True)
class ClickLog:
    """Rows of a log: query and item by number, clicks, place from 1 or 0 if unknown, list, and weight."""

    queries: np.ndarray
    items: np.ndarray
    clicks: np.ndarray
    position: np.ndarray | None
    lists: np.ndarray
    weight: np.ndarray

    @classmethod
    def of(
        cls, queries: np.ndarray, items: np.ndarray, clicked: Any, position: Any, session: Any, weight: np.ndarray
    ) -> Self:
        n = len(queries)
        clicks = np.ones(n) if clicked is None else _column(clicked, n, "clicked")
        if not np.isfinite(clicks).all():
            raise LikewiseError("clicked has a value that is not finite: expected 0, or the number of clicks")
        if not (clicks > 0).any():
            raise LikewiseError("clicks has no click: no pair is known to be relevant")
        lists = queries
        if session is not None:
            names = np.unique(np.asarray(session).ravel().astype(str), return_inverse=True)[1]
            _check_length(names, n, "session")
            lists = np.unique(queries * np.int64(names.max() + 1) + names, return_inverse=True)[1]
        places = None if position is None else _column(position, n, "position")
        if places is not None and not np.isfinite(places).all():
            raise LikewiseError("position has a value that is not finite: expected places from 1")
        return cls(queries, items, np.maximum(clicks, 0.0), places, lists, weight)

    def gains(self, propensities: Any, size: tuple[int, int]) -> tuple[sp.csr_array, str]:
        """The relevance that the log shows, and what was read in words."""
        pairs, pair = np.unique(self.queries * np.int64(size[1]) + self.items, return_inverse=True)
        hit = self.clicks > 0
        clicks: np.ndarray = np.bincount(pair, self.clicks * self.weight)
        clicked, skipped = (np.bincount(pair, rows * self.weight) > 0 for rows in (hit, self._skipped()))
        known = clicked | (skipped & (np.bincount(pair, hit) == 0))
        theta = None
        if self.position is not None and propensities is not None:
            theta = np.asarray(propensities, dtype=np.float64).ravel()
            if not (len(theta) and np.isfinite(theta).all() and (theta > 0).all() and (theta <= 1).all()):
                expected = "expected numbers above 0 and up to 1, one per place"
                raise LikewiseError(f"propensities={propensities!r}: {expected}")
            theta = np.concatenate([theta, np.full(max(self.place.max() + 1 - len(theta), 0), theta[-1])])
        if hit.all():  # nothing tells what else was seen
            gains = clicks if theta is None else np.bincount(pair, self.clicks * self.weight / theta[self.place])
        else:
            relevant, theta = attraction(self.place, pair, hit, self.weight, theta)
            gains = relevant * clicks / np.maximum(np.bincount(pair, hit * self.weight), 1e-12)
        at = pairs[known]
        matrix = sp.csr_array((gains[known], (at // size[1], at % size[1])), shape=size)
        queries = len(np.unique(self.queries[self.clicks > 0]))
        words = f"{plural(int((self.clicks > 0).sum()), 'click')} of {plural(queries, 'query')}"
        if theta is not None and self.position is not None:
            last = min(4, len(theta) - 1)
            lower = f", {_NAMES[last]} {theta[last]:.2f}".replace(" 0.", " .") if last else ""
            words += f"; 1st place seen {theta[0]:.1f}{lower}"
        return matrix, words

    @property
    def place(self) -> np.ndarray:
        """From 0; all the same where it is unknown."""
        if self.position is None:
            return np.zeros(len(self.queries), dtype=np.int64)
        return np.asarray(np.clip(self.position - self.position.min(), 0, _DEEPEST - 1), dtype=np.int64)

    def _skipped(self) -> np.ndarray:
        """Which rows were passed over: not clicked, and above the lowest click of their list where places are known."""
        if self.position is None:
            return self.clicks == 0
        lowest = np.full(self.lists.max() + 1, -np.inf)
        hit = self.clicks > 0
        np.maximum.at(lowest, self.lists[hit], self.position[hit])
        return ~hit & (self.position < lowest[self.lists])


def attraction(
    place: np.ndarray, pair: np.ndarray, hit: np.ndarray, weight: np.ndarray, theta: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """How much each pair attracts, relative to a relevant one, and how often each place is seen, at most 1."""
    n, fixed, total = place.max() + 1, theta is not None, max(float(weight.sum()), 1e-12)
    theta = np.full(n, 0.5) if theta is None else theta
    shown = np.maximum(np.bincount(place, weight, minlength=n), 1e-12)
    rate = float(weight @ hit) / total
    gamma, share = np.array([rate, min(4 * rate, 0.9)]), 0.3
    for _ in range(_ROUNDS):
        seen = theta[place][:, None] * gamma  # and clicked, for an irrelevant and a relevant pair
        log = weight[:, None] * np.log(np.clip(np.where(hit[:, None], seen, 1 - seen), 1e-9, None))
        odds = np.log(share / (1 - share)) + np.bincount(pair, log[:, 1] - log[:, 0])
        relevant = 1 / (1 + np.exp(-np.clip(odds, -30, 30)))
        P = np.stack([1 - relevant, relevant], axis=1)[pair] * weight[:, None]
        looked = np.where(hit[:, None], 1.0, theta[place][:, None] * (1 - gamma) / np.maximum(1 - seen, 1e-9))
        liked = np.where(hit[:, None], 1.0, gamma * (1 - theta[place][:, None]) / np.maximum(1 - seen, 1e-9))
        gamma = np.clip((P * liked).sum(axis=0) / np.maximum(P.sum(axis=0), 1e-12), 1e-6, 1 - 1e-6)
        share = float(np.clip(relevant.mean(), 1e-3, 1 - 1e-3))
        if not fixed:
            theta = np.bincount(place, (P * looked).sum(axis=1), minlength=n) / shown
    attracts = gamma[0] + (gamma[1] - gamma[0]) * relevant
    return attracts / gamma.max(), theta if fixed else theta / max(theta.max(), 1e-12)


def weighted(weight: Any, time: Any, half_life: float | None, n: int) -> np.ndarray:
    """Weights of the rows of a log, halved for each `half_life` days before the last row."""
    weights = np.ones(n) if weight is None else _column(weight, n, "weight")
    if not (np.isfinite(weights).all() and (weights >= 0).all()):
        raise LikewiseError("weight has a value below 0, or one that is not finite: expected weights from 0")
    if half_life is None:
        return weights
    if time is None:
        raise LikewiseError(f"half_life={half_life!r} needs time: give the days or dates of the rows")
    if not half_life > 0:
        raise LikewiseError(f"half_life={half_life!r}: expected a number of days above 0")
    days = np.asarray(time).ravel()
    _check_length(days, n, "time")
    if days.dtype.kind == "M":
        days = (days - days.max()) / np.timedelta64(1, "D")
    days = days.astype(np.float64)
    if not np.isfinite(days).all():
        raise LikewiseError("time has a value that is not finite: expected days, or dates")
    return np.asarray(weights * 0.5 ** ((days.max(initial=-np.inf) - days) / half_life))


def _column(values: Any, n: int, name: str) -> np.ndarray:
    array = np.asarray(values, dtype=np.float64).ravel()
    _check_length(array, n, name)
    return array


def _check_length(values: np.ndarray, n: int, name: str) -> None:
    if len(values) != n:
        raise LikewiseError(f"{name} has {len(values)} entries: expected {n}, one per row of the log")
