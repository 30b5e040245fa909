"""The settings of an anchored map, chosen on held-out rows: kernel, ridge and geometry, then how far to adapt."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from likewise.core.anchored_preparing import Data, Fitted, Preparation, Setting
from likewise.core.passes import single_threaded_blas
from likewise.selection import holdout
from likewise.selection.holdout import Split

__all__ = ["Journal", "Search", "choose", "choose_posterior", "starts"]

RIDGES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
ADAPTING = ((1.0, 1.0), (1.0, 3.0), (0.5, 1.0), (0.5, 3.0), (0.0, 1.0))  # (s, κ)
TEMPERATURES = (0.01, 0.02, 0.03, 0.05, 0.1, 0.2)


class Journal:
    """What was tried, for `cv_results_`."""

    def __init__(self, on_note: Callable[[], None] = lambda: None) -> None:
        self.tried: list[dict[str, Any]] = []
        self.on_note = on_note

    def note(self, parameters: dict[str, Any], value: float, seconds: float) -> float:
        self.tried.append({"params": parameters, "mean_test_score": value, "seconds": seconds})
        self.on_note()
        return value

    def value(self, parameters: dict[str, Any]) -> float:
        """The score of something already tried."""
        return next((row["mean_test_score"] for row in self.tried if row["params"] == parameters), -np.inf)

    def results(self) -> dict[str, list[Any]]:
        return {key: [row[key] for row in self.tried] for key in ("params", "mean_test_score", "seconds")}


class Search:
    """Scores settings on the held-out parts of some splits; what settings share is computed once a width."""

    def __init__(self, data: Data, splits: list[Split], prepare: Preparation, journal: Journal) -> None:
        self.data, self.splits, self.prepare, self.journal = data, splits, prepare, journal
        self._width, self._folds = -1.0, list[tuple[Fitted, np.ndarray]]()

    def score(self, setting: Setting) -> float:
        """Mean over the splits of the mAP of held-out rows; what was tried is not tried again."""
        known = self.journal.value(asdict(setting))
        if known > -np.inf:
            return known
        began = time.perf_counter()
        folds = zip(self.splits, self._at(setting.width), strict=True)
        # One BLAS thread: the products here are small, and between them the others would spin on our own threads' cores
        with single_threaded_blas():
            values = [holdout.score(*self._ranked(split, *fold, setting)) for split, fold in folds]
        values = [value for value in values if np.isfinite(value)]
        mean = float(np.mean(values)) if values else -np.inf
        return self.journal.note(asdict(setting), mean, time.perf_counter() - began)

    def average_precisions(self, setting: Setting) -> np.ndarray:
        """What `score` is the mean of, for every held-out row; nan where there is nothing to find."""
        folds = zip(self.splits, self._at(setting.width), strict=True)
        with single_threaded_blas():
            return np.concatenate([holdout.each_score(*self._ranked(split, *fold, setting)) for split, fold in folds])

    def best(self, settings: Iterable[Setting], first: Setting | None = None) -> Setting:
        """The setting with the highest score; `first` has been tried, and has to be beaten."""
        chosen, value = first, -np.inf if first is None else self.journal.value(asdict(first))
        for setting in settings:
            score = self.score(setting)
            if chosen is None or score > value:
                chosen, value = setting, score
        assert chosen is not None
        return chosen

    def _at(self, width: float) -> list[tuple[Fitted, np.ndarray]]:
        """Training parts prepared for a kernel width, with their held-out rows in the same basis; one width is kept."""
        if width != self._width:
            self._folds = []
            for split in self.splits:
                fitted = self.prepare(self.data.part(split.train), width)
                held = self.data.X[split.held]
                self._folds.append((fitted, fitted.basis.rows(fitted.features(held))))
            self._width = width
        return self._folds

    def _ranked(
        self, split: Split, fitted: Fitted, held: np.ndarray, setting: Setting
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Held-out rows as they are searched, with their classes; and those learned from, if some have to rank them."""
        L = fitted.map(setting)
        head, L = fitted.head(L, setting), L.astype(held.dtype)
        Z = head(held @ L, lambda: fitted.data.centred(self.data.X[split.held]))
        Z, codes = self._repeated(Z, split.held)
        if np.all(np.bincount(codes)[codes] > 1):
            return Z, codes, Z[:0], codes[:0]
        order = np.argsort(fitted.data.codes, kind="stable")
        train = head(fitted.rows.images(L), lambda: fitted.data.centred(fitted.data.X[order]))
        return Z, codes, *self._repeated(train, split.train[order])

    def _repeated(self, Z: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A weight means repetition here too, where it is a whole number."""
        weights, codes = self.data.weights, self.data.codes[rows]
        if weights is None or not np.array_equal(weights, np.rint(weights)):
            return Z, codes
        times = weights[rows].astype(int)
        return Z.repeat(times, axis=0), codes.repeat(times)


def choose(search: Search, widths: tuple[float, ...], fixed: dict[str, Any]) -> Setting:
    """Width, ridge and geometry without adapting; then how far to adapt; then twice the ridge; then the head.

    `fixed` are the settings that the caller has decided.
    """
    start = search.best(setting for width in widths for setting in starts(width, fixed))
    adapted = search.best(
        (replace(start, pull=pull, confidence=confidence) for confidence, pull in _adapting(fixed)),
        first=None if fixed.get("pull") else start,
    )
    stiffer = [replace(adapted, ridge=2 * adapted.ridge)] if adapted.pull and "ridge" not in fixed else []
    adapted = search.best(stiffer, first=adapted)
    return search.best(_heads(adapted, search.data.n_classes), first=adapted)


def choose_posterior(search: Search, widths: tuple[float, ...], fixed: dict[str, Any]) -> Setting:
    """The width by what the posterior ranks, without adapting; then the map by its cosine; then the temperature.

    A kernel that is best for the cosine need not be for the posterior, which is not linear by itself.
    """
    temperatures, fixed = _options(fixed, "temperature", TEMPERATURES), _without(fixed, "temperature")
    first = (search.best(starts(width, fixed)) for width in widths)
    best = search.best(replace(start, temperature=t) for start in first for t in temperatures)
    setting = replace(choose(search, (best.width,), fixed), raw=False)
    return search.best(replace(setting, temperature=t) for t in temperatures)


def starts(width: float, fixed: dict[str, Any], ridges: tuple[float, ...] = RIDGES) -> Iterator[Setting]:
    """Ridges and geometries of one width, without adapting."""
    for ridge in _options(fixed, "ridge", ridges):
        for lda in _options(fixed, "lda", (False, True)):
            yield replace(Setting(**fixed), width=width, ridge=ridge, lda=lda, pull=0.0)


def _without(fixed: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in fixed.items() if key != name}


def _heads(setting: Setting, n_classes: int) -> list[Setting]:
    """The plain cosine of the input is always a candidate; two classes need a second coordinate."""
    heads = [replace(setting, raw=True)]
    if n_classes == 2:
        heads += [replace(setting, constant=c) for c in (0.3, 1.0, 3.0)]
        heads += [replace(setting, input=c) for c in (0.3, 1.0, 3.0)]
    return heads


def _adapting(fixed: dict[str, Any]) -> list[tuple[float, float]]:
    """Pairs (confidence, pull) to try; one of them decided leaves the other's choices, both leave one."""
    if fixed.get("pull", 1.0) == 0.0:
        return []
    pairs = [(fixed.get("confidence", s), fixed.get("pull", k)) for s, k in ADAPTING]
    return list(dict.fromkeys(pairs))


def _options(fixed: dict[str, Any], name: str, otherwise: tuple[Any, ...]) -> tuple[Any, ...]:
    return (fixed[name],) if name in fixed else otherwise
