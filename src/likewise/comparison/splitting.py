"""Rows to learn from and rows to search: other rows of the same classes, or rows of other classes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from likewise.errors import LikewiseError

__all__ = ["Part", "class_obstacle", "class_part", "row_part", "sampled"]


@dataclass(frozen=True)
class Part:
    """Row numbers to learn from and to search."""

    train: np.ndarray
    test: np.ndarray


def sampled(codes: np.ndarray, most: int | None, rng: np.random.Generator) -> np.ndarray:
    """At most about `most` row numbers, each class in its share and with at least four members if it has them."""
    if most is None or len(codes) <= most:
        return np.arange(len(codes))
    share = most / len(codes)
    kept = [rng.permutation(rows)[: max(4, round(share * len(rows)))] for rows in _by_class(codes)]
    return np.sort(np.concatenate(kept))


def row_part(codes: np.ndarray, test_size: float, rng: np.random.Generator) -> Part:
    """A share of every class to search: two rows at least, so that each has something to find; one at least to learn.

    Classes of one or two are learned from alone.
    """
    held = [rng.permutation(rows)[: _held(len(rows), test_size)] for rows in _by_class(codes)]
    test = np.sort(np.concatenate(held))
    if not len(test):
        most = np.bincount(codes).max()
        raise LikewiseError(
            f"the largest class of y has {most} rows: it takes three, one to learn from and two to search"
        )
    return Part(np.setdiff1d(np.arange(len(codes)), test), test)


def class_part(codes: np.ndarray, rng: np.random.Generator) -> Part:
    """Half of the classes to learn from, the other half to search."""
    several = np.bincount(codes) > 1  # dealt out first, so that both halves have rows with something to find
    order = np.concatenate([rng.permutation(np.flatnonzero(group)) for group in (several, ~several)])
    train = np.isin(codes, order[::2])
    return Part(np.flatnonzero(train), np.flatnonzero(~train))


def class_obstacle(codes: np.ndarray) -> str | None:
    """Why classes cannot be split, if so."""
    several = int((np.bincount(codes) > 1).sum())
    if several < 4:
        return f"unseen classes are not compared: it takes four classes of at least two rows, and there are {several}"
    return None


def _held(size: int, share: float) -> int:
    return min(max(2, round(share * size)), size - 1) if size > 2 else 0


def _by_class(codes: np.ndarray) -> list[np.ndarray]:
    order = np.argsort(codes, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)
