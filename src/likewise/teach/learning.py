"""From groups to scores and coordinates: each group is a concept, whose scorer ranks the gallery and lifts its rows.

A concept is searched by its scores. Searches by other pictures use taught coordinates: the scores of each group, in
units of what its first rows have, closer to zero by a threshold, next to the vectors of the index.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import Any, NamedTuple, cast

import numpy as np

from likewise.evaluate.calibration import Calibration, Evidence
from likewise.learn.base import SimilarityModel
from likewise.search.index import Index
from likewise.teach.colours import Colours
from likewise.teach.groups import Group, Node
from likewise.teach.scorers import MOST_EXAMPLES, Examples, Scorers
from likewise.teach.taught import ChangedRows, Taught, beyond
from likewise.utils.arrays import evenly_spaced

# Measured by `python -m benchmarks.teaching_photos` on Caltech101: results hardly change around these values.
MOST_ROWS = 20_000  # of a larger gallery a concept scores only what is near its right examples
CANDIDATES = 4_000  # rows near the right examples of a concept that it then scores
MOST_ASKING = 20  # right examples that candidates are near to
REACH = 20  # rows of a group that get a coordinate of at least 1, or as many as it has examples: 50 harm others
MIN_RIGHT, MAX_WRONG = 2.0, 0.45  # least coordinate of an example, and minus that of a row marked wrong
LANDMARKS = 300  # rows with the largest coordinates that the coordinates are regressed on, and others
MOST = 2.0  # the largest coordinate; at 1 the first rows of a concept had equal scores
FOLDS = 8  # parts of the marks that are left out in turn
FEWEST_MARKS = 8  # of either kind: fewer say nothing about probabilities
OTHERS = 200  # rows that nobody marked, whose scores say what a score means


class Trial(NamedTuple):
    """A mark, and its score by a scorer that did not learn from it."""

    node: Node
    right: bool
    score: float


@dataclass(frozen=True, eq=False)
class Scored:
    """The scores of a group: of `rows` of the index, in ascending order, by its `nodes`.

    `scorers` are all that these rows share, and rows of `examples` are places in `rows`.
    """

    group: Group
    explicit: Collection[Node] | None  # rows that were marked or labelled themselves
    rows: np.ndarray
    scorers: Scorers
    examples: Examples
    nodes: list[Node]

    @cached_property
    def scores(self) -> np.ndarray:
        """The scores of the rows."""
        return self.scorers.scores(self.examples)

    @cached_property
    def is_marked(self) -> np.ndarray:
        """Which of the rows are examples."""
        return self.places(self.group.belongs | self.group.other)

    def places(self, nodes: Collection[Node]) -> np.ndarray:
        """Which of the rows are among these nodes."""
        return np.isin(self.rows, rows_of(nodes))

    @cached_property
    def ranking(self) -> np.ndarray:
        """Scores that rank: rows that were marked or labelled as belonging come first, those as not belonging last."""
        scores = self.scores.copy()
        spread = float(np.ptp(scores)) + 1
        right, wrong = (nodes if self.explicit is None else nodes & {*self.explicit} for nodes in sides(self.group))
        scores[self.places(right)] += spread
        scores[self.places(wrong)] -= spread
        return scores

    @cached_property
    def trials(self) -> list[Trial]:
        """What each mark scores if it is left out."""
        left_out = self._left_out()
        if not len(left_out):
            return []
        fold = np.full(len(self.nodes), -1)
        fold[left_out] = np.arange(len(left_out)) % FOLDS
        folds = range(min(FOLDS, len(left_out)))
        by_fold = self.scorers.scores(self.examples, [fold != number for number in folds])
        scores = by_fold[fold[left_out], self.examples.rows[left_out]].tolist()
        right = self.examples.right[left_out].tolist()
        return [Trial(self.nodes[place], *one) for place, *one in zip(left_out, right, scores, strict=True)]

    def _left_out(self) -> np.ndarray:
        """Places of the examples that can be left out: rows, of which one that belongs stays; right ones first."""
        is_row = self.examples.rows >= 0
        if self.explicit is not None:
            is_row &= np.array([node in self.explicit for node in self.nodes])
        elif any(node.kind == "label" for node in self.group.belongs):
            is_row &= self.examples.right  # most others merely have another label
        right = np.flatnonzero(is_row & self.examples.right)
        if len(right) == self.examples.right.sum():
            right = right[1:] if len(right) <= 1 else right
        return np.concatenate([right, np.flatnonzero(is_row & ~self.examples.right)])

    def evidence(self, fewest: int) -> Evidence | None:
        """What scores mean, by marks that were left out in turn; None with fewer of either kind."""
        right, wrong = ([trial.score for trial in self.trials if trial.right == side] for side in (True, False))
        if min(len(right), len(wrong)) < fewest:
            return None
        others = self.scores[~self.is_marked]
        return Evidence.of_marks(right, wrong, others[evenly_spaced(len(others), OTHERS)].tolist())

    @cached_property
    def calibration(self) -> Calibration | None:
        """Probabilities of the scores, for a cut-off; None with fewer than FEWEST_MARKS right or wrong ones."""
        evidence = self.evidence(FEWEST_MARKS)
        return None if evidence is None else Calibration({0: evidence})

    def probabilities(self, rows: np.ndarray) -> np.ndarray:
        """How likely rows of the index belong: 1 or 0 if they were marked, and 0 if they were not scored."""
        assert self.calibration is not None
        places = np.clip(np.searchsorted(self.rows, rows), 0, len(self.rows) - 1)
        P = self.calibration.probability(self.scores[places], np.zeros(len(rows), bool))
        right, wrong = (rows_of(nodes) for nodes in sides(self.group))
        return np.where(np.isin(rows, right), 1, np.where((self.rows[places] != rows) | np.isin(rows, wrong), 0, P))

    def above(self, at_most_wrong: float) -> tuple[np.ndarray, np.ndarray]:
        """Rows of the index that nobody marked above a cut-off, best first, and their probabilities."""
        assert self.calibration is not None
        free = np.flatnonzero(~self.is_marked)
        order = free[np.argsort(-self.scores[free], kind="stable")]
        kinds = np.zeros((1, len(order)), bool)
        P = self.calibration.probability(self.scores[order][None], kinds)
        n = int(self.calibration.n_results(P, at_most_wrong, kinds, len(order))[0])
        return self.rows[order[:n]], P[0, :n]


class Learner:
    """Scores and coordinates of groups on an index that was not taught; what depends only on the gallery is kept."""

    def __init__(self, index: Index) -> None:
        self.base: SimilarityModel = index.model
        self._index, self._V = index, index.plain_vectors
        self.cosine = bool(np.allclose(np.linalg.norm(self._V[:1000], axis=1), 1, atol=1e-3))
        self.colours = Colours(index)
        self._lock = threading.Lock()
        self._sample: Scorers | None = None

    @property
    def is_large(self) -> bool:
        """Whether concepts score a part of the gallery only."""
        return len(self._index) > MOST_ROWS

    @cached_property
    def some(self) -> np.ndarray:
        """All rows, or some of a large gallery."""
        n = len(self._index)
        return np.sort(np.random.default_rng(0).permutation(n)[:CANDIDATES]) if self.is_large else np.arange(n)

    def prepare(self) -> Scorers:
        """What all concepts share, computed once: the scorers of the gallery, or of some rows of a large one."""
        with self._lock:
            if self._sample is None:
                self._sample = Scorers(np.asarray(self._V[self.some], np.float32))
                self._sample.colours = None if self.is_large else self.colours.rows()
            return self._sample

    def scored(self, group: Group, explicit: Collection[Node] | None = None) -> Scored:
        """The scores of a group, ready to be computed; `explicit` are the rows that were marked or labelled."""
        right, wrong = (_thinned(nodes, explicit or ()) for nodes in sides(group))
        rows, scorers = self._around(right, wrong)
        nodes = right + wrong
        places = np.full(len(nodes), -1)
        is_row = np.array([node.kind == "row" for node in nodes])
        places[is_row] = np.searchsorted(rows, rows_of(nodes))
        U = np.empty((len(nodes), scorers.U.shape[1]), np.float32)
        U[is_row] = scorers.U[places[is_row]]
        if not is_row.all():
            U[~is_row] = scorers.space(self.vectors_of([node for node in nodes if node.kind != "row"]))
        others = np.array([node in group.labelled for node in nodes])
        examples = Examples(U, np.arange(len(nodes)) < len(right), places, others)
        return Scored(group, explicit, rows, scorers, examples, nodes)

    def _around(self, right: list[Node], wrong: list[Node]) -> tuple[np.ndarray, Scorers]:
        """The rows that a concept scores, and their scorers: all, or candidates near its right examples."""
        sample = self.prepare()
        if not self.is_large:
            return self.some, sample
        asking = [right[place] for place in evenly_spaced(len(right), MOST_ASKING)]
        near = self._index.space().rank(self._query_side(asking), -(-CANDIDATES // len(asking)))[0]
        rows = np.unique(np.concatenate([near.ravel(), rows_of([*right, *wrong]), self.some[::4]]))
        rows = rows[rows >= 0]
        return rows, Scorers(np.asarray(self._V[rows], np.float32), sample.space, sample.background)

    def _query_side(self, nodes: list[Node]) -> np.ndarray:
        """Query vectors of rows and queries, as the index is searched by."""
        rows = [np.asarray(self._index.raw[_row(node)] if node.kind == "row" else node.value) for node in nodes]
        return self._index.space().embed(np.array(rows, np.float32))

    def vectors_of(self, nodes: Sequence[Node]) -> np.ndarray:
        """Vectors of rows and of queries from elsewhere."""
        vectors = [
            np.asarray(self._V[_row(node)])
            if node.kind == "row"
            else self.base.transform(np.array([node.value], np.float32))[0]
            for node in nodes
        ]
        return np.array(vectors, np.float32).reshape(-1, self._V.shape[1])

    def scores(self, scored: Scored) -> np.ndarray:
        """Scores of all rows of the index that rank them for a concept; of a large gallery its candidates are first."""
        if len(scored.rows) == len(self._index):
            return scored.ranking
        right = [node for node, is_right in zip(scored.nodes, scored.examples.right, strict=True) if is_right]
        S = self._index.space().scores(self._query_side(right[:MOST_ASKING]).mean(axis=0)[None])[0]
        S = S - (S.max() - scored.scores.min() + 1)
        S[scored.rows] = scored.ranking
        return np.asarray(S, np.float32)

    def learn(self, concepts: Sequence[Scored]) -> tuple[Taught, ChangedRows]:
        """The taught model, with a coordinate for each concept, and the coordinates of the rows that it reaches."""
        rows = np.unique(np.concatenate([scored.rows for scored in concepts]))
        F = np.zeros((len(rows), len(concepts)), np.float32)
        for number, scored in enumerate(concepts):
            F[np.searchsorted(rows, scored.rows), number] = coordinate(scored)
        model = self._regressed(concepts, rows, F)
        f = beyond(model.coordinates(np.asarray(self._V[rows], np.float32)))
        reached = f.any(axis=1)
        return model, ChangedRows(rows[reached], f[reached])

    def _regressed(self, concepts: Sequence[Scored], rows: np.ndarray, F: np.ndarray) -> Taught:
        """Kernel ridge regression of the coordinates: on examples, the first rows of each concept, and some others."""
        each = min(max(1, LANDMARKS // len(concepts)), len(rows))
        first = np.argpartition(F.T, len(rows) - each, axis=1)[:, len(rows) - each :]
        some = np.union1d(first[np.take_along_axis(F.T, first, axis=1) > 0.5], evenly_spaced(len(rows), LANDMARKS))
        marked = np.concatenate([rows_of(scored.nodes) for scored in concepts])
        some = np.union1d(some, np.searchsorted(rows, marked)).astype(np.int64)
        strangers = dict.fromkeys(node for scored in concepts for node in scored.nodes if node.kind != "row")
        V = np.vstack([self._V[rows[some]], self.vectors_of(list(strangers))]).astype(np.float32)
        says = [dict(zip(scored.nodes, scored.examples.right.tolist(), strict=True)) for scored in concepts]
        values = {True: MIN_RIGHT, False: -MAX_WRONG, None: 0.0}
        other = [[values[said.get(node)] for said in says] for node in strangers]
        T = np.vstack([F[some], np.array(other, np.float32).reshape(-1, len(concepts))])
        is_example = np.concatenate([np.isin(rows[some], marked), np.ones(len(strangers), bool)])
        space, scale = self.prepare().space, 1.0 if self.cosine else self._spread_of_scores
        return Taught.of(self.base, space, space(V), T, is_example, cosine=self.cosine, scale=scale)

    @cached_property
    def _spread_of_scores(self) -> float:
        """The standard deviation of the base's scores: the unit of a coordinate unless they are cosines."""
        rows = self.some[evenly_spaced(len(self.some), 300)]
        S = self.base.transform_query(np.asarray(self._index.raw[rows], np.float32)) @ self._V[rows].T
        return float(S.std()) or 1.0


