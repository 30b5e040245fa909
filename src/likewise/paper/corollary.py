"""Corollary 1, measured: how fast the alternating method converges to the optimum of the fixed target."""

from collections.abc import Iterator
from functools import partial

import numpy as np

from likewise.learn.slr import SLR
from likewise.paper.cells import Cell, Done
from likewise.paper.figure2 import watched
from likewise.paper.methods import variant
from likewise.paper.run import PaperRun, Task
from likewise.utils.reporting.charts import Line, chart
from likewise.utils.reporting.report import Block, Heading, Picture, Text

EXPERIMENT = "corollary"
FLOOR = 1e-16  # for the logarithmic axis


def cases(run: PaperRun) -> dict[str, tuple[int, bool]]:
    """Rank of the iterates, and whether n < d as in the corollary, with half as many rows as columns."""
    k = len(np.unique(run.data.y))
    found = {f"r = {k}, the rank of M*": (k, False), f"r = {k}, n < d": (k, True)}
    if k > 3:
        found[f"r = {k // 2}, to the best of that rank"] = (k // 2, False)
    return found


def tasks(run: PaperRun) -> Iterator[Task]:
    for name, (rank, few) in cases(run).items():
        yield Task((EXPERIMENT, name, 0), partial(_work, run, name, rank, few))


def _work(run: PaperRun, name: str, rank: int, few: bool) -> Done:
    split = run.protocol.split(0)
    X, y = split.X.astype(np.float64), split.y
    if few:
        rows = np.random.default_rng(run.settings.seed).permutation(len(y))[: min(len(y), X.shape[1] // 2)]
        X, y = X[rows], y[rows]
    found = errors(X, y, rank, run.settings.n_iter, run.settings.seed)
    values = [{"value": error, "bound": float(np.exp(-t / 2))} for t, error in enumerate(found, start=1)]
    return Done([Cell(EXPERIMENT, name, 0, float(t), value) for t, value in enumerate(values, start=1)])


def errors(X: np.ndarray, y: np.ndarray, rank: int, n_iter: int, seed: int = 0) -> list[float]:
    """‖M* - L_T R_Tᵀ‖_F / ‖M*‖_F for T = 1 … n_iter, M* being the best matrix of that rank for the fixed target."""
    best = SLR(rank, adaptive=False, init="fixed").fit(X, y).query_map()
    model = watched(variant("SLR-Fixed", rank=rank, n_iter=n_iter, random_state=seed)).fit(X, y)
    size = np.linalg.norm(best)
    return [float(np.linalg.norm(best - step.query_map()) / size) for step in model.after_each_iteration()]


def section(run: PaperRun) -> list[Block]:
    found = {name: run.journal.cells(EXPERIMENT, name) for name in cases(run)}
    curves = {name: cells for name, cells in found.items() if cells}
    if not curves:
        return []
    axis = [float(cell.at) for cell in next(iter(curves.values()))]
    lines = [Line(name, axis, [max(c.values["value"], FLOOR) for c in cells]) for name, cells in curves.items()]
    lines.append(Line("e^(−T/2)", axis, np.exp(-np.array(axis) / 2).tolist(), style="--", markers=False))
    path = chart(run.folder / "corollary1.png", lines, "iteration T", "‖M* − L R′‖ / ‖M*‖", log_y=True)
    caption = "Distance of the alternating method from the optimum of the fixed target, and the rate of the corollary."
    return [Heading("Corollary 1: convergence"), Picture(path, caption, 720), Text(_words(curves))]


def _words(curves: dict[str, list[Cell]]) -> str:
    said = []
    for name, cells in curves.items():
        over = [int(float(cell.at)) for cell in cells if cell.values["value"] > cell.values["bound"]]
        fate = f"above the bound at T = {', '.join(map(str, over))}" if over else "below the bound at every T"
        said.append(f"{name}: {cells[0].values['value']:.2g} after the first iteration, {fate}")
    return (
        f"{'; '.join(said)}. With a fixed target, a step of the alternating method is a step of subspace iteration for "
        "the singular vectors of UᵀYU, whose rank is the number of classes. Iterates of that rank are exact after one "
        "iteration, for any restricted isometry of X and for n < d as well. At a smaller rank, the rate depends on "
        "the gap between singular values and is not e^(-1/2)."
    )
