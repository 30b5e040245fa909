"""From groups to a taught model: groups spread over the graph of neighbours, and one small system is solved.

A group is propagated over the graph of neighbours, its negatives against it, and the result is regressed on the rows by
a kernel. This gives one more coordinate per group, next to those of the model. A second, narrow kernel puts the
examples themselves where they belong, also where the first one cannot tell them from their neighbours.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Sequence, Set
from dataclasses import dataclass
from functools import partial
from itertools import chain
from statistics import median
from typing import Any, NamedTuple, Self, cast

import numpy as np
from sklearn.preprocessing import normalize

from likewise.evaluate.calibration import Calibration, Evidence
from likewise.learn.base import SimilarityModel
from likewise.learn.maths.kernels import Features
from likewise.search.approximate import Approximate
from likewise.search.index import Index
from likewise.teach.groups import Group, Node
from likewise.teach.taught import GalleryGraph, Partition, Taught, beyond, build_graph
from likewise.teach.taught_index import ChangedRows

# Measured by `python -m benchmarks.teaching_photos` on Caltech101: results hardly change around these values.
MOST_ROWS = 20_000  # of a larger gallery a sample of rows is used: the graph costs rows²
REACH = 50  # rows of a group that get at least 1, or as many as it has examples
MOST = 2.0  # the largest target; at 1 the first rows of a group had equal scores
AGAINST = 0.6  # weight of what spreads from rows that do not belong; half of it for the first mark of a query
WEIGHT = 1.5  # of a taught coordinate relative to a unit row
THRESHOLD = 0.2  # taught coordinates closer to zero are set to zero
OTHERS = 50  # rows that a mark left out is compared with, to say what its score means
MOST_ASKING = 20  # examples of a group that are asked for a mark left out
_BLOCK = 1 << 15  # rows whose coordinates are computed at a time


@dataclass(frozen=True)
class Examples:
    """The examples of g groups: weights of the graph's rows, (n, g), and directions of the other nodes.

    `by_label` says which groups have a label: then not all rows that do not belong were marked wrong.
    """

    belongs: np.ndarray
    other: np.ndarray
    by_label: np.ndarray
    Z: np.ndarray
    Z_belongs: np.ndarray
    Z_other: np.ndarray

    @property
    def rows(self) -> np.ndarray:
        """Rows of the graph that are examples themselves."""
        return np.flatnonzero((self.belongs == 1).any(axis=1) | (self.other == 1).any(axis=1))

    @property
    def sides(self) -> tuple[np.ndarray, np.ndarray]:
        """Whether each example belongs, and whether it does not, (m, g) both: `rows`, followed by those of Z."""
        rows = self.rows
        return np.vstack([self.belongs[rows] == 1, self.Z_belongs]), np.vstack([self.other[rows] == 1, self.Z_other])


@dataclass(frozen=True)
class Coordinates:
    """Coordinates of the groups: a kernel, its coefficients, and the values of the graph's rows."""

    features: Features
    coefficients: np.ndarray
    rows: np.ndarray

    def at(self, Z: np.ndarray) -> np.ndarray:
        """Values of unit rows."""
        return self.features.blockwise(Z, self.coefficients) if len(Z) else self.rows[:0]

    def plus(self, features: Features, coefficients: np.ndarray, rows: np.ndarray) -> Self:
        """With another kernel added, so that γ is one number per landmark."""
        one, two = self.features, features
        gammas = np.repeat([one.gamma, two.gamma], [len(one.landmarks), len(two.landmarks)]).astype(np.float32)
        joint = Features(np.vstack([one.landmarks, two.landmarks]), gammas)  # type: ignore[arg-type]
        return type(self)(joint, np.vstack([self.coefficients, coefficients]), self.rows + rows)


class Ranking(NamedTuple):
    """Mean scores for the examples of a group: of the graph's rows, and a function for rows of the index."""

    rows: np.ndarray
    at: Callable[[list[Node]], np.ndarray]


