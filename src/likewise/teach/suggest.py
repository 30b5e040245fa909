"""What to mark next: the items whose marks would tell most about the first results of a concept.

Marks are taken as observations of a Gaussian process with the kernel of the lessons. Its covariance given the marks so
far, C, does not depend on what they say, and tells how much a mark at row i would lower the variance at row j:
C_ij² / (C_ii + noise). Summed over rows j, the first results counting most, this is what a mark at i teaches. A row is
chosen, C is updated as if it were marked, and so on: near-duplicates of what was marked or chosen teach nothing more.
"""

from collections.abc import Sequence
from itertools import zip_longest
from typing import Literal, NamedTuple

import numpy as np
import scipy.linalg

from likewise.teach.groups import Group, Node
from likewise.teach.learning import Scored
from likewise.teach.scorers import Scorers, unwhitened

# Chosen on digits, newsgroups and Debian's stamps (half of the rows to mark, AP on the other half), then compared with
# five variants on ten concepts of Caltech101 that `benchmarks.suggestions` does not report.
FALL = 100  # places down the results after which a row counts e times less: 50 or 200 are better on some sets
NOISE = 0.1  # variance of a mark relative to the kernel's; the ridge of the lessons
MOST_CANDIDATES = 500  # results that are compared with each other, and marks; the last one counts e⁵ times less
STUCK = 10  # wrong marks without a right one, after which something else is shown
UNLIKE = 0.8  # share of the variance that all marks leave to a row which is unlike them

REASONS = {
    "unlike": "unlike anything marked so far",
    "border": "near the border of {}",
    "likely": "probably {}, like others not marked yet",
    "unlikely": "probably not {}, but close to it",
    "typical": "many others are like it",
    "another": "something else, as nothing was right yet",
    "new": "new, and probably {}",
}

Reason = Literal["unlike", "border", "likely", "unlikely", "typical", "another", "new"]


class NamedGroup(NamedTuple):
    """A label or a query, its name, and the group of its marks."""

    node: Node
    name: str
    group: Group

    @property
    def n_marked(self) -> int:
        return len(self.group.belongs | self.group.other)


class Suggestion(NamedTuple):
    """An item to mark, for which concept (None where nothing was marked yet), and why.

    `gain` is the share of what is unknown about the first results that the mark would take away.
    """

    row: int
    concept: NamedGroup | None
    gain: float
    why: Reason

    @property
    def reason(self) -> str:
        """Why, in words."""
        return REASONS[self.why].format(self.concept.name if self.concept else "")


class Chosen(NamedTuple):
    """A place among candidates, and the share of their weighted variance that a mark there takes away."""

    place: int
    gain: float


def covariance(Z: np.ndarray, marked: np.ndarray) -> np.ndarray:
    """Covariance of unit rows Z given noisy values at other rows: K_ZZ - K_ZM (K_MM + noise)⁻¹ K_MZ."""
    K = _kernel(Z, Z)
    if not len(marked):
        return K
    K_MM = _kernel(marked, marked)
    K_MM[np.diag_indices_from(K_MM)] += np.float32(NOISE)
    A = scipy.linalg.solve_triangular(scipy.linalg.cholesky(K_MM, lower=True), _kernel(marked, Z), lower=True)
    return np.asarray(K - A.T @ A)


def _kernel(Z: np.ndarray, marked: np.ndarray) -> np.ndarray:
    """exp(2 (cosine - 1))"""
    return np.asarray(np.exp(2 * (Z @ marked.T - 1)))


def most_telling(C: np.ndarray, weights: np.ndarray, n: int) -> list[Chosen]:
    """The n rows whose marks teach most, one after the other, each given those before it."""
    C, chosen = C.copy(), list[Chosen]()
    left = np.ones(len(C), bool)
    for _ in range(min(n, len(C))):
        variance = np.diag(C)
        lowered = weights @ (C * C) / (variance + NOISE)
        best = int(np.argmax(np.where(left, weights * lowered, -1)))
        chosen.append(Chosen(best, float(lowered[best] / max(weights @ variance, 1e-12))))
        left[best] = False
        C -= np.outer(C[best], C[best] / (C[best, best] + NOISE))
    return chosen


