"""Theorem 1, measured: the distance of a compressed regression from the whole one, and the bound; and Corollary 1.

With X = U Σ Vᵀ and the fixed target Y = Z Zᵀ of the labels, M = V Σ⁻¹ K Σ⁻¹ Vᵀ with K = F Fᵀ, F = UᵀZ. Split
Z = U F + P C with P orthonormal and orthogonal to U. For Gaussian S₁, S₂ (n × m) the compressed solution is

    K̂ - K = F (E₂C)ᵀ + (E₁C) Fᵀ + (E₁C)(E₂C)ᵀ,   E = (SᵀU)⁺ SᵀP.

SᵀU and SᵀP are independent Gaussian matrices for any U and P, so E can be drawn without S: by the Bartlett
decomposition, E = T⁻ᵀ N with N Gaussian, r x k, and T lower triangular with chi-distributed diagonal of m, m - 1, ...
degrees of freedom. A draw costs O(r²k) for any n and m, so 200 draws are feasible at the m that the theorem requires,
which is far above n.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Self

import numpy as np
import scipy.linalg

from likewise.learn.maths.scatter import whiten
from likewise.learn.slr import SLR
from likewise.paper.cells import Cell, Done
from likewise.paper.figures import iterates
from likewise.paper.methods import variant
from likewise.paper.run import PaperRun, Task
from likewise.utils.reporting.charts import Line, chart
from likewise.utils.reporting.report import Block, Heading, Picture, TableBlock, Text

EXPERIMENT = "theorem"
DELTA = 0.05  # probability that the bound fails
EPSILON = 0.5  # the largest that the theorem allows
CONSTANT = 0.25  # c of the theorem, "at least 1/4"


@dataclass(frozen=True)
class LabelRegression:
    """The quantities of the theorem for X and its labels, in the coordinates of the singular vectors of X."""

    V: np.ndarray  # (d, r), right singular vectors of X
    G: np.ndarray  # (r, k), Σ⁻¹F, so that M = V G Gᵀ Vᵀ
    C: np.ndarray  # (k', k), coordinates of the labels outside the span of X
    scale: np.ndarray  # (r,), Σ⁻¹
    residual: float  # ‖Y - XMXᵀ‖₂
    fitted: float  # ‖XMXᵀ‖₂

    @classmethod
    def of(cls, X: np.ndarray, y: np.ndarray) -> Self:
        """The regression of rows X on the fixed target of their labels y."""
        W = whiten(np.asarray(X, dtype=np.float64)).W
        U = np.asarray(X, dtype=np.float64) @ W
        Z = (y[:, None] == np.unique(y)).astype(np.float64)
        F = U.T @ Z
        C = np.linalg.qr(Z - U @ F)[1]
        outside = np.block([[np.zeros((len(F), len(F))), F @ C.T], [C @ F.T, C @ C.T]])
        # W = V Σ⁻¹ up to a rotation: its own SVD gives Σ⁻¹ and the rotation
        V, scale, turn = np.linalg.svd(W, full_matrices=False)
        G = scale[:, None] * (turn @ F)
        return cls(V, G, C, scale, float(np.linalg.norm(outside, 2)), float(np.linalg.norm(F, 2) ** 2))

    @property
    def rank(self) -> int:
        """r_D of the theorem."""
        return len(self.scale)

    @property
    def gamma(self) -> float:
        """γ = ‖Y - XMXᵀ‖ / ‖XMXᵀ‖; the second form requires γ < 1."""
        return self.residual / self.fitted

    @property
    def norm(self) -> float:
        """‖M‖₂."""
        return float(np.linalg.norm(self.G, 2) ** 2)

    def bounds(self, eps: float) -> tuple[float, float]:
        """The right-hand sides of the two forms of the theorem; `scale` ranges from 1/σ_max to 1/σ_min."""
        first = self.residual * self.scale.max() ** 2 * factor(eps)
        second = self.gamma * (self.scale.max() / self.scale.min()) ** 2 * self.norm * factor(eps)
        return first, second


def factor(eps: float) -> float:
    """The factor of the bound that depends on ε: ε²(1+ε)/(1-ε) + 2ε(1+ε)^1.5/√(1-ε) + 2√(2ε)(1+ε)^1.5."""
    first = eps**2 * (1 + eps) / (1 - eps)
    return first + 2 * (1 + eps) ** 1.5 * (eps / np.sqrt(1 - eps) + np.sqrt(2 * eps))


def asked_size(rank: int, eps: float = EPSILON) -> int:
    """The m that the theorem requires: (r_D + 1) log(48 r_D / δ) / (c ε²)."""
    return int(np.ceil((rank + 1) * np.log(48 * rank / DELTA) / (CONSTANT * eps**2)))


def epsilon(m: float, rank: int) -> float:
    """The ε that corresponds to m."""
    return float(np.sqrt((rank + 1) * np.log(48 * rank / DELTA) / (CONSTANT * m)))


def deviations(problem: LabelRegression, m: int, draws: int, rng: np.random.Generator) -> np.ndarray:
    """‖M - M̂‖₂ for random draws of the two Gaussian matrices."""
    return np.array([deviation(problem, _error(problem, m, rng), _error(problem, m, rng)) for _ in range(draws)])


def deviation(problem: LabelRegression, E1: np.ndarray, E2: np.ndarray) -> float:
    """‖Σ⁻¹(K̂ - K)Σ⁻¹‖₂, from the two thin factors of this matrix of rank 2k."""
    left, right = (problem.scale[:, None] * (E @ problem.C) for E in (E1, E2))
    P = scipy.linalg.qr(np.hstack([problem.G, left]), mode="r", check_finite=False)[0]
    Q = scipy.linalg.qr(np.hstack([right, problem.G + right]), mode="r", check_finite=False)[0]
    width = 2 * left.shape[1]
    return float(np.linalg.norm(P[:width] @ Q[:width].T, 2))


def _error(problem: LabelRegression, m: int, rng: np.random.Generator) -> np.ndarray:
    """E = T⁻ᵀ N, distributed as (SᵀU)⁺SᵀP for a Gaussian S with m ≥ r columns."""
    r = problem.rank
    T = np.tril(rng.standard_normal((r, r)), -1)
    T[np.diag_indices(r)] = np.sqrt(rng.chisquare(m - np.arange(r)))
    N = rng.standard_normal((r, len(problem.C)))
    return scipy.linalg.solve_triangular(T, N, trans="T", lower=True, check_finite=False)


def smallest_size(problem: LabelRegression, bound: float, draws: int, rng: np.random.Generator) -> tuple[int, float]:
    """The smallest m, by bisection, at which at least 95 % of the draws are within the bound; and their share."""
    low, high = problem.rank, asked_size(problem.rank)

    def share(m: int) -> float:
        return float(np.mean(deviations(problem, m, draws, rng) <= bound))

    held = share(low)
    if held >= 1 - DELTA:
        return low, held
    held = 1.0
    while high - low > max(1, low // 200):  # to half a per cent
        middle = (low + high) // 2
        share_within = share(middle)
        low, high, held = (low, middle, share_within) if share_within >= 1 - DELTA else (middle, high, held)
    return high, held


def slope(places: np.ndarray, values: np.ndarray, rank: int) -> float:
    """Slope of log ‖M - M̂‖ against log m for m well above the rank, near which the deviation falls faster."""
    far = places >= 10 * rank
    return float(np.polyfit(np.log(places[far]), np.log(values[far]), 1)[0])


def places(rank: int, points: int) -> list[int]:
    """m from just above the rank to four times the m of the theorem, which is among them."""
    required = asked_size(rank)
    below = np.geomspace(1.1 * rank + 2, required, 2 * points).astype(int).tolist()
    return [*below[:-1], required, 2 * required, 4 * required]


def tasks(run: PaperRun) -> Iterator[Task]:
    """Tasks on the regression of the first split."""

    @cache
    def problem() -> LabelRegression:
        split = run.protocol.split(0)
        return LabelRegression.of(split.X, split.y)

    for place in range(len(places(run.protocol.width, run.budget.curve_points))):
        yield Task((EXPERIMENT, f"m {place}", 0), partial(_at, run, problem, place))
    for form in (1, 2):
        yield Task((EXPERIMENT, f"smallest m, form {form}", 0), partial(_smallest_m, run, problem, form))
    yield Task((EXPERIMENT, "sampling", 0), partial(_sampling, run))


def _at(run: PaperRun, of: Callable[[], LabelRegression], place: int) -> Done:
    """The deviations at one m, and the bounds, which do not exist for ε ≥ 1."""
    problem = of()
    m = places(problem.rank, run.budget.curve_points)[place]
    distances = deviations(problem, m, run.budget.draws, np.random.default_rng([run.settings.seed, m]))
    eps, median = epsilon(m, problem.rank), float(np.median(distances))
    bounds = problem.bounds(eps) if eps < 1 else ()
    cells = [
        Cell(EXPERIMENT, f"form {form}", 0, float(m), {"value": median, "bound": bound})
        for form, bound in enumerate(bounds, start=1)
    ]
    cells = cells or [Cell(EXPERIMENT, "form 1", 0, float(m), {"value": median})]
    return Done(cells, {"rank": problem.rank, "gamma": problem.gamma, "norm": problem.norm})


def _smallest_m(run: PaperRun, of: Callable[[], LabelRegression], form: int) -> Done:
    bound, rng = of().bounds(EPSILON)[form - 1], np.random.default_rng([run.settings.seed, 2**31 + form])
    m, share = smallest_size(of(), bound, run.budget.draws, rng)
    return Done([Cell(EXPERIMENT, f"smallest m, form {form}", 0, float(m), {"value": share, "bound": bound})])


def _sampling(run: PaperRun) -> Done:
    """Lemma 2: ‖SSᵀ - I‖₂ of a sampling matrix, where SSᵀ is diagonal."""
    n, rng = run.protocol.n_train, np.random.default_rng([run.settings.seed, 3])
    cells = []
    for m in sorted({n // 4, n // 2, n, 4 * n}):
        counts = rng.multinomial(m, np.full(n, 1 / n), size=run.budget.draws) * (n / m)
        least = float(np.abs(counts - 1).max(axis=1).min())
        cells.append(Cell(EXPERIMENT, "lemma 2", 0, float(m), {"value": least, "bound": EPSILON}))
    return Done(cells)


def section(run: PaperRun) -> list[Block]:
    cells = sorted(run.journal.cells(EXPERIMENT, "form 1"), key=lambda cell: float(cell.at))
    facts = run.journal.extra(EXPERIMENT, "m 0")
    if len(cells) < 4 or not facts:
        return []
    rank, n = int(facts["rank"]), run.protocol.n_train
    bounds = {form: _bounds(run, form) for form in (1, 2)}
    rows = []
    for cell in cells:
        m, value = float(cell.at), cell.values["value"]
        ratios = [f"{value / at[m]:.2g}" if m in at else "no bound" for at in bounds.values()]
        rows.append([f"{m:,.0f}", f"{epsilon(m, rank):.2f}", f"{value / facts['norm']:.3g}", *ratios])
    columns = ["m", "ε", "‖M − M̂‖ / ‖M‖", *(f"measured / bound, form {form}" for form in (1, 2))]
    setting = (
        f"The theorem is about one regression: here that of the {n:,} training rows of the first split, of rank r_D = "
        f"{rank:,}, on the fixed label target. It says that with Gaussian matrices of m ≥ (r_D + 1) log(48 r_D / δ) / "
        f"(c ε²) columns, c = {CONSTANT:g} and ε ≤ {EPSILON:g}, the solution M̂ of the compressed problem is within a "
        f"bound of the solution M of the whole problem with probability 1 - δ. For δ = {DELTA:g} and ε = {EPSILON:g} "
        f"this is m = {asked_size(rank):,}, {asked_size(rank) / n:.0f} times the training rows: nothing is compressed. "
        "The bound of its first form contains the norm of the residual, that of its second γ‖M‖; it assumes γ < 1, "
        f"the relative residual, which is {facts['gamma']:.3g} here."
    )
    caption = (
        f"The deviation over {run.budget.draws} draws at each m, and the two forms of the bound where the theorem "
        "applies; dotted where the formula has a value but ε is larger than the theorem allows."
    )
    picture = Picture(_chart(run, cells, rank, bounds), caption, 720)
    blocks: list[Block] = [Heading("Theorem 1: compressing by Gaussian matrices"), Text(setting), picture]
    blocks += [TableBlock(columns, rows), Text(_smallest(run, cells, rank))]
    if lemma := run.journal.cells(EXPERIMENT, "lemma 2"):
        blocks += [Heading("Lemma 2: sampling rows"), Text(_lemma(run, lemma))]
    return blocks


def _bounds(run: PaperRun, form: int) -> dict[float, float]:
    """The bound at each m, where it exists."""
    cells = run.journal.cells(EXPERIMENT, f"form {form}")
    return dict(sorted((float(cell.at), cell.values["bound"]) for cell in cells if "bound" in cell.values))


def _chart(run: PaperRun, cells: list[Cell], rank: int, bounds: dict[int, dict[float, float]]) -> Path:
    sizes = [float(cell.at) for cell in cells]
    lines = [Line("measured, median of the draws", sizes, [cell.values["value"] for cell in cells])]
    for form, at in bounds.items():
        proper = {m: bound for m, bound in at.items() if epsilon(m, rank) <= EPSILON * (1 + 1e-6)}
        lines.append(Line(f"bound, form {form}", list(proper), list(proper.values())))
    eps = np.linspace(EPSILON, 0.99, 30).tolist()
    beyond = [bounds[1][float(asked_size(rank))] * factor(e) / factor(EPSILON) for e in eps]
    sizes = [float(asked_size(rank, e)) for e in eps]
    lines.append(Line("form 1 read beyond ε = 1/2", sizes, beyond, style=":", markers=False))
    return chart(run.folder / "theorem1.png", lines, "m", "‖M − M̂‖₂", log_x=True, log_y=True)


def _smallest(run: PaperRun, cells: list[Cell], rank: int) -> str:
    """How fast the deviation falls, and from which m the bound holds."""
    sizes, values = (np.array(v) for v in zip(*((float(c.at), c.values["value"]) for c in cells), strict=True))
    text = (
        f"The deviation falls as m to the power {slope(sizes, values, rank):.2f} (fitted for m ≥ 10 r_D), the bound, "
        "because of its term √ε, as m to the power -0.25. "
    )
    smallest = {form: run.journal.cells(EXPERIMENT, f"smallest m, form {form}") for form in (1, 2)}
    shown = [f"{float(stored[0].at):,.0f} for form {form}" for form, stored in smallest.items() if stored]
    if not shown:
        return text
    return text + (
        f"The smallest m at which the bound of ε = {EPSILON:g} still holds in 95 % of {run.budget.draws} draws is "
        f"{' and '.join(shown)}; below the rank, {rank:,}, the compressed problem has no unique solution."
    )


def _lemma(run: PaperRun, cells: list[Cell]) -> str:
    n = run.protocol.n_train
    least = (n - 1) * np.log(n / DELTA) / (EPSILON**2 / 3)
    shown = ", ".join(f"{cell.values['value']:.3g} at m = {float(cell.at):,.0f}" for cell in cells)
    return (
        f"The lemma requires m ≥ (n - 1) log(n / δ) / (c ε²) sampled rows, c = 1/3: {least:,.0f} of n = {n:,} for ε = "
        f"{EPSILON:g} and δ = {DELTA:g}. It is vacuous: this is more than n for any ε ≤ 1, and a row that is not drawn "
        f"has a zero in SSᵀ, so ‖SSᵀ - I‖₂ ≥ 1 for all m < n. The smallest of {run.budget.draws} draws was {shown}. "
        "Sampling works for another reason: rows of one class resemble each other. Figure 3 measures how well."
    )


# -- Corollary 1: how fast the alternating method converges to the optimum of the fixed target -------------------------

COROLLARY = "corollary"
FLOOR = 1e-16  # for the logarithmic axis


def cases(run: PaperRun) -> dict[str, tuple[int, bool]]:
    """Rank of the iterates, and whether n < d as in the corollary, with half as many rows as columns."""
    k = len(np.unique(run.data.y))
    options = {f"r = {k}, the rank of M*": (k, False), f"r = {k}, n < d": (k, True)}
    if k > 3:
        options[f"r = {k // 2}, to the best of that rank"] = (k // 2, False)
    return options


def corollary_tasks(run: PaperRun) -> Iterator[Task]:
    for name, (rank, few) in cases(run).items():
        yield Task((COROLLARY, name, 0), partial(_corollary_work, run, name, rank, few))


def _corollary_work(run: PaperRun, name: str, rank: int, few: bool) -> Done:
    split = run.protocol.split(0)
    X, y = split.X.astype(np.float64), split.y
    if few:
        rows = np.random.default_rng(run.settings.seed).permutation(len(y))[: min(len(y), X.shape[1] // 2)]
        X, y = X[rows], y[rows]
    distances = errors(X, y, rank, run.settings.n_iter, run.settings.seed)
    values = [{"value": error, "bound": float(np.exp(-t / 2))} for t, error in enumerate(distances, start=1)]
    return Done([Cell(COROLLARY, name, 0, float(t), value) for t, value in enumerate(values, start=1)])


def errors(X: np.ndarray, y: np.ndarray, rank: int, n_iter: int, seed: int = 0) -> list[float]:
    """‖M* - L_T R_Tᵀ‖_F / ‖M*‖_F for T = 1 … n_iter, M* being the best matrix of that rank for the fixed target."""
    best = SLR(rank, adaptive=False, init="fixed").fit(X, y).query_map()
    model, size = variant("SLR-Fixed", rank=rank, max_iter=n_iter, random_state=seed), np.linalg.norm(best)
    return [float(np.linalg.norm(best - step.query_map()) / size) for step in iterates(model, X, y)]


def corollary_section(run: PaperRun) -> list[Block]:
    stored = {name: run.journal.cells(COROLLARY, name) for name in cases(run)}
    curves = {name: cells for name, cells in stored.items() if cells}
    if not curves:
        return []
    axis = [float(cell.at) for cell in next(iter(curves.values()))]
    lines = [Line(name, axis, [max(c.values["value"], FLOOR) for c in cells]) for name, cells in curves.items()]
    lines.append(Line("e^(−T/2)", axis, np.exp(-np.array(axis) / 2).tolist(), style="--", markers=False))
    path = chart(run.folder / "corollary1.png", lines, "iteration T", "‖M* − L R′‖ / ‖M*‖", log_y=True)
    caption = "Distance of the alternating method from the optimum of the fixed target, and the rate of the corollary."
    rows = [
        [name, f"{cells[0].values['value']:.2g}", f"{cells[-1].values['value']:.2g}", _above_bound(cells)]
        for name, cells in curves.items()
    ]
    table = TableBlock(["iterates", "after T = 1", f"after T = {axis[-1]:.0f}", "above the bound at T ="], rows)
    text = (
        "With a fixed target, a step of the alternating method is a step of subspace iteration for the singular "
        "vectors of UᵀYU, whose rank is the number of classes. Iterates of that rank are exact after one iteration, "
        "for any restricted isometry of X and for n < d as well. At a smaller rank, the rate depends on the gap "
        "between singular values and is not e^(-1/2)."
    )
    return [Heading("Corollary 1: convergence"), Picture(path, caption, 720), table, Text(text)]


def _above_bound(cells: list[Cell]) -> str:
    return ", ".join(f"{float(cell.at):.0f}" for cell in cells if cell.values["value"] > cell.values["bound"]) or "–"
