"""Classes that were never seen: a closed-form family of maps that contains the plain cosine.

S_w and S_b are the covariances within and between classes. The map first whitens S_w, shrunk to its mean by a; then it
weighs the directions of S_b by (b′ / (b′ + 1))^p, b′ = b + h mean(b), since unseen classes vary a little in every
direction. a = 1, p = 0 is the plain cosine, p = 0 is WCCN, h = 0 is LDA's subspace, p = ½ is close to PLDA.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from itertools import product

import numpy as np
import scipy.linalg

from likewise.core.anchored_preparing import Data
from likewise.core.heads import unit
from likewise.core.whitening import check_room, gram
from likewise.metrics import mean_average_precision
from likewise.selection.holdout import Split
from likewise.selection.search import Journal

__all__ = ["Member", "choose_member", "member_map", "scatter", "scatter_map"]

SHRINK = (0.03, 0.1, 0.3, 0.5, 0.7, 0.9, 0.97, 1.0)
SPREAD = (0.3, 1.0, 3.0, 10.0)
POWER = (0.0, 0.25, 0.5, 0.75)
MOST_HELD = 2_000  # more held-out rows cost time and change no choice


@dataclass(frozen=True)
class Member:
    """One map of the family: shrinkage a, spread h and power p. The default is the plain cosine."""

    shrink: float = 1.0
    spread: float = 1.0
    power: float = 0.0
    scaling: str = "unit"


@dataclass(frozen=True)
class Directions:
    """T_a Q and the variances b between classes along it, for one shrinkage."""

    T: np.ndarray
    b: np.ndarray

    def weights(self, member: Member) -> np.ndarray:
        raised = self.b + member.spread * self.b.mean()
        return (raised / (raised + 1)) ** member.power


def member_map(data: Data, member: Member) -> np.ndarray:
    """The map (d, d) of one member, learned from the classes of `data`."""
    return scatter_map(*_scatter(data), member)


def scatter_map(S_w: np.ndarray, S_b: np.ndarray, member: Member) -> np.ndarray:
    """The map of one member from the covariances within and between classes."""
    directions = _directions(S_w, S_b, member.shrink)
    return directions.T * directions.weights(member)


def choose_member(data: Data, splits: list[Split], journal: Journal, rng: np.random.Generator) -> Member:
    """The member that ranks held-out classes best: shrinkage first, then spread and power around it.

    Few classes make a noisy holdout, and its splits share classes, so a member that is not better than the plain cosine
    by more than the standard deviation of their difference over the splits gives way to it.
    """
    folds = [_Fold(data, split, rng) for split in splits]
    tried: dict[Member, np.ndarray] = {}

    def score(member: Member) -> float:
        if member not in tried:
            began = time.perf_counter()
            tried[member] = np.array([fold.score(member) for fold in folds])
            journal.note(asdict(member), float(tried[member].mean()), time.perf_counter() - began)
        return float(tried[member].mean())

    plain = Member(scaling=data.scaling.name)
    first = max([plain, *(replace(plain, shrink=a, power=p) for a, p in product(SHRINK, (0.0, 0.5)))], key=score)
    at = SHRINK.index(first.shrink)
    best = max([first, *(replace(first, spread=h, power=p) for h, p in product(SPREAD, POWER[1:]))], key=score)
    best = max([best, *(replace(best, shrink=a) for a in SHRINK[max(at - 1, 0) : at + 2])], key=score)
    gain = tried[best] - tried[plain]
    return best if gain.mean() > gain.std() else plain


class _Fold:
    """One split by class: directions from the classes seen, rows of those held out."""

    def __init__(self, data: Data, split: Split, rng: np.random.Generator) -> None:
        seen = data.part(split.train)
        held = np.sort(rng.permutation(split.held)[:MOST_HELD])
        self.X, self.codes = seen.centred(data.X[held]), data.codes[held]
        self.scatter = _scatter(seen)
        self.rotated = lru_cache(maxsize=2)(self._rotated)

    def _rotated(self, shrink: float) -> tuple[Directions, np.ndarray]:
        directions = _directions(*self.scatter, shrink)
        return directions, self.X @ directions.T.astype(self.X.dtype)

    def score(self, member: Member) -> float:
        directions, Z = self.rotated(member.shrink)
        Z = unit(Z * directions.weights(member).astype(Z.dtype))
        return float(mean_average_precision(Z, Z, self.codes))


def _scatter(data: Data) -> tuple[np.ndarray, np.ndarray]:
    """Covariances within and between classes, S_w and S_b."""
    check_room(data.X.shape[1], data.X.shape)
    w = np.ones(data.X.shape[0]) if data.weights is None else data.weights
    present, codes = np.unique(data.codes, return_inverse=True)
    onehot = np.zeros((len(present), len(codes)), dtype=data.X.dtype)
    onehot[codes, np.arange(len(codes))] = w
    size = np.bincount(codes, w)
    sums = np.asarray(onehot @ data.X, dtype=np.float64)
    return scatter(gram(data.X, data.weights), sums, size, data.mean.astype(np.float64))


def scatter(G: np.ndarray, sums: np.ndarray, size: np.ndarray, mean: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """S_w and S_b from the Gram matrix, the sums of the rows of each class, their weights, and the mean."""
    means = sums / size[:, None]
    about_zero = (means * (size / size.sum())[:, None]).T @ means
    return G / size.sum() - about_zero, about_zero - np.outer(mean, mean)


def _directions(S_w: np.ndarray, S_b: np.ndarray, shrink: float) -> Directions:
    values, V = scipy.linalg.eigh(S_w, driver="evd", check_finite=False)
    values = np.maximum(values, 0.0)
    shrunk = (1 - shrink) * values + shrink * values.mean()
    T = V / np.sqrt(np.maximum(shrunk, 1e-12 * max(shrunk.max(), 1e-300)))
    b, Q = scipy.linalg.eigh(T.T @ S_b @ T, driver="evd", check_finite=False)
    return Directions(T @ Q, np.maximum(b, 0.0))
