"""Drawing rows: at random, or so that every class keeps its share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from likewise.core.targets import class_starts

__all__ = ["draw_landmarks", "generator", "rows_by_class", "sample_by_class", "sample_rows", "stratified_holdout"]


def generator(random_state: Any) -> np.random.Generator:
    """A generator from scikit-learn's kind of seed; None means seed 0, so that a fit can be repeated."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if random_state is None:
        return np.random.default_rng(0)
    return np.random.default_rng(check_random_state(random_state).randint(2**31))


def draw_landmarks(codes: np.ndarray, n_classes: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """Places of about `size` items in label order, every class in proportion and none without."""
    starts = class_starts(codes, n_classes)
    counts, share = np.diff(starts), min(1.0, size / len(codes))
    sizes = [min(max(1, round(share * count)), count) for count in counts.tolist()]
    return np.concatenate(_drawn(np.split(np.arange(starts[-1]), starts[1:-1]), sizes, rng))


def rows_by_class(codes: np.ndarray) -> list[np.ndarray]:
    """Row numbers of each class that has any, in the order of the classes."""
    order = np.argsort(codes, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)


def sample_rows(n: int, size: int | None, rng: np.random.Generator) -> np.ndarray:
    """`size` of n row numbers drawn at random, sorted; all of them if there are no more, or if size is None."""
    return np.sort(rng.permutation(n)[:size])


def sample_by_class(codes: np.ndarray, size: int | None, rng: np.random.Generator, least: int = 2) -> np.ndarray:
    """About `size` row numbers, sorted: every class in proportion, but with at least `least` rows if it has them."""
    if size is None or len(codes) <= size:
        return np.arange(len(codes))
    share = size / len(codes)
    return _by_class(codes, lambda m: max(least, round(share * m)), rng)


def stratified_holdout(
    codes: np.ndarray, share: float, rng: np.random.Generator, least: int = 1, spare: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers to learn from and held-out ones, both sorted.

    Of a class `share` is held out, but at least `least` rows, and at least `spare` stay; a class too small for both
    stays whole.
    """

    def held_of(m: int) -> int:
        return 0 if m < least + spare else min(max(least, round(share * m)), m - spare)

    held = _by_class(codes, held_of, rng)
    return np.setdiff1d(np.arange(len(codes)), held), held


def _by_class(codes: np.ndarray, size_of: Callable[[int], int], rng: np.random.Generator) -> np.ndarray:
    """So many rows of each class, by its size; sorted row numbers."""
    groups = rows_by_class(codes)
    parts = _drawn(groups, [size_of(len(rows)) for rows in groups], rng)
    return np.sort(np.concatenate(parts)) if parts else np.empty(0, dtype=np.intp)


def _drawn(groups: Sequence[np.ndarray], sizes: Iterable[int], rng: np.random.Generator) -> list[np.ndarray]:
    """As many of each group as its size says; groups of size 0 are skipped."""
    return [rng.permutation(rows)[:size] for rows, size in zip(groups, sizes, strict=True) if size]
