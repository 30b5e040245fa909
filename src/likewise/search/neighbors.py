"""Smoothing by neighbours: every vector moves towards those nearest to it, and so does a query.

With z_1 … z_k the k gallery vectors nearest to a unit vector z, itself excluded, and w_j = max(z·z_j, 0)^power,

    z  becomes  z + Σ w_j z_j / Σ w_j,  at unit length again.

This is α-query expansion (Radenović, Tolias and Chum, 2019) for queries and database-side augmentation for the gallery.
It needs no labels. With a high power, a class of fewer than k items is not harmed: the few that are close outweigh the
rest.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.preprocessing import normalize

from likewise.errors import LikewiseError
from likewise.evaluate.ranking import RankingProblem, measured, whole
from likewise.learn.base import SimilarityModel
from likewise.search.approximate import Approximate
from likewise.search.rank import Exact, best_rows, without
from likewise.utils.progress import progress_bar

# Measured on Caltech101 (two kinds of features, raw and learned) and digits: galleries of 2, 3 and 5 items per class
# lose nothing on average, and whole ones gain 2 to 7 points of mAP. A power of 3 loses up to a point on classes of two;
# counting only mutual neighbours is no better than a high power.
K = 10
POWER = 8.0
MOST_POWER = 64.0
CANDIDATES = (0, 5, 10, 20)  # values of k that known labels choose from
FEWEST_ROWS = 500  # without labels, smaller galleries are left as they are: their neighbours are often wrong
CLEAR_GAIN = 0.01  # of mAP, for labels to smooth them all the same
FEWEST_QUERIES = 50  # labelled rows with another of their label, for the labels to choose k
MOST_QUERIES = 1_000
EXACT_UP_TO = 200_000  # the neighbours of a larger gallery are found by inverted lists, if faiss is installed
_SCORES = 2e7  # computed per candidate when choosing
_BLOCK = 1 << 24  # numbers gathered at a time
_STEP = 4096  # rows searched at a time
_SLOW = 5e10  # multiplications that take about two seconds
_EQUAL = 1e-4  # a query this close to a gallery row is that row: kernel models in float32 are exact to about 3e-5

Labels = Sequence[object] | np.ndarray | None


@dataclass(frozen=True)
class Neighbors:
    """The number of neighbours, and the power of the cosine that weights them."""

    k: int
    power: float = POWER

    def __post_init__(self) -> None:
        if isinstance(self.k, bool) or not isinstance(self.k, int | np.integer) or self.k < 1:
            raise LikewiseError(f"k={self.k!r}; expected a whole number of neighbours, at least 1")
        if not 0 <= self.power <= MOST_POWER:
            raise LikewiseError(f"power={self.power!r}; expected a number from 0 to {MOST_POWER:g}")
        object.__setattr__(self, "k", int(self.k))  # faiss and JSON take no numbers of numpy
        object.__setattr__(self, "power", float(self.power))


class NearestRows(NamedTuple):
    """Gallery rows and their cosines, both (n, k), nearest first."""

    rows: np.ndarray
    cosines: np.ndarray

    def first(self, k: int) -> Self:
        """The k nearest."""
        return self._replace(rows=self.rows[:, :k], cosines=self.cosines[:, :k])


def smoothed(V: np.ndarray, k: int, power: float = POWER, *, gallery: np.ndarray | None = None) -> np.ndarray:
    """Unit vectors V smoothed by their k nearest in `gallery`; without one, by those among V itself.

    A vector of V that is also in `gallery` is not its own neighbour. The result is float32.

    Examples
    --------
    >>> smoothed(np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]), k=1)[0].round(2)
    array([0.89, 0.45], dtype=float32)
    """
    choice, V = Neighbors(k, power), as_float32(V)
    if gallery is None:
        return expanded(V, V, nearest_others(finder(V), choice.k), choice.power)
    G = as_float32(gallery)
    return expanded(V, G, nearest_to(Exact(G), V, choice.k), choice.power)


def is_unit(V: np.ndarray) -> bool:
    """Whether all rows have unit length; zero rows, which have no direction, do not count."""
    squares = np.einsum("nr,nr->n", V, V)
    return bool(np.all((np.abs(squares - 1) < 2e-3) | (squares == 0)))


# -- The formula -------------------------------------------------------------------------------------------------------


def nearest_others(
    engine: Exact | Approximate, k: int, rows: np.ndarray | None = None, verbose: int = 0
) -> NearestRows:
    """The k nearest other rows of each gallery row, or of each of `rows`; fewer if there are not so many."""
    V = engine.V
    rows = np.arange(len(V)) if rows is None else rows
    k = min(k, len(V) - 1)
    nearest = NearestRows(np.empty((len(rows), k), np.int64), np.empty((len(rows), k), np.float32))
    slow = len(rows) * V.size > _SLOW
    with progress_bar("neighbours", len(rows), enabled=bool(verbose) and slow) as advance:
        for start in range(0, len(rows) if k else 0, _STEP):
            part = rows[start : start + _STEP]
            near = without(part[:, None], *best_rows(engine, V[part], k + 1), k)
            nearest.rows[start : start + _STEP], nearest.cosines[start : start + _STEP] = near
            advance(len(part))
    return nearest


def nearest_to(engine: Exact | Approximate, Q: np.ndarray, k: int) -> NearestRows:
    """The k gallery rows nearest to each query; one that equals the query is the query itself and is left out."""
    rows, cosines = best_rows(engine, Q, min(k + 1, len(engine.V)))
    is_own = np.abs(Q - engine.V[rows[:, 0]]).max(axis=1) < _EQUAL
    if rows.shape[1] > k:
        return NearestRows(*without(np.where(is_own, rows[:, 0], -2)[:, None], rows, cosines, k))
    cosines[is_own, 0] = -1  # of a gallery that small all rows are neighbours; this one gets no weight
    return NearestRows(rows, cosines)


def expanded(Z: np.ndarray, V: np.ndarray, near: NearestRows, power: float) -> np.ndarray:
    """Z plus the weighted mean of their nearest rows of V, at unit length."""
    # max(cosine, 0)^power, summing to one per row; zero where no neighbour has a positive cosine.
    C = np.maximum(near.cosines, 0).astype(np.float64)
    most = C.max(axis=1, keepdims=True, initial=0)
    W = np.where(C > 0, C / np.where(most > 0, most, 1), 0) ** power * (C > 0)
    W = (W / np.maximum(W.sum(axis=1, keepdims=True), 1e-300)).astype(np.float32)
    mean, step = np.empty_like(Z), max(1, _BLOCK // max(1, W.shape[1] * V.shape[1]))
    for start in range(0, len(Z), step):
        part = slice(start, start + step)
        mean[part] = np.einsum("nk,nkr->nr", W[part], V[near.rows[part]])
    return np.asarray(normalize(Z + mean)) if len(Z) else Z


def finder(V: np.ndarray) -> Exact | Approximate:
    """The engine that finds the neighbours of a gallery."""
    if len(V) > EXACT_UP_TO:
        try:
            return Approximate(V, "ivf")
        except LikewiseError:  # without faiss
            pass
    return Exact(V)


def as_float32(V: ArrayLike) -> np.ndarray:
    """V as faiss takes it."""
    return np.ascontiguousarray(V, dtype=np.float32)


# -- The choice --------------------------------------------------------------------------------------------------------


def chosen(V: np.ndarray, near: NearestRows, labels: Labels = None) -> Neighbors | None:
    """Neighbours for unit vectors whose nearest rows are known; None if they are better left as they are.

    Known labels choose k by the mAP of a sample of their rows; without enough of them k is 10. The power is
    POWER · c / (c - b), c the mean cosine of neighbours and b that of all pairs: weights then fall off as those of
    learned vectors, where b is 0, also for raw features whose cosines are all high.
    """
    c, mean = float(np.maximum(near.first(K).cosines, 0).mean()), V.mean(axis=0, dtype=np.float64)
    b = float(mean @ mean)
    power = float(min(MOST_POWER, POWER * c / (c - b))) if c > b else MOST_POWER
    known = np.flatnonzero([] if labels is None else [label is not None for label in labels])
    queries, codes = _queries(known, labels)
    if len(queries) < FEWEST_QUERIES:
        return Neighbors(K, power) if len(V) >= FEWEST_ROWS else None
    means = [_score(V, known, codes, queries, near, k, power) for k in CANDIDATES]
    if len(V) < FEWEST_ROWS:
        means[0] += CLEAR_GAIN  # the labels of few rows are a small sample
    best = CANDIDATES[int(np.argmax(means))]  # the smallest of equally good ones
    return Neighbors(best, power) if best else None


def _queries(known: np.ndarray, labels: Labels) -> tuple[np.ndarray, np.ndarray]:
    """A sample of the labelled rows that share their label, as places in `known`; and codes of all their labels."""
    if labels is None or not len(known):
        return known, known
    _, codes, counts = np.unique([str(labels[row]) for row in known], return_inverse=True, return_counts=True)
    shared = np.flatnonzero(counts[codes] > 1)
    most = int(np.clip(_SCORES / len(known), 100, MOST_QUERIES))
    return np.sort(np.random.default_rng(0).permutation(shared)[:most]), codes


def _score(
    V: np.ndarray, known: np.ndarray, codes: np.ndarray, queries: np.ndarray, near: NearestRows, k: int, power: float
) -> float:
    """mAP of the queries, each of which ranks all other labelled rows."""
    Z = V[known]
    if k:
        Z = expanded(Z, V, NearestRows(near.rows[known, :k], near.cosines[known, :k]), power)
    return float(measured(RankingProblem.of(Z, Z, codes), {"mAP": whole}, queries)["mAP"].mean())


# -- The vectors of a gallery before and after smoothing ---------------------------------------------------------------


_WIDER = 3  # times as many candidates from an approximate engine, which searches by smoothed vectors


@dataclass(frozen=True)
class SmoothedGallery:
    """A gallery's vectors before (`plain`) and after smoothing.

    `reach` is the cosine of each row with its k-th neighbour: rows further away do not matter to it.
    """

    plain: np.ndarray
    choice: Neighbors
    vectors: np.ndarray
    reach: np.ndarray

    @classmethod
    def of(cls, V: np.ndarray, choice: Neighbors, verbose: int = 0) -> Self:
        """Smooth a gallery of unit vectors."""
        V = as_float32(V)
        return cls._from(V, choice, nearest_others(finder(V), choice.k, verbose=verbose))

    @classmethod
    def auto(cls, V: np.ndarray, labels: Labels = None, verbose: int = 0) -> Self | None:
        """Smooth a gallery as `chosen` says, if at all."""
        V = as_float32(V)
        if len(V) < (FEWEST_ROWS if labels is None else FEWEST_QUERIES):
            return None
        near = nearest_others(finder(V), K if labels is None else max(CANDIDATES), verbose=verbose)
        choice = chosen(V, near, labels)
        return None if choice is None else cls._from(V, choice, near)

    @classmethod
    def _from(cls, V: np.ndarray, choice: Neighbors, near: NearestRows) -> Self:
        near = near.first(choice.k)
        return cls(V, choice, expanded(V, V, near, choice.power), _reach(near, choice.k))

    @cached_property
    def _engine(self) -> Exact:
        return Exact(self.plain)

    def queries(self, Q: np.ndarray, engine: Approximate | None = None) -> np.ndarray:
        """Query vectors smoothed by their neighbours in the gallery; `engine` finds these approximately."""
        Q, k = as_float32(Q), self.choice.k
        near = nearest_to(self._engine, Q, k) if engine is None else nearest_to(engine, Q, _WIDER * k)
        return expanded(Q, self.plain, near.first(k), self.choice.power)

    def changed(self, staying: np.ndarray, new: np.ndarray) -> Self:
        """The gallery of the rows `staying`, in ascending order, followed by others.

        It is as built from these rows; only those with a new or removed neighbour are computed again.
        """
        V = np.concatenate([self.plain[staying], as_float32(new)])
        if len(V) > EXACT_UP_TO:
            return type(self).of(V, self.choice)
        changes = np.concatenate([V[len(staying) :], np.delete(self.plain, staying, axis=0)])
        stale = _reached(V[: len(staying)], self.reach[staying], changes)
        rows = np.concatenate([np.flatnonzero(stale), np.arange(len(staying), len(V))])
        near = nearest_others(Exact(V), self.choice.k, rows)
        vectors = np.concatenate([self.vectors[staying], V[len(staying) :]])
        vectors[rows] = expanded(V[rows], V, near, self.choice.power)
        reach = np.concatenate([self.reach[staying], np.empty(len(V) - len(staying), np.float32)])
        reach[rows] = _reach(near, self.choice.k)
        return type(self)(V, self.choice, vectors, reach)


def smoothed_gallery(
    model: SimilarityModel, V: np.ndarray, n_neighbors: str | int | Neighbors, labels: Labels = None, verbose: int = 0
) -> SmoothedGallery | None:
    """Smooth the vectors of a model's gallery: "auto", a number of neighbours or `Neighbors`; None for 0.

    "auto" leaves vectors as they are if they are not compared by cosine. Of a taught model, those of its base are
    smoothed, so that neighbours need not be found again after each lesson.
    """
    is_auto = isinstance(n_neighbors, str) and n_neighbors == "auto"
    if not is_auto and not isinstance(n_neighbors, Neighbors):
        if isinstance(n_neighbors, bool) or not isinstance(n_neighbors, int | np.integer) or n_neighbors < 0:
            raise LikewiseError(f"n_neighbors={n_neighbors!r}; expected 'auto', a number of neighbours, or 0 for none")
        if not n_neighbors:
            return None
    if not (model.symmetric and is_unit(V)):
        if is_auto:
            return None
        raise LikewiseError(
            f"n_neighbors={n_neighbors!r} needs vectors of unit length, the same for queries and gallery; "
            f"those of {type(model).__name__} are not: use n_neighbors=0"
        )
    if is_auto:
        return SmoothedGallery.auto(model.base_part(V), labels, verbose)
    choice = n_neighbors if isinstance(n_neighbors, Neighbors) else Neighbors(int(n_neighbors))
    return SmoothedGallery.of(model.base_part(V), choice, verbose)


def with_base_part(V: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """V with other directions of its base part, whose lengths and the taught coordinates stay."""
    r = directions.shape[1]
    if r == V.shape[1]:
        return directions
    return np.hstack([directions * np.linalg.norm(V[:, :r], axis=1, keepdims=True), V[:, r:]])


def _reach(near: NearestRows, k: int) -> np.ndarray:
    """The cosine of the k-th neighbour; a row with fewer takes any other as one."""
    n, width = near.cosines.shape
    return np.array(near.cosines[:, -1]) if width == k else np.full(n, -2, np.float32)


def _reached(V: np.ndarray, reach: np.ndarray, changed: np.ndarray) -> np.ndarray:
    """Whether one of the changed vectors is, or was, a neighbour of each row, or nearly."""
    reached = np.zeros(len(V), dtype=bool)
    step = max(1, _BLOCK // max(1, len(changed)))
    for start in range(0, len(V) if len(changed) else 0, step):
        part = slice(start, start + step)
        reached[part] = (V[part] @ changed.T).max(axis=1) >= reach[part] - 1e-5
    return reached