def suggested(concept: NamedGroup, scored: Scored, n: int, among: np.ndarray) -> list[Suggestion]:
    """The n items `among` rows of the index that would teach most about a concept, without its marked ones."""
    scores = scored.ranking
    free = np.flatnonzero(np.isin(scored.rows, among) & ~scored.is_marked)
    first = free[np.argsort(-scores[free], kind="stable")[:MOST_CANDIDATES]]
    if not len(first):
        return []
    right, wrong = (scored.examples.rows[scored.examples.right == side] for side in (True, False))
    Z = unwhitened(scored.scorers.U[first])
    C = covariance(Z, unwhitened(scored.examples.U))
    if len(right) <= 1 and len(wrong) >= STUCK:
        chosen = _promising(Z, C, unwhitened(scored.examples.U), scored.examples.right, n)
        return [Suggestion(int(scored.rows[first[place]]), concept, gain, "another") for place, gain in chosen]
    variance, weights = np.diag(C), np.exp(-np.arange(len(first), dtype=np.float32) / FALL)
    plain = scored.scores
    high = np.median(plain[right[right >= 0]]) if (right >= 0).any() else np.inf
    low = np.median(plain[wrong[wrong >= 0]]) if (wrong >= 0).any() else -np.inf

    def reason(place: int) -> Reason:
        if variance[place] > UNLIKE:
            return "unlike"
        return "likely" if plain[first[place]] >= high else "unlikely" if plain[first[place]] <= low else "border"

    chosen = most_telling(C, weights, n)
    return [Suggestion(int(scored.rows[first[place]]), concept, gain, reason(place)) for place, gain in chosen]


def _promising(Z: np.ndarray, C: np.ndarray, marked: np.ndarray, right: np.ndarray, n: int) -> list[Chosen]:
    """GP-UCB: the n rows with the highest mean plus deviation, each given those before it, as if they had their mean.

    Where nothing right is near, this looks further away than the first results, yet not just anywhere.
    """
    K = _kernel(marked, marked).astype(np.float64)
    mean = _kernel(Z, marked) @ np.linalg.solve(K + NOISE * np.eye(len(K)), right.astype(np.float64))
    C, chosen = C.copy(), list[Chosen]()
    free = np.ones(len(Z), bool)
    for _ in range(min(n, len(Z))):
        bound = mean + np.sqrt(np.maximum(np.diag(C), 0))
        best = int(np.argmax(np.where(free, bound, -np.inf)))
        free[best] = False
        chosen.append(Chosen(best, float(C[best, best])))
        C -= np.outer(C[best], C[best] / (C[best, best] + NOISE))
    return chosen


def in_turn(each: Sequence[Sequence[Suggestion]], n: int) -> list[Suggestion]:
    """n suggestions, in turn for each concept; an item is for the concept that comes first."""
    mixed = [hit for tier in zip_longest(*each) for hit in tier if hit is not None]
    first = {hit.row: hit for hit in reversed(mixed)}
    return [hit for hit in mixed if first[hit.row] is hit][:n]


def a_start(scorers: Scorers, rows: np.ndarray, n: int, among: np.ndarray) -> list[Suggestion]:
    """Where nothing was marked: the n items that represent most others; `rows` are those of the scorers."""
    some = np.flatnonzero(np.isin(rows, among))
    some = np.sort(np.random.default_rng(0).permutation(some)[:MOST_CANDIDATES])
    Z = unwhitened(scorers.U[some])
    chosen = most_telling(covariance(Z, Z[:0]), np.ones(len(some), np.float32), n)
    return [Suggestion(int(rows[some[place]]), None, gain, "typical") for place, gain in chosen]
