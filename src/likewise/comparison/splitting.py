"""Rows to learn from and rows to search: rows of the same classes, or rows of other classes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from likewise.core.sampling import stratified_holdout
from likewise.errors import LikewiseError

__all__ = ["Part", "class_obstacle", "class_part", "row_part"]


@dataclass(frozen=True)
class Part:
    """Row numbers to learn from and to search."""

    train: np.ndarray
    test: np.ndarray


def row_part(codes: np.ndarray, test_size: float, rng: np.random.Generator) -> Part:
    """A share of every class to search, at least two rows, so that each has something to find; at least one stays.

    Classes of one or two rows are only learned from.
    """
    train, test = stratified_holdout(codes, test_size, rng, least=2, spare=1)
    if not len(test):
        most = np.bincount(codes).max()
        raise LikewiseError(
            f"the largest class of y has {most} rows: expected at least three, one to learn from and two to search"
        )
    return Part(train, test)


def class_part(codes: np.ndarray, rng: np.random.Generator) -> Part:
    """Half of the classes to learn from, the other half to search."""
    several = np.bincount(codes) > 1  # dealt first, so that both halves have rows with something to find
    order = np.concatenate([rng.permutation(np.flatnonzero(group)) for group in (several, ~several)])
    train = np.isin(codes, order[::2])
    return Part(np.flatnonzero(train), np.flatnonzero(~train))


def class_obstacle(codes: np.ndarray) -> str | None:
    """Why classes cannot be split, if so."""
    several = int((np.bincount(codes) > 1).sum())
    if several < 4:
        return f"new classes are not compared: expected at least four classes of two or more rows, got {several}"
    return None
