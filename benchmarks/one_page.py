"""All ratios on one page, each against its goal, and what fell since the last page that was stored."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

FELL = 0.1  # of a margin: smaller changes are the machine's
_GOAL = re.compile(r"^\s*([<>≤≥])\s*(-?[\d,]*\.?\d+)")


class Measured(NamedTuple):
    """A line of the page: what was measured, against what, as text; its ratio, if it is a number; the goal."""

    what: str
    ours: str
    rival: str
    ratio: float | str
    goal: str

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Measured:
        ratio = row["ratio"]
        number = float(ratio) if isinstance(ratio, int | float) else str(ratio)
        return cls(str(row["what"]), str(row["ours"]), str(row["rival"]), number, str(row["goal"]))

    @property
    def margin(self) -> float | None:
        """How many times better than the goal: at least 1 if it is met; None without a goal that is a number."""
        found = _GOAL.match(self.goal)
        if found is None or isinstance(self.ratio, str):
            return None
        wanted = float(found[2].replace(",", ""))
        better, worse = (wanted, self.ratio) if found[1] in "<≤" else (self.ratio, wanted)
        return better / worse if worse > 0 else None

    @property
    def cells(self) -> list[str]:
        """As a row of a table."""
        ratio = f"{self.ratio:.3g}" if isinstance(self.ratio, float) else self.ratio
        margin = self.margin
        return [
            self.what,
            self.ours,
            self.rival,
            ratio,
            self.goal,
            "" if margin is None else "yes" if margin >= 1 else "**no**",
        ]


COLUMNS = ["what", "ours", "rival", "ratio", "goal", "met"]


def fallen(now: Iterable[Measured], before: Iterable[Measured]) -> list[str]:
    """What is further from its goal than it was, by more than a tenth, in words."""
    known = {line.what: line.margin for line in before}
    found = []
    for line in now:
        old, new = known.get(line.what), line.margin
        if old is not None and new is not None and new < (1 - FELL) * old:
            found.append(f"{line.what}: {new:.2f} times its goal, {old:.2f} before")
    return found


def markdown(lines: list[Measured], before: list[Measured], when: str, machine: str) -> str:
    """The page."""
    met = [line.margin >= 1 for line in lines if line.margin is not None]
    text = ["# Benchmarks", "", f"{when}, {machine}", "", f"{sum(met)} of {len(met)} goals are met.", ""]
    text += ["| " + " | ".join(cells) + " |" for cells in (COLUMNS, ["---"] * len(COLUMNS), *(x.cells for x in lines))]
    fell = fallen(lines, before)
    text += ["", f"Fell by more than {FELL:.0%} since the last page stored:", ""] if fell else []
    text += [f"- {one}" for one in fell]
    if before and not fell:
        text += ["", f"Nothing fell by more than {FELL:.0%} since the last page stored."]
    return "\n".join([*text, ""])


def draw(lines: list[Measured], path: Path) -> None:
    """How many times better than its goal each line is; what is left of the line at 1 is not met."""
    from matplotlib.figure import Figure

    shown = [(line.what, line.margin) for line in lines if line.margin is not None][::-1]
    figure = Figure(figsize=(10, 0.28 * len(shown) + 1), layout="constrained")
    axes = figure.add_subplot()
    colours = ["tab:green" if margin >= 1 else "tab:red" for _, margin in shown]
    axes.barh([_short(what) for what, _ in shown], [margin - 1 for _, margin in shown], left=1, color=colours)
    axes.set(xscale="log", xlabel="times better than the goal")
    axes.axvline(1, color="black", linewidth=1)
    axes.tick_params(axis="y", labelsize=7)
    figure.savefig(path, dpi=120)


def _short(text: str) -> str:
    return text if len(text) <= 70 else text[:69] + "…"
