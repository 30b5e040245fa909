"""The page on Theorem 1 and Lemma 2: that the bound holds, and how loose it is."""

from __future__ import annotations

from typing import Any

import numpy as np

from likewise.paper.cells import Cell
from likewise.paper.markdown import Block, Heading, Picture, Table, Text
from likewise.paper.plots import Line, chart
from likewise.paper.run import Run
from likewise.paper.theorem import CONSTANT, DELTA, EPSILON, EXPERIMENT, asked_size, epsilon, factor, slope

__all__ = ["section"]


def section(run: Run) -> list[Block]:
    """Chart, table and words."""
    cells = sorted(run.journal.cells(EXPERIMENT, "form 1"), key=lambda cell: float(cell.at))
    facts = run.journal.extra(EXPERIMENT, "m 0")
    if len(cells) < 4 or not facts:
        return []
    blocks: list[Block] = [Heading("Theorem 1: compressing by Gaussian matrices"), Text(_setting(run, facts))]
    blocks.append(Picture(_chart(run, cells, facts), _caption(run), 720))
    blocks.append(_table(run, cells, facts))
    blocks.extend(map(Text, _findings(run, cells, facts)))
    lemma = run.journal.cells(EXPERIMENT, "lemma 2")
    if lemma:
        blocks += [Heading("Lemma 2: sampling rows"), Text(_lemma(run, lemma))]
    return blocks


def _setting(run: Run, facts: dict[str, Any]) -> str:
    rank = int(facts["rank"])
    return (
        f"The theorem is about one regression: here that of the first split's {run.protocol.n_train:,} training rows, "
        f"of rank r_D = {rank:,}, on the fixed label target. It says that with Gaussian matrices of "
        f"m ≥ (r_D + 1) log(48 r_D / δ) / (c ε²) columns, c = {CONSTANT:g} and ε ≤ {EPSILON:g}, the solution M̂ of the "
        "compressed problem is within a bound of the solution M of the whole with probability 1 - δ. With "
        f"δ = {DELTA:g} and ε = {EPSILON:g} that is m = {asked_size(rank):,}, "
        f"{asked_size(rank) / run.protocol.n_train:.0f} times the training rows: it compresses nothing. Its "
        f"first form has the residual's norm in the bound, its second γ‖M‖, where γ = {facts['gamma']:.3g} is the "
        "residual's share"
        + (", below 1 as it assumes." if facts["gamma"] < 1 else ": it assumes γ < 1, which does not hold here.")
    )


def _chart(run: Run, cells: list[Cell], facts: dict[str, Any]) -> Any:
    rank = int(facts["rank"])
    sizes = [float(cell.at) for cell in cells]
    lines = [Line("measured, median of the draws", sizes, [cell.values["value"] for cell in cells])]
    for form in (1, 2):
        proper = [(m, b) for m, b in _bounded(run, form) if epsilon(m, rank) <= EPSILON * (1 + 1e-6)]
        lines.append(Line(f"bound, form {form}", [m for m, _ in proper], [b for _, b in proper]))
    lines.append(Line("form 1 read beyond ε = 1/2", *_beyond(run, rank), style=":", markers=False))
    return chart(run.folder / "theorem1.png", lines, "m", "‖M − M̂‖₂", log_x=True, log_y=True)


def _beyond(run: Run, rank: int) -> tuple[list[float], list[float]]:
    """The first form's formula where ε is between what the theorem allows and 1, where it ends."""
    eps = np.linspace(EPSILON, 0.99, 30)
    at_asked = dict(_bounded(run, 1))[float(asked_size(rank))]
    sizes = [float(asked_size(rank, e)) for e in eps]
    return sizes, [at_asked * factor(float(e)) / factor(EPSILON) for e in eps]


def _bounded(run: Run, form: int) -> list[tuple[float, float]]:
    cells = run.journal.cells(EXPERIMENT, f"form {form}")
    return sorted((float(cell.at), cell.values["bound"]) for cell in cells if "bound" in cell.values)


def _caption(run: Run) -> str:
    return (
        f"The deviation over {run.budget.draws} draws at each m, and the two forms of the bound where the theorem "
        "speaks; dotted where the formula still has a value but ε is above what it allows."
    )


def _table(run: Run, cells: list[Cell], facts: dict[str, Any]) -> Table:
    rank, second = int(facts["rank"]), dict(_bounded(run, 2))
    rows = []
    for cell in cells:
        m, value, bound = float(cell.at), cell.values["value"], cell.values.get("bound")
        of_second = _ratio(value, second.get(m))
        rows.append(
            [f"{m:,.0f}", f"{epsilon(m, rank):.2f}", f"{value / facts['norm']:.3g}", _ratio(value, bound), of_second]
        )
    columns = ["m", "ε", "‖M − M̂‖ / ‖M‖", "measured / bound, form 1", "measured / bound, form 2"]
    return Table(columns, rows)


def _ratio(value: float, bound: float | None) -> str:
    return "no bound" if bound is None else f"{value / bound:.2g}"


def _findings(run: Run, cells: list[Cell], facts: dict[str, Any]) -> list[str]:
    rank = int(facts["rank"])
    sizes = np.array([float(cell.at) for cell in cells])
    values = np.array([cell.values["value"] for cell in cells])
    at_asked = next(cell for cell in cells if float(cell.at) == asked_size(rank))
    second = dict(_bounded(run, 2)).get(float(asked_size(rank)))
    loose = at_asked.values["value"] / at_asked.values["bound"]
    said = (
        f"The bound holds, and is loose: at the m it asks for the measured deviation is {loose:.2g} of the first form"
        + (f" and {at_asked.values['value'] / second:.2g} of the second" if second else "")
        + f". The deviation falls as m to the power {slope(sizes, values, rank):.2f} (fitted for m ≥ 10 r_D), where "
        "the bound, through its term √ε, falls as m to the power -0.25."
    )
    return [said, *_smallest(run, rank)]


def _smallest(run: Run, rank: int) -> list[str]:
    found = {form: run.journal.cells(EXPERIMENT, f"smallest m, form {form}") for form in (1, 2)}
    parts = [
        f"form {form}: m = {float(cells[0].at):,.0f} (in {100 * cells[0].values['value']:.1f} % of the draws)"
        for form, cells in found.items()
        if cells
    ]
    if not parts:
        return []
    return [
        f"The smallest m at which the bound of ε = {EPSILON:g} still holds in 95 % of {run.budget.draws} draws is, for "
        f"{'; for '.join(parts)}. The theorem asks for {asked_size(rank):,}; below the rank, {rank:,}, the compressed "
        "problem has no unique solution."
    ]


def _lemma(run: Run, cells: list[Cell]) -> str:
    n = run.protocol.n_train
    asked = (n - 1) * np.log(n / DELTA) / (EPSILON**2 / 3)
    shown = ", ".join(f"{cell.values['value']:.3g} at m = {float(cell.at):,.0f}" for cell in cells)
    return (
        f"The lemma wants m ≥ (n - 1) log(n / δ) / (c ε²) sampled rows, c = 1/3: {asked:,.0f} of n = {n:,} with ε = "
        f"{EPSILON:g} and δ = {DELTA:g}. That is more than n whatever ε ≤ 1, so it says nothing about a sample that is "
        "smaller than the data: it is vacuous. Nor could it say more: a row that is not drawn has a zero in SSᵀ, so "
        f"‖SSᵀ - I‖₂ ≥ 1 whenever m < n. The smallest of {run.budget.draws} draws was {shown}. Sampling works for "
        "another reason, that rows of one class resemble each other; Figure 3 measures how well."
    )
