"""Have I marked enough? A learning curve from sub-samples of the marks, and what it promises for ten more.

Some marks are left out, the concept is learned from a half, three quarters and all of the others, and the share of
pairs of a right and a wrong mark among those left out that are in the right order is measured; this is done for several
draws. The share is taken to rise with the logarithm of the number of marks: its slope says what more marks will bring.
"""

from typing import NamedTuple

import numpy as np
from scipy import stats

from likewise.teach.groups import Group, Node
from likewise.teach.learning import GroupLearner
from likewise.teach.lesson_card import without

FEWEST = 4  # right marks, and wrong ones: with fewer, one or two of each would be left out
DRAWS = 16
LEFT_OUT = 0.25  # of the right marks, and of the wrong ones
SIZES = (0.5, 0.75, 1.0)  # of the marks that are not left out
LEVEL = 0.9  # of the interval, as meant; on Caltech101 it held 84 %
# Chosen on digits and Debian's stamps, where 92 % of 92 intervals held what came: without BLUR it was 54 %, for where
# all pairs are in order no draw differs from another; slopes as they are were off by 1.45 points, half of them by 1.27.
SHRUNK = 0.5
BLUR = 0.5  # marks: nothing is known better than by half of one in n
MOST = 200  # marks that take part; of more a sample


class Outlook(NamedTuple):
    """What `more` marks will bring: percentage points of pairs in the right order, with an interval.

    `now` is the percentage of pairs of a right and a wrong mark, both left out, that are in the right order.
    """

    marks: int
    now: float
    more: int
    gain: float
    low: float
    high: float


class Draw(NamedTuple):
    """Marks left out, right and wrong, and the others in the order in which they are learned from."""

    right: list[Node]
    wrong: list[Node]
    learned: list[Node]


def outlook(learner: GroupLearner, group: Group, explicit: set[Node], more: int = 10) -> Outlook | None:
    """What more marks will bring to a group; None if there are too few to tell.

    `explicit` are the rows that were marked or labelled.
    """
    rng = np.random.default_rng(0)
    right, wrong = (_sample(nodes & explicit, rng) for nodes in (group.belongs, group.other))
    if min(len(right), len(wrong)) < FEWEST:
        return None
    draws = [_draw(right, wrong, rng) for _ in range(DRAWS)]
    sizes = np.array([round(share * len(draws[0].learned)) for share in SIZES])
    accuracy = _accuracies(learner, group, draws, sizes)
    n, n_left = len(right) + len(wrong), len(draws[0].right) + len(draws[0].wrong)
    return _extrapolated(accuracy, sizes, n, n_left / sizes[-1], more)


def _sample(nodes: set[Node], rng: np.random.Generator) -> list[Node]:
    rows = sorted(node for node in nodes if node.kind == "row")
    return [rows[place] for place in rng.permutation(len(rows))[: MOST // 2]]


def _draw(right: list[Node], wrong: list[Node], rng: np.random.Generator) -> Draw:
    """A share of the right marks and of the wrong ones is left out; a right one is learned from first."""
    right, wrong = ([nodes[place] for place in rng.permutation(len(nodes))] for nodes in (right, wrong))
    r, w = (max(1, round(LEFT_OUT * len(nodes))) for nodes in (right, wrong))
    others = right[r + 1 :] + wrong[w:]
    return Draw(right[:r], wrong[:w], [right[r], *(others[place] for place in rng.permutation(len(others)))])


def _accuracies(learner: GroupLearner, group: Group, draws: list[Draw], sizes: np.ndarray) -> np.ndarray:
    """The share of pairs left out that are in the right order, for each draw and number of marks."""
    lessons = [
        without(group, *draw.right, *draw.wrong, *draw.learned[size:]) for draw in draws for size in sizes.tolist()
    ]
    found = []
    for i, ranking in enumerate(learner.rankings(lessons)):
        draw = draws[i // len(sizes)]
        scores = ranking.at(draw.right + draw.wrong)
        found.append(in_order(scores[: len(draw.right)], scores[len(draw.right) :]))
    return np.array(found).reshape(len(draws), len(sizes))


def in_order(right: np.ndarray, wrong: np.ndarray) -> float:
    """The share of pairs in which the right one scores higher; a tie is half a pair."""
    difference = right[:, None] - wrong
    return float(((difference > 0) + 0.5 * (difference == 0)).mean())


def _extrapolated(accuracy: np.ndarray, sizes: np.ndarray, n: int, overlap: float, more: int) -> Outlook:
    """A line over the logarithm of the number of marks, for each draw; the slopes say how sure it is.

    The draws share marks, so that their variance is too small by far: it is corrected by the share that is left out
    (Nadeau & Bengio, 2003). Beyond 100 % there is nothing to gain, as far as so few marks can tell.
    """
    x = np.log(sizes) - np.log(sizes).mean()
    slopes = accuracy @ x / np.square(x).sum()
    error = slopes.std(ddof=1) * np.sqrt(1 / len(slopes) + overlap)
    slope, further, blur = SHRUNK * slopes.mean(), np.log((n + more) / n), BLUR / n
    now = float(np.clip(accuracy[:, -1].mean() + slope * np.log(n / sizes[-1]), 0, 1))
    gain, room = further * slope, 1 - now
    reach = np.hypot(stats.t.ppf((1 + LEVEL) / 2, len(slopes) - 1) * error * further, blur)
    likely = (min(gain, room), min(gain - reach, room), min(gain + reach, max(room, blur)))
    return Outlook(n, 100 * now, more, *(100 * float(points) for points in likely))