class GroupLearner:
    """Learns the groups of an index that was not taught; what depends only on the gallery is computed once."""

    def __init__(self, index: Index, rng: np.random.Generator) -> None:
        self.base: SimilarityModel = index.model
        self._index, self._rng = index, rng
        self._V = index.plain_vectors
        self.cosine = bool(np.allclose(np.linalg.norm(self._V[:1000], axis=1), 1, atol=1e-3))
        centre = np.zeros(self._V.shape[1]) if self.cosine else self._V.mean(axis=0)
        self._centre = centre.astype(np.float32)
        self._rows = _graph_rows(index, rng)
        self._place = np.full(len(index), -1)
        self._place[self._rows] = np.arange(len(self._rows))
        self._lock = threading.Lock()
        self._prepared: tuple[GalleryGraph, float] | None = None
        self._partition: Partition | None = None  # of a gallery that is larger than the graph
        self._near: dict[Node, tuple[np.ndarray, np.ndarray]] = {}

    def prepare(self) -> tuple[GalleryGraph, float]:
        """The graph and the kernel of the gallery, and the scale of the base's scores."""
        with self._lock:
            if self._prepared is None:
                gallery = build_graph(self._directions(self._V[self._rows]), self._rng)
                scale = 1.0 if self.cosine else _spread_of_scores(self.base, self._index, self._rng)
                if len(self._rows) < len(self._index):
                    self._partition = self._new_partition(gallery)
                self._prepared = gallery, scale
            return self._prepared

    def _new_partition(self, gallery: GalleryGraph) -> Partition:
        engine = self._index.engine if self._index.approximate and self.cosine else None
        if isinstance(engine, Approximate) and engine.kind != "hnsw":
            return Partition.of_lists(engine.index)
        return Partition.of(gallery.z, lambda rows: self._directions(self._V[rows]), len(self._index))

    @property
    def rows(self) -> np.ndarray:
        """The rows of the index that are part of the graph."""
        return self._rows

    def learn(self, groups: list[Group]) -> tuple[Taught, np.ndarray | ChangedRows]:
        """The taught model, and its kernel part for all rows, or for those it reaches in a large gallery."""
        examples = self._examples(groups)
        coordinates = self._coordinates(examples)
        model = Taught.of(
            self.base,
            coordinates.features,
            coordinates.coefficients,
            self._centre,
            weight=WEIGHT,
            threshold=THRESHOLD,
            cosine=self.cosine,
            scale=self.prepare()[1],
        )
        return model, coordinates.rows if self._partition is None else self._reached(
            self._partition, coordinates, examples
        )

    def _reached(self, cells: Partition, coordinates: Coordinates, examples: Examples) -> ChangedRows:
        """Rows beyond the threshold, in the cells of examples and rows of the graph that come at least halfway."""
        both = (coordinates.rows, coordinates.at(examples.Z))
        on_graph, off_graph = (np.abs(F).max(axis=1, initial=0) > THRESHOLD / 2 for F in both)  # half of what counts
        rows = cells.around(self.prepare()[0].z[on_graph], examples.Z[off_graph])
        parts = (rows[start : start + _BLOCK] for start in range(0, len(rows), _BLOCK))
        values = [np.empty((0, coordinates.rows.shape[1]), np.float32)]
        values += [coordinates.at(self._directions(self._V[part])) for part in parts]
        F = np.concatenate(values)
        is_reached = np.abs(F).max(axis=1, initial=0) > THRESHOLD
        return ChangedRows(rows[is_reached], F[is_reached])

    def _coordinates(self, examples: Examples, alone: bool = False) -> Coordinates:
        """One coordinate per group; `alone` if they say nothing about each other."""
        gallery, _ = self.prepare()
        T = targets(gallery, examples.belongs, examples.other)
        ridge = gallery.ridge(T)
        A = ridge.coefficients(T)
        wide = Coordinates(ridge.features, A, ridge.values(A))
        rows = examples.rows
        F = np.vstack([wide.rows[rows], wide.at(examples.Z)])
        goal = Bounds(np.vstack([gallery.z[rows], examples.Z]), *bounds(*examples.sides, examples.by_label))
        narrow, B = corrections(goal, F, gallery.narrow, alone)
        return wide.plus(narrow, B, narrow.blockwise(gallery.z, B))

    # -- marks left out -----------------------------------------------------------------------------------------------

    def left_out(self, groups: list[Group], explicit: Collection[Node] | None = None) -> LeftOut:
        """How many marks a lesson agrees with that was learned without them, each left out in turn.

        `explicit` are the rows that were marked or labelled; see `marks_to_leave_out`.
        """
        return agreeing(self.trials(groups, explicit))

    def trials(self, groups: list[Group], explicit: Collection[Node] | None = None) -> list[Trial]:
        """What each mark scores by a lesson without it."""
        marks = marks_to_leave_out(groups, explicit)
        return self._trials(groups, marks) if marks else []

    def _trials(self, groups: list[Group], marks: list[GroupMark]) -> list[Trial]:
        """A coordinate per mark, learned without it, all of them at once; then the score of the mark by it."""
        rest = [without(groups[mark.group], mark.node) for mark in marks]
        trials = []
        for mark, group, ranking in zip(marks, rest, self.rankings(rest), strict=True):
            score, others = ranking.at([mark.node])[0], ranking.rows
            others[self.on_graph(group.belongs | {mark.node})] = -np.inf
            is_first = is_found(int((others > score).sum()), len(others))
            spread = others[np.isfinite(others)][:: max(1, len(others) // OTHERS)]
            trials.append(Trial(mark, float(score), is_first, spread.tolist()))
        return trials

    def rankings(self, groups: list[Group]) -> Iterator[Ranking]:
        """How each group ranks all rows after a lesson from this group alone; all lessons are learned at once."""
        coordinates = self._coordinates(self._examples(groups), alone=True)
        V, f = self._index.vectors[self._rows], self._scaled(coordinates.rows)
        for column, group in enumerate(groups):
            asking = [node for node in sorted(group.belongs, key=repr) if node.kind != "label"][:MOST_ASKING]
            f_asking = self._scaled(coordinates.at(self.directions_of(asking))[:, column])
            score = partial(group_scores, self._query_side(asking), f_asking, cosine=self.cosine)
            yield Ranking(score(V, f[:, column]), partial(self._scores_at, coordinates, column, score))

    def _scores_at(
        self, coordinates: Coordinates, column: int, score: Callable[..., np.ndarray], nodes: list[Node]
    ) -> Any:
        return score(self._served(nodes), self._scaled(coordinates.at(self.directions_of(nodes))[:, column]))

    def _scaled(self, f: np.ndarray) -> np.ndarray:
        """Coordinates as a taught model has them."""
        return beyond(f, WEIGHT, THRESHOLD) * np.float32(np.sqrt(self.prepare()[1]))

    def _served(self, nodes: list[Node]) -> np.ndarray:
        """Vectors of rows as the index is searched by, before anything was taught."""
        return np.asarray(self._index.vectors[[_row(node) for node in nodes]])

    def _query_side(self, nodes: list[Node]) -> np.ndarray:
        """Query vectors of rows and queries, before anything was taught."""
        if self.base.symmetric and all(node.kind == "row" for node in nodes):
            return self._served(nodes)
        raw = [self._index.raw[_row(node)] if node.kind == "row" else node.value for node in nodes]
        return self._index.space().embed(np.array(raw, np.float32))

    # -- examples -----------------------------------------------------------------------------------------------------

    def _examples(self, groups: list[Group]) -> Examples:
        belongs, with_it = zip(*(self._weights(group.belongs) for group in groups), strict=True)
        other, against_it = zip(*(self._weights(group.other) for group in groups), strict=True)
        strangers = list(dict.fromkeys(chain(*with_it, *against_it)))
        return Examples(
            np.column_stack(belongs),
            np.column_stack(other),
            np.array([any(node.kind == "label" for node in group.belongs) for group in groups]),
            self.directions_of(strangers),
            _membership(strangers, with_it),
            _membership(strangers, against_it),
        )

    def _weights(self, nodes: Collection[Node]) -> tuple[np.ndarray, set[Node]]:
        """Weights of the graph's rows, 1 for a node among them, else shared by its neighbours; and the other nodes."""
        on_graph, strangers = self._split(nodes)
        weights = np.zeros(len(self._rows), np.float32)
        for near, shares in self._neighbours(strangers):
            weights[near] = np.maximum(weights[near], shares)
        weights[on_graph] = 1.0
        return weights, set(strangers)

    def _neighbours(self, nodes: list[Node]) -> list[tuple[np.ndarray, np.ndarray]]:
        """The neighbours on the graph of nodes that are not part of it, found once: many lessons ask for them."""
        new = [node for node in nodes if node not in self._near]
        if new:
            self._near.update(zip(new, self.prepare()[0].near(self.directions_of(new)), strict=True))
        return [self._near[node] for node in nodes]

    def on_graph(self, nodes: Collection[Node]) -> np.ndarray:
        """Which of the graph's rows are among these nodes."""
        mask = np.zeros(len(self._rows), bool)
        mask[self._split(nodes)[0]] = True
        return mask

    def off_graph(self, nodes: Collection[Node]) -> list[Node]:
        """Nodes that have a direction but are not rows of the graph, in an order independent of their hashes."""
        return self._split(nodes)[1]

    def _split(self, nodes: Collection[Node]) -> tuple[np.ndarray, list[Node]]:
        """Places of nodes that are rows of the graph, and the other nodes that have a direction."""
        rows = np.fromiter((value for kind, value in nodes if kind == "row"), np.int64)
        places = self._place[rows]
        strangers = [Node("row", row) for row in np.sort(rows[places < 0]).tolist()]
        queries = sorted(node for node in nodes if node.kind == "query") if len(rows) < len(nodes) else []
        return places[places >= 0], strangers + queries

    def directions_of(self, nodes: Collection[Node]) -> np.ndarray:
        """Unit rows of nodes that are rows or queries."""
        return self._directions(np.array([self._vector(node) for node in nodes]).reshape(-1, self._V.shape[1]))

    def _vector(self, node: Node) -> np.ndarray:
        if node.kind == "row":
            return np.asarray(self._V[_row(node)])
        return np.asarray(self.base.transform(np.array([node.value], dtype=np.float32)), np.float32)[0]

    def _directions(self, V: np.ndarray) -> np.ndarray:
        return np.asarray(normalize(V - self._centre)) if len(V) else V.astype(np.float32)


def _graph_rows(index: Index, rng: np.random.Generator) -> np.ndarray:
    """Rows of the graph: all, or of a large gallery a sample, up to half of it rows that have a label."""
    n = len(index)
    mixed = rng.permutation(n)
    if n <= MOST_ROWS or index.labels is None:
        return np.sort(mixed[:MOST_ROWS])
    has_label = np.fromiter((label is not None for label in index.labels), bool, n)
    labelled = mixed[has_label[mixed]][: MOST_ROWS // 2]
    is_taken = np.zeros(n, bool)
    is_taken[labelled] = True
    return np.sort(np.concatenate([labelled, mixed[~is_taken[mixed]][: MOST_ROWS - len(labelled)]]))


def _membership(nodes: list[Node], sets: Sequence[set[Node]]) -> np.ndarray:
    """Which node is in which set."""
    return np.array([[node in some for some in sets] for node in nodes], dtype=bool).reshape(-1, len(sets))


def _row(node: Node) -> int:
    return cast(int, node.value)


# ---------------------------------------------------------------------------------------------------------------------
# What the groups say about all rows


def targets(gallery: GalleryGraph, belongs: np.ndarray, other: np.ndarray) -> np.ndarray:
    """How far each group reaches each row, from 0 to MOST: 1 or more for its first rows, then falling off."""
    g = belongs.shape[1]
    # Roots: what spreads falls off over orders of magnitude, and a regression would fit the first few rows only.
    R = np.sqrt(gallery.spread(np.hstack([_shares(belongs), _shares(other)])))
    marks = ((belongs > 0) | (other > 0)).sum(axis=0) - 1
    R = R[:, :g] - (AGAINST * marks / (marks + 1)).astype(np.float32) * R[:, g:]
    T = np.clip(R / _level(R, belongs), 0, MOST)
    return np.where(other > 0, 0, np.where(belongs > 0, np.maximum(T, belongs), T))


def _shares(Y: np.ndarray) -> np.ndarray:
    """Columns that sum to one, so that a group with many examples does not outweigh one with few."""
    return Y / np.maximum(Y.sum(axis=0), 1e-12)


def _level(R: np.ndarray, belongs: np.ndarray) -> np.ndarray:
    """The value of the last row that each group reaches fully."""
    reach = np.minimum(np.maximum(REACH, (belongs > 0).sum(axis=0)), max(1, len(R) // 20))
    last = [np.partition(column, len(column) - k)[len(column) - k] for column, k in zip(R.T, reach, strict=True)]
    return np.maximum(np.array(last, R.dtype), 1e-6)


def group_scores(Q: np.ndarray, f_q: np.ndarray, V: np.ndarray, f: np.ndarray, cosine: bool) -> np.ndarray:
    """Mean score of rows [V, f] for queries [Q, f_q], of unit length each for a cosine."""
    a, b = (1 / np.sqrt(1 + g**2) if cosine else np.ones_like(g) for g in (f_q, f))
    return np.asarray((V @ (a @ Q) + (a @ f_q) * f) * b / len(Q))


def _spread_of_scores(base: SimilarityModel, index: Index, rng: np.random.Generator) -> float:
    """The standard deviation of the base's scores: the unit of the taught part unless they are cosines."""
    rows = np.sort(rng.permutation(len(index))[:300])
    S = base.transform_query(np.asarray(index.raw[rows], np.float32)) @ index.plain_vectors[rows].T
    return float(S.std()) or 1.0


# ---------------------------------------------------------------------------------------------------------------------
# Examples: a narrow kernel puts them where they belong

# Measured with the settings of `likewise.teach.learning`: results hardly change around these values.
MIN_RIGHT = 1.5  # least coordinate of an example
# Minus this is the most of a row marked wrong: below rows of other kinds, yet hardly longer for other queries.
MAX_WRONG = 0.45
MISSED = 0.05  # examples closer to what they should be are not corrected
CORRECTIONS = 3  # times
MOST_CORRECTED = 600  # examples, those that are furthest off first
DAMPING = 1e-2  # of the corrections, for examples that are nearly equal and contradict each other


class Bounds(NamedTuple):
    """Unit rows of examples, and bounds of the coordinate of each group there, (m, g) both."""

    Z: np.ndarray
    low: np.ndarray
    high: np.ndarray

    def missing(self, F: np.ndarray) -> np.ndarray:
        """What has to be added to F to be within the bounds."""
        return np.clip(F, self.low, self.high) - F


def bounds(belongs: np.ndarray, other: np.ndarray, by_label: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """At least MIN_RIGHT where an example belongs, at most -MAX_WRONG where it was marked wrong.

    In a group with a label, rows that do not belong need not fall below 0: most of them merely have another label.
    """
    most = np.where(by_label, 0, -MAX_WRONG)
    low = np.where(belongs & ~other, MIN_RIGHT, -np.inf)
    return low.astype(np.float32), np.where(other, most, np.inf).astype(np.float32)


def corrections(goal: Bounds, F: np.ndarray, narrow: float, alone: bool = False) -> tuple[Features, np.ndarray]:
    """A narrow kernel at examples, and coefficients that bring their coordinates F into the bounds.

    Examples that the corrections of others would push out of their bounds join in. A group leaves the coordinates of
    other groups' examples as they are, unless each is to be solved `alone`.
    """
    missing, bounded = goal.missing(F), np.isfinite(goal.low) | np.isfinite(goal.high)
    features, B = Features(goal.Z[:1], narrow), np.zeros_like(F[:1])  # adds nothing
    chosen, now = np.empty(0, np.int64), F
    for _ in range(CORRECTIONS):
        new = _furthest(goal, now, chosen)
        if not len(new):
            break
        chosen = np.concatenate([chosen, new])
        features = Features(goal.Z[chosen], narrow)
        B = _solved(features, missing[chosen], bounded[chosen] if alone else None)
        now = F + features(goal.Z) @ B
    return features, B


def _furthest(goal: Bounds, F: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Examples out of their bounds, the furthest first, without those already known."""
    off = np.abs(goal.missing(F)).max(axis=1, initial=0)
    off[known] = 0
    rows = np.argsort(-off, kind="stable")[: MOST_CORRECTED - len(known)]
    return rows[off[rows] > MISSED]


def _solved(features: Features, missing: np.ndarray, bounded: np.ndarray | None) -> np.ndarray:
    """Coefficients that add what is missing at the landmarks; with `bounded`, by these rows of each column only."""
    K = features(features.landmarks).astype(float)
    K[np.diag_indices_from(K)] += DAMPING
    if bounded is None:
        return np.linalg.solve(K, missing).astype(np.float32)
    B = np.zeros(missing.shape, np.float32)
    for column, rows in enumerate(bounded.T):
        B[rows, column] = np.linalg.solve(K[np.ix_(rows, rows)], missing[rows, column])
    return B


# ---------------------------------------------------------------------------------------------------------------------
# Marks left out: does a lesson agree with a mark that it did not learn from?

FIRST = 24  # results of a page
MOST_LEFT_OUT = 60  # marks; of more a sample is left out
FEWEST_MARKS = 8  # of either kind: fewer say nothing


class LeftOut(NamedTuple):
    """How many of the marks left out in turn the ranking learned from the others agrees with."""

    agrees: int
    of: int


class GroupMark(NamedTuple):
    """A row that belongs to a group, or does not."""

    group: int
    node: Node
    right: bool


class Trial(NamedTuple):
    """A mark, its score by a lesson without it, and whether that puts it among the first results.

    `others` are scores of some other rows, marked or not, spread over the gallery.
    """

    mark: GroupMark
    score: float
    found: bool
    others: Sequence[float] = ()


def marks_to_leave_out(groups: Sequence[Group], explicit: Collection[Node] | None = None) -> list[GroupMark]:
    """Marks that can be left out of their group: what is left still has an example; at most MOST_LEFT_OUT, a sample.

    `explicit` are the rows that were marked or labelled; None takes all rows of the groups, but of a group with a label
    only those that belong to it.
    """
    known = None if explicit is None else {node for node in explicit if node.kind == "row"}
    sides = [_sides(group, known) for group in groups]
    starts = np.cumsum([0, *(len(right) + len(wrong) for right, wrong in sides)])
    chosen = np.sort(np.random.default_rng(0).permutation(starts[-1])[:MOST_LEFT_OUT])
    places = np.searchsorted(starts, chosen, side="right") - 1
    listed = {place: _listed(place, *sides[place]) for place in set(places.tolist())}  # with many labels, few groups
    return [listed[place][number - starts[place]] for place, number in zip(places.tolist(), chosen, strict=True)]


def _sides(group: Group, explicit: Set[Node] | None) -> tuple[Set[Node], Set[Node]]:
    """Rows that can be left out: those that belong, and those that do not."""
    examples = {node for node in group.belongs if node.kind != "label"}
    right = {node for node in examples if node.kind == "row"} if len(examples) > 1 else set()
    if explicit is not None:
        return right & explicit, group.other & explicit
    is_labelled = len(examples) < len(group.belongs)
    return right, set() if is_labelled else {node for node in group.other if node.kind == "row"}


def _listed(place: int, right: Set[Node], wrong: Set[Node]) -> list[GroupMark]:
    marked = [*((node, True) for node in right), *((node, False) for node in wrong)]
    return [GroupMark(place, node, is_right) for node, is_right in sorted(marked, key=repr)]


def without(group: Group, *nodes: Node) -> Group:
    """The group without these nodes."""
    return Group(group.belongs.difference(nodes), group.other.difference(nodes))


def agreeing(trials: Sequence[Trial]) -> LeftOut:
    """A right mark agrees if it scores above the median of its group's wrong ones, each left out too, and vice versa.

    In a group with marks of one kind, right ones agree if they are among the first results, wrong ones if not.
    """
    return LeftOut(sum(_agrees(trial, trials) for trial in trials), len(trials))


def _agrees(trial: Trial, trials: Sequence[Trial]) -> bool:
    mark = trial.mark
    others = [t.score for t in trials if t.mark.group == mark.group and t.mark.right != mark.right]
    if others:
        return trial.score > median(others) if mark.right else trial.score < median(others)
    return trial.found == mark.right


def is_found(above: int, n: int) -> bool:
    """Whether a row with so many of n rows above it is on the first page, or in the first twentieth of many.

    A concept may have more rows than a page; a row put anywhere would still be found one time in twenty only.
    """
    return above < max(FIRST, n // 20)


def marks_calibration(trials: Sequence[Trial]) -> dict[str, Any] | None:
    """What scores mean after a lesson, by marks that were left out of it in turn; None if they are too few."""
    scores = {right: [trial.score for trial in trials if trial.mark.right == right] for right in (True, False)}
    if min(map(len, scores.values())) < FEWEST_MARKS:
        return None
    others = [score for trial in trials for score in trial.others]
    return Calibration({0: Evidence.of_marks(scores[True], scores[False], others)}).as_dict()
