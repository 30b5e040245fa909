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

from likewise.learn.maths.kernels import Features
from likewise.teach.groups import Group, Node
from likewise.teach.learning import GroupLearner

# Chosen on digits, newsgroups and Debian's stamps (half of the rows to mark, AP on the other half), then compared with
# five variants on ten concepts of Caltech101 that `benchmarks.suggestions` does not report.
FALL = 100  # places down the results after which a row counts e times less: 50 or 200 are better on some sets
NOISE = 0.1  # variance of a mark relative to the kernel's; the ridge of the lessons
MOST_CANDIDATES = 500  # results that are compared with each other, and marks; the last one counts e⁵ times less
UNLIKE = 0.8  # share of the variance that all marks leave to a row which is unlike them

REASONS = {
    "unlike": "unlike anything marked so far",
    "border": "near the border of {}",
    "likely": "probably {}, like others not marked yet",
    "unlikely": "probably not {}, but close to it",
    "typical": "many others are like it",
}

Reason = Literal["unlike", "border", "likely", "unlikely", "typical"]


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


def covariance(kernel: Features, Z: np.ndarray, marked: np.ndarray) -> np.ndarray:
    """Covariance of rows Z given noisy values at other rows: K_ZZ - K_ZM (K_MM + noise)⁻¹ K_MZ."""
    K = _between(kernel, Z, Z)
    if not len(marked):
        return K
    K_MM = _between(kernel, marked, marked)
    K_MM[np.diag_indices_from(K_MM)] += np.float32(NOISE)
    A = scipy.linalg.solve_triangular(scipy.linalg.cholesky(K_MM, lower=True), _between(kernel, marked, Z), lower=True)
    return np.asarray(K - A.T @ A)


def _between(kernel: Features, Z: np.ndarray, landmarks: np.ndarray) -> np.ndarray:
    return np.asarray(Features(landmarks, kernel.gamma)(Z))


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


def suggested(learner: GroupLearner, concept: NamedGroup, n: int, among: np.ndarray) -> list[Suggestion]:
    """The n items `among` rows of the index that would teach most about a concept, without its marked ones."""
    gallery, scores = learner.prepare()[0], next(learner.rankings([concept.group])).rows
    marked = _Marked(learner, concept.group, scores)
    free = np.isin(learner.rows, among) & ~marked.rows
    first = _highest(scores, free)
    if not len(first):
        return []
    C = covariance(gallery.features, gallery.z[first], marked.directions())
    weights = np.exp(-np.arange(len(first), dtype=np.float32) / FALL)
    variance = np.diag(C)
    return [
        Suggestion(int(learner.rows[row]), concept, gain, marked.reason(float(scores[row]), float(variance[place])))
        for place, gain in most_telling(C, weights, n)
        for row in [first[place]]
    ]


def _highest(scores: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """Rows of the graph with the highest scores among those allowed, highest first."""
    rows = np.flatnonzero(allowed)
    return rows[np.argsort(-scores[rows], kind="stable")[:MOST_CANDIDATES]]


class _Marked:
    """What was marked for a group: where it is on the graph, and what its scores say of another row."""

    def __init__(self, learner: GroupLearner, group: Group, scores: np.ndarray) -> None:
        self._learner, self._scores = learner, scores
        right, wrong = (learner.on_graph(nodes) for nodes in (group.belongs, group.other))
        self.rows = right | wrong
        self._off_graph = learner.off_graph(group.belongs | group.other)
        self._high = np.median(scores[right]) if right.any() else np.inf
        self._low = np.median(scores[wrong]) if wrong.any() else -np.inf

    def directions(self) -> np.ndarray:
        """Unit rows of the marks; of very many, those with the highest scores."""
        on_graph = self._learner.prepare()[0].z[_highest(self._scores, self.rows)]
        return np.vstack([on_graph, self._learner.directions_of(self._off_graph[:MOST_CANDIDATES])])

    def reason(self, score: float, variance: float) -> Reason:
        """Why a row of this score and variance is worth a mark."""
        if variance > UNLIKE:
            return "unlike"
        return "likely" if score >= self._high else "unlikely" if score <= self._low else "border"


def suggested_in_turn(
    learner: GroupLearner, concepts: Sequence[NamedGroup], n: int, among: np.ndarray
) -> list[Suggestion]:
    """The n items that teach most, in turn for each concept; those with the fewest marks come first."""
    fewest = sorted(concepts, key=lambda concept: (concept.n_marked, concept.name))[:n]
    each = [suggested(learner, concept, n, among) for concept in fewest]
    in_turn = [hit for tier in zip_longest(*each) for hit in tier if hit is not None]
    first = {hit.row: hit for hit in reversed(in_turn)}  # for the concept that comes first
    return [hit for hit in in_turn if first[hit.row] is hit][:n]


def a_start(learner: GroupLearner, n: int, among: np.ndarray) -> list[Suggestion]:
    """Where nothing was marked: the n items that represent most others."""
    gallery = learner.prepare()[0]
    rows = np.flatnonzero(np.isin(learner.rows, among))
    some = np.sort(np.random.default_rng(0).permutation(rows)[:MOST_CANDIDATES])
    C = covariance(gallery.features, gallery.z[some], gallery.z[:0])
    chosen = most_telling(C, np.ones(len(some), np.float32), n)
    return [Suggestion(int(learner.rows[some[place]]), None, gain, "typical") for place, gain in chosen]
