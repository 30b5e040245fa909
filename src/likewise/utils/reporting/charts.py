"""Line charts as PNG files, drawn by matplotlib."""

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from likewise.errors import optional
from likewise.utils.files import atomic_write

# Readable in grey as well: from dark to light, each with its own marker.
COLOURS = ("#1f4ed8", "#d9480f", "#2b8a3e", "#862e9c", "#5c5f66", "#0b7285")
MARKERS = "osD^vx"


@dataclass(frozen=True)
class Line:
    """A named curve; `spread` is half the height of the band around it."""

    name: str
    x: Sequence[float]
    y: Sequence[float] | np.ndarray
    spread: np.ndarray | None = None
    style: str = "-"
    markers: bool = True


def chart(
    path: Path, lines: Sequence[Line], x_label: str, y_label: str, *, log_x: bool = False, log_y: bool = False
) -> Path:
    """Draw the lines to a PNG of 720 × 440 CSS pixels at double density."""
    matplotlib = optional("matplotlib.figure", "drawing the figures of the paper", "paper")
    figure = matplotlib.Figure(figsize=(7.2, 4.4), layout="constrained")
    axes = figure.subplots()
    axes.grid(True, color="#e3e5e9", linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set(xlabel=x_label, ylabel=y_label, xscale="log" if log_x else "linear", yscale="log" if log_y else "linear")
    for place, line in enumerate(lines):
        _draw(axes, line, place)
    axes.legend(frameon=False, fontsize=9)
    ticks = sorted({float(x) for line in lines for x in line.x})
    if not log_x:
        axes.xaxis.get_major_locator().set_params(integer=all(tick.is_integer() for tick in ticks))
    elif ticks[-1] < 100 * ticks[0]:  # less than two decades
        axes.set_xticks(ticks, [f"{tick:,.0f}" for tick in ticks])
        axes.set_xticks([], minor=True)
    buffer = BytesIO()
    # without date and version, so that the same data gives the same bytes
    figure.savefig(buffer, format="png", dpi=160, metadata={"Software": None})
    return atomic_write(path, buffer.getvalue())


def _draw(axes: Any, line: Line, place: int) -> None:
    colour, x, y = COLOURS[place % len(COLOURS)], np.asarray(line.x, float), np.asarray(line.y, float)
    marker = MARKERS[place % len(MARKERS)] if line.markers else ""
    axes.plot(x, y, line.style, color=colour, marker=marker, markersize=4.5, linewidth=1.6, label=line.name)
    if line.spread is not None and np.any(np.asarray(line.spread) > 0):
        axes.fill_between(x, y - np.asarray(line.spread), y + np.asarray(line.spread), color=colour, alpha=0.15, lw=0)