def level(scores: np.ndarray, n_right: int) -> float:
    """The score of the last row that a concept reaches fully."""
    reach = min(max(REACH, n_right), max(1, len(scores) // 20))
    return max(float(np.partition(scores, len(scores) - reach)[len(scores) - reach]), 1e-6)


def coordinate(scored: Scored) -> np.ndarray:
    """The coordinate of each row of a concept: examples are where they were said to be."""
    scores, group = scored.scores, scored.group
    f = np.clip(scores / np.float32(level(scores, int(scored.examples.right.sum()))), 0, MOST)
    right, wrong = map(scored.places, sides(group))
    f[right] = np.maximum(f[right], MIN_RIGHT)
    is_label = any(node.kind == "label" for node in group.belongs)  # other rows merely have another label
    f[wrong] = 0 if is_label else -MAX_WRONG
    return np.asarray(f, np.float32)


def sides(group: Group) -> tuple[set[Node], set[Node]]:
    """The nodes that belong to a group, and those that do not: what was marked both ways does not."""
    right = group.belongs - group.other or group.belongs
    return right, group.other - right


def _thinned(nodes: Collection[Node], explicit: Collection[Node]) -> list[Node]:
    """At most MOST_EXAMPLES of the nodes that have a vector, evenly, and explicit ones before others."""
    ordered = sorted((node for node in nodes if node.kind != "label"), key=lambda node: (node.kind, node.value))
    known = [node for node in ordered if node in explicit]
    rest = [node for node in ordered if node not in explicit] if known else ordered
    parts = (known, MOST_EXAMPLES), (rest, max(0, MOST_EXAMPLES - len(known)))
    return sorted((part[place] for part, most in parts for place in evenly_spaced(len(part), most)), key=ordered.index)


def rows_of(nodes: Collection[Node]) -> np.ndarray:
    """The row numbers of nodes that are rows."""
    return np.fromiter((_row(node) for node in nodes if node.kind == "row"), np.int64)


def _row(node: Node) -> int:
    return cast(int, node.value)


# ---------------------------------------------------------------------------------------------------------------------
# The card of a concept: what to expect of pictures that nobody marked, and what to do next

N_PROMISED = 20  # results whose expected precision the card states
FEWEST_OF_A_KIND = 3  # marks, right and wrong, to expect anything
UNLIKE_MARKS = 0.15  # deviation of the expectation from the truth, as unmarked results are not drawn as marks are
MANY_MARKS, CHANCE = 30, 0.6  # marks after which a concept that ranks them hardly better than chance is given up
IN_A_ROW = 10  # wrong marks without a right one
DOUBTFUL = 6  # marks shown that contradict the others


class Expected(NamedTuple):
    """The expected share of right ones among the first unmarked results, and an interval that has it 9 times of 10."""

    precision: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class ConceptCard:
    """What marks left out in turn say about a concept."""

    name: str
    n_right: int
    n_wrong: int
    trials: list[Trial]
    expected: Expected | None

    @property
    def doubtful(self) -> list[int]:
        """Rows whose marks contradict the others most."""
        if self.separates is None or self.separates < CHANCE:
            return []
        middle = np.mean([median(one.score for one in self.trials if one.right == side) for side in (True, False)])
        return [_row(one.node) for one in self.trials if (one.score > middle) != one.right][:DOUBTFUL]

    @property
    def separates(self) -> float | None:
        """How often a right mark left out scores above a wrong one; None if there are too few of either."""
        right, wrong = (
            np.array([trial.score for trial in self.trials if trial.right == side]) for side in (True, False)
        )
        if min(len(right), len(wrong)) < FEWEST_OF_A_KIND:
            return None
        return float((right[:, None] > wrong).mean())

    @property
    def next(self) -> str:
        """What to do next."""
        n, separates = self.n_right + self.n_wrong, self.separates
        if self.n_right <= 1 and self.n_wrong >= IN_A_ROW:
            return "nothing right yet: ask for something else, or start from two or three examples"
        if separates is not None and n >= MANY_MARKS and separates < CHANCE:
            return f"{n} marks and hardly better than chance: the features may not show this"
        if len(self.doubtful) > max(1, n // 10):
            return "some marks contradict the others: look at them again"
        if self.expected is None:
            return "mark a few more, right and wrong ones"
        return "good enough to keep" if self.expected.low >= 0.7 else "mark some near the border: ask what to mark next"

    def facts(self) -> dict[str, Any]:
        """Plain values for the journal and the page."""
        expected = None if self.expected is None else {k: round(v, 4) for k, v in self.expected._asdict().items()}
        return {
            "name": self.name,
            "right": self.n_right,
            "wrong": self.n_wrong,
            "expected": expected,
            "of": N_PROMISED,
            "next": self.next,
        }


def card_of(name: str, scored: Scored) -> ConceptCard:
    """The card of a concept."""
    trials, explicit = scored.trials, scored.explicit
    expected, evidence = None, scored.evidence(FEWEST_OF_A_KIND)
    first = np.sort(scored.scores[~scored.is_marked])[::-1][:N_PROMISED]
    if evidence is not None and len(first):
        p, n = float(evidence.probability(first).mean()), len(trials)
        spread = 1.645 * float(np.sqrt(p * (1 - p) * (1 / len(first) + 1 / n) + 0.25 / n**2 + UNLIKE_MARKS**2))
        expected = Expected(p, max(0.0, p - spread), min(1.0, p + spread))
    is_counted = np.array([explicit is None or node in explicit or node.kind == "query" for node in scored.nodes])
    n_right = int((is_counted & scored.examples.right).sum())
    return ConceptCard(name, n_right, int(is_counted.sum()) - n_right, trials, expected)
