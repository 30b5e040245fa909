"""What a lesson is worth, said truthfully: marks that it agrees with though it was learned without them, results that
moved, and items marked wrong that are still on top.
"""

from collections.abc import Collection, Sequence, Set
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from likewise.evaluate.calibration import Calibration, Evidence
from likewise.search.index import BaseIndex
from likewise.teach.groups import Group, Node

FIRST = 24  # results of a page
MOST_LEFT_OUT = 60  # marks; of more a sample is left out
FEWEST_MARKS = 8  # of either kind: fewer say nothing


class LeftOut(NamedTuple):
    """Of so many marks that were left out in turn, how many the ranking learned from the others agrees with."""

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
    found = [*((node, True) for node in right), *((node, False) for node in wrong)]
    return [GroupMark(place, node, is_right) for node, is_right in sorted(found, key=repr)]


def without(group: Group, *nodes: Node) -> Group:
    """The group as if nothing had been said about these nodes."""
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


def moved(before: BaseIndex, after: BaseIndex, rows: Sequence[int], k: int = FIRST) -> int:
    """How many of the first k results of these rows were not among them before."""
    if not len(rows):
        return 0
    old, new = (index.search(rows=list(rows), k=k).rows for index in (before, after))
    return sum(len(set(new[i]) - set(old[i])) for i in range(len(rows)))


def still_on_top(index: BaseIndex, wrong: Sequence[tuple[int, int]], k: int = 10) -> list[tuple[int, int]]:
    """Pairs of a query and an item marked wrong for it, both rows, that is among the first k results all the same."""
    queries = sorted({query for query, _ in wrong})
    if not queries:
        return []
    first = dict(zip(queries, index.search(rows=queries, k=k).rows.tolist(), strict=True))
    return [(query, item) for query, item in wrong if item in first[query]]
