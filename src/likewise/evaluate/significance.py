"""Confidence of a mean over queries, and whether one model is better than another on the same queries."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import bootstrap

from likewise.errors import LikewiseError

RandomState = int | np.random.Generator | None
_CHUNK = 1 << 21  # numbers drawn at a time: bounds the memory for any number of queries and resamples


@dataclass(frozen=True)
class PairedTest:
    """Mean difference a − b over the same queries, its bootstrap interval and the two-sided p-value."""

    difference: float
    interval: tuple[float, float]
    p_value: float
    n_queries: int


def bootstrap_interval(
    per_query: ArrayLike, confidence: float = 0.95, n_resamples: int = 2000, random_state: RandomState = 0
) -> tuple[float, float]:
    """Percentile bootstrap interval of the mean over queries.

    Examples
    --------
    >>> low, high = bootstrap_interval([0.2, 0.4, 0.6, 0.8])
    >>> low < 0.5 < high
    True
    """
    values = _checked("per_query", per_query)
    if not 0 < confidence < 1:
        raise LikewiseError(f"confidence={confidence} is outside (0, 1): 0.95 is usual")
    n_resamples = _resamples(n_resamples)
    if values.size == 1:  # SciPy wants at least two
        return float(values[0]), float(values[0])
    interval = bootstrap(
        (values,),
        np.mean,
        n_resamples=n_resamples,
        batch=max(1, _CHUNK // (2 * values.size)),  # SciPy holds each number twice
        confidence_level=confidence,
        method="percentile",
        random_state=np.random.default_rng(random_state),
    ).confidence_interval
    return float(interval.low), float(interval.high)


def paired_test(
    per_query_a: ArrayLike,
    per_query_b: ArrayLike,
    *,
    confidence: float = 0.95,
    n_resamples: int = 10_000,
    random_state: RandomState = 0,
) -> PairedTest:
    """Paired permutation test: do two models differ on the same queries?

    If neither is better, each difference is as likely with the opposite sign: the p-value is the share of sign flips
    whose mean is at least as far from zero as the observed one. All 2ⁿ flips are tried if they are at most
    `n_resamples`, otherwise that many random ones (the observed one counts as drawn, so p is never 0).
    """
    a, b = _checked("per_query_a", per_query_a), _checked("per_query_b", per_query_b)
    if a.size != b.size:
        sizes = f"per_query_a has {a.size} values and per_query_b {b.size}"
        raise LikewiseError(f"{sizes}: a paired test needs the same queries for both")
    d = a - b
    p_value = _sign_flip(d, _resamples(n_resamples), random_state)
    interval = bootstrap_interval(d, confidence, random_state=random_state)
    return PairedTest(float(d.mean()), interval, p_value, d.size)


# scipy.stats.permutation_test gives the same p-values 34 to 50 times slower, since it permutes pair by pair: 0.83 s
# against 0.024 s for 1,000 queries, 10.0 s against 0.19 s for 10,000 (10,000 resamples, SciPy 1.17).
def _sign_flip(d: np.ndarray, n_resamples: int, random_state: RandomState) -> float:
    """Share of sign flips of d whose sum is at least as far from zero as that of d."""
    exact = 2**d.size <= n_resamples if d.size < 64 else False
    flips = _all_flips(d.size) if exact else _drawn_flips(d.size, n_resamples, random_state)
    total = d.sum()
    far = abs(total) - 1e-12 * np.abs(d).sum()  # sums in another order differ by rounding
    extreme = sum(int(np.count_nonzero(np.abs(total - 2 * (flip @ d)) >= far)) for flip in flips)
    return extreme / 2**d.size if exact else (1 + extreme) / (1 + n_resamples)


def _all_flips(n: int) -> Iterator[np.ndarray]:
    """All subsets of n signs to flip, as rows of 0 and 1."""
    for rows in np.array_split(np.arange(2**n), max(1, 2**n * n // _CHUNK)):
        yield (rows[:, None] >> np.arange(n) & 1).astype(np.float64)


def _drawn_flips(n: int, n_resamples: int, random_state: RandomState) -> Iterator[np.ndarray]:
    rng = np.random.default_rng(random_state)
    step = max(1, _CHUNK // n)
    for start in range(0, n_resamples, step):
        drawn = rng.integers(256, size=(min(step, n_resamples - start), -(-n // 8)), dtype=np.uint8)
        yield np.unpackbits(drawn, axis=1, count=n).astype(np.float64)


def _resamples(n_resamples: int) -> int:
    if n_resamples < 1:
        raise LikewiseError(f"n_resamples={n_resamples} is below 1: 2000 is usual")
    return n_resamples


def _checked(name: str, values: ArrayLike) -> np.ndarray:
    values = np.asarray(values, dtype=np.float64)
    if values.ndim != 1 or not values.size:
        raise LikewiseError(f"{name} has shape {values.shape}: expected one value per query, at least one")
    if not np.isfinite(values).all():
        raise LikewiseError(f"{name} contains NaN or infinity: leave out queries without a value")
    return values
