"""Figure 2: mAP after each iteration of SLR and SLR-Fixed, and of SLR-Whole, which has no iterations."""

from collections.abc import Iterator
from functools import partial

import numpy as np

from likewise.learn.maths.engine import Engine
from likewise.learn.maths.solvers import Result, Solution, balanced
from likewise.learn.maths.steps import Factors
from likewise.learn.maths.whitening import WhiteningMap
from likewise.learn.slr import SLR
from likewise.paper.cells import Cell, Done
from likewise.paper.run import PaperRun, Task
from likewise.paper.tables import measured
from likewise.utils.reporting.charts import Line, chart
from likewise.utils.reporting.report import Block, Heading, Picture, Text
from likewise.utils.wording import points, side

EXPERIMENT = "figure2"
METHODS = ("SLR", "SLR-Fixed", "SLR-Whole")
ENOUGH = 0.5  # points of mAP that count as "almost the same": below the deviation over splits in the paper


class Watched(SLR):
    """SLR that stores the factors after each iteration, so that one fit gives the whole curve."""

    def after_each_iteration(self) -> Iterator["Watched"]:
        """This model as it was after each iteration, one after the other; it ends as it was after `fit`."""
        for result in self._kept.results:
            W, condition = self._kept.whitening.W, self._kept.whitening.condition
            A, B = result.factors if self.rank is None else balanced(*result.factors)
            solution = Solution(W @ A, W @ B, B.shape[1], condition, result)
            yield self._keep(solution, self.components_.dtype, self.n_features_in_)

    def _saved(self, engine: Engine, rng: np.random.Generator) -> "_Kept":
        self._kept = _Kept()
        return self._kept


class _Kept:
    """`SavedIterations` in memory: the whitening, and the result after each iteration; a closed form has none."""

    def __init__(self) -> None:
        self.results: list[Result] = []

    def begin(self, whitening: WhiteningMap) -> None:
        self.whitening = whitening

    def resume(self, start: Factors) -> Result:
        return Result(start)

    def save(self, result: Result) -> None:
        self.results.append(result)


def watched(model: SLR) -> Watched:
    return Watched(**model.get_params())


def tasks(run: PaperRun) -> Iterator[Task]:
    for split in range(run.curve_splits):
        for name in METHODS:
            yield Task((EXPERIMENT, name, split), partial(_work, run, name, split))


def _work(run: PaperRun, name: str, number: int) -> Done:
    split = run.protocol.split(number)
    model = watched(run.method(name, number).model).fit(split.X, split.y)
    if not model.n_iter_:  # the closed form
        return Done([Cell(EXPERIMENT, name, number, 0.0, measured(model, split))])
    steps = enumerate(model.after_each_iteration(), start=1)
    return Done([Cell(EXPERIMENT, name, number, float(t), measured(step, split)) for t, step in steps])


def section(run: PaperRun) -> list[Block]:
    """The chart, and answers to the two questions of the paper."""
    curves = {name: run.journal.curve(EXPERIMENT, name) for name in METHODS}
    slr, fixed, whole = (curves[name][1] for name in METHODS)
    if not (len(slr) and len(fixed) and len(whole)):
        return []
    lines = [Line(name, *curves[name]) for name in METHODS[:2]]
    lines.append(Line("SLR-Whole", [1, len(slr)], [whole[0]] * 2, style="--", markers=False))
    path = chart(run.folder / "figure2.png", lines, "iteration T", "mAP %")
    caption = f"mAP after each iteration. {shown_splits(run, EXPERIMENT)}"
    answers = " ".join([_two_iterations(slr), _fixed_and_whole(fixed, whole), _adaptive(slr, fixed)])
    return [Heading("Figure 2: adaptive and fixed targets"), Picture(path, caption, 720), Text(answers)]


def shown_splits(run: PaperRun, experiment: str) -> str:
    """A sentence for the caption of a curve."""
    n = len({cell.split for cell in run.journal.cells(experiment)})
    return f"Mean of {n} splits; bands are one standard deviation." if n > 1 else "The first split."


def _two_iterations(slr: np.ndarray) -> str:
    second, best = slr[min(2, len(slr)) - 1], int(np.argmax(slr)) + 1
    said = (
        f"SLR has {second:.2f} % after two iterations, {slr.max():.2f} % at its best, after {best}, and "
        f"{slr[-1]:.2f} % after all {len(slr)}: two iterations "
    )
    gap = float(slr.max() - second)
    if gap <= ENOUGH:
        said += f"suffice, as the paper says, to within {points(gap)} points of the best."
    else:
        said += f"do not suffice here, they miss {points(gap)} points of the best."
    if best < len(slr) and slr.max() - slr[-1] > 0.1:
        said += f" Going on from the best loses {points(slr.max() - slr[-1])} points."
    return said


def _fixed_and_whole(fixed: np.ndarray, whole: np.ndarray) -> str:
    gap = abs(float(fixed[-1] - whole[0]))
    said = "almost the same, as the paper finds" if gap <= ENOUGH else "not the same, as the paper finds them"
    return (
        f"SLR-Fixed ends at {fixed[-1]:.2f} % and SLR-Whole has {whole[0]:.2f} %: {said} ({points(gap)} points apart)."
    )


def _adaptive(slr: np.ndarray, fixed: np.ndarray) -> str:
    end, best = float(slr[-1] - fixed[-1]), float(slr.max() - fixed.max())
    return (
        f"The adaptive target is {points(abs(end))} points {side(end)} the fixed one after all iterations, and "
        f"{points(abs(best))} {side(best)} it with each at its best; in the paper it is above."
    )
