"""A comparison as text for a terminal and as HTML."""

from __future__ import annotations

import io
import platform
from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from likewise import __version__, report
from likewise.comparison.results import Comparison, Contest, Outcome, Standing

__all__ = ["as_text", "html_page", "html_parts", "show"]

_TITLES = {"known classes": "Known classes: other rows", "new classes": "New classes: half of the classes held out"}
_NOTES = (
    "mAP and P@1 are × 100. Intervals are 95 % bootstraps over queries; seconds are those of the fit, all choosing of "
    "settings included; width is the number of columns in an index. Every method chose its settings on training rows "
    "alone. The last column is AnchoredSLR's lead in mAP over that row, linear against linear, kernel against kernel, "
    "posterior against posterior, with a paired sign-flip test over queries; a tie is p > 0.05 or less than 0.3 points."
)
_OVERLAP = "Rows are tested in several splits, so that the p-values, pooled over them, are on the bold side."
_VERDICTS = {"ahead": "", "tie": " tie", "behind": " loss"}


def lead(contest: Contest | None) -> str:
    """AnchoredSLR's lead in words and figures."""
    if contest is None:
        return ""
    return f"{points(contest.difference)}{_VERDICTS[contest.verdict]} ({contest.p})"


def points(difference: float, digits: int = 1) -> str:
    """A difference in mAP × 100, with its sign unless it rounds to nothing."""
    words = f"{100 * difference:+.{digits}f}"
    return words.replace("-", "−") if float(words) else words[1:]


def size(comparison: Comparison, standing: Standing) -> str:
    """What was learned from and what was searched."""
    times = "" if comparison.n_splits == 1 else f", {comparison.n_splits} splits"
    learned, searched = standing.n_classes
    return (
        f"{standing.n_train:,} rows of {learned:,} classes to learn from, "
        f"{standing.n_test:,} of {searched:,} to search{times}"
    )


# ---------------------------------------------------------------------------------------------------------------------
# For a terminal


def show(comparison: Comparison, console: Console) -> None:
    """Print the tables, what they mean, and the recommendation."""
    for name, standing in comparison.standings.items():
        console.print(Text(_TITLES[name], style="bold"))
        console.print(Text(size(comparison, standing), style="dim"))
        console.print(_grid(comparison, standing, wide=console.width >= 100))
        _show_remarks(standing, console)
        console.print()
    for remark in comparison.remarks:
        console.print(Text(f"Note: {remark}."))
    console.print(Text(_notes(comparison), style="dim"))
    console.print()
    console.print(Text(comparison.recommendation(), style="bold"))


def as_text(comparison: Comparison, width: int = 110) -> str:
    """What `show` prints, without colours."""
    console = Console(file=io.StringIO(), width=width, force_terminal=False, no_color=True)
    show(comparison, console)
    return console.file.getvalue()  # type: ignore[attr-defined]


def _grid(comparison: Comparison, standing: Standing, wide: bool) -> Grid:
    """The table; a narrow terminal does without the kinds, which most labels tell as well."""
    several = comparison.n_splits > 1
    grid = Grid(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    grid.add_column("method", no_wrap=True)
    if wide:
        grid.add_column("kind", no_wrap=True)
    for name in _columns(several):
        grid.add_column(name, justify="right", no_wrap=True)
    grid.add_column("ours leads by", overflow="fold")
    for outcome in standing.ranked:
        style = "bold" if outcome.ours else "dim" if outcome.failed else ""
        words = "failed, see below" if outcome.failed else lead(standing.against_ours(outcome))
        kind = [outcome.kind] if wide else []
        grid.add_row(Text(outcome.label), *kind, *_figures(outcome, several), Text(words), style=style)
    return grid


def _show_remarks(standing: Standing, console: Console) -> None:
    for outcome in standing.ranked:
        for words in [outcome.error] if outcome.failed else outcome.remarks:
            console.print(Text(f"{outcome.label}: {words}", style="dim"))


def _columns(several: bool) -> list[str]:
    return ["mAP", *(["± sd"] if several else []), "interval", "P@1", "fit s", "width"]


def _figures(outcome: Outcome, several: bool) -> list[str]:
    """The row's figures in the order of `_columns`."""
    if outcome.failed:
        return ["–"] * len(_columns(several))
    low, high = outcome.interval or (float("nan"), float("nan"))
    return [
        f"{100 * outcome.mean_average_precision:.1f}",
        *([f"{100 * (outcome.deviation or 0):.1f}"] if several else []),
        f"{100 * low:.1f}–{100 * high:.1f}",
        f"{100 * outcome.precision_at_1:.1f}",
        f"{outcome.seconds:.2f}",
        f"{outcome.width:,}",
    ]


def _notes(comparison: Comparison) -> str:
    return _NOTES if comparison.n_splits == 1 else f"{_NOTES} {_OVERLAP}"


# ---------------------------------------------------------------------------------------------------------------------
# As HTML


def html_page(comparison: Comparison, title: str, command: str | None) -> str:
    """One self-contained page with the recommendation on top."""
    parts = html_parts(comparison)
    if command is not None:
        parts += [report.heading("Do it again"), report.code(command)]
    parts.append(report.definitions(_circumstances(comparison)))
    return report.page(title, comparison.recommendation(), parts)


def html_parts(comparison: Comparison) -> list[str]:
    """The tables with their headings and remarks."""
    parts: list[str] = []
    for name, standing in comparison.standings.items():
        parts += [
            report.heading(_TITLES[name]),
            report.paragraph(f"{size(comparison, standing)}."),
            _html_table(comparison, standing),
            *(report.paragraph(words) for words in _contest_words(standing)),
        ]
        settings = _settings(standing)
        if settings:
            parts += [
                report.heading("What each chose on training rows"),
                report.table(("method", "settings"), settings),
            ]
    parts += [report.paragraph(f"Note: {remark}.") for remark in comparison.remarks]
    return [*parts, report.heading("How to read it"), report.paragraph(_notes(comparison))]


def _html_table(comparison: Comparison, standing: Standing) -> str:
    several = comparison.n_splits > 1
    rows: list[Sequence[str | float]] = []
    for outcome in standing.ranked:
        remark = "; ".join([outcome.error or ""] if outcome.failed else outcome.remarks)
        words = lead(standing.against_ours(outcome))
        score = outcome.mean_average_precision
        figures = _figures(outcome, several)[1:]
        rows.append([outcome.label, outcome.kind, 100 * score, *figures, words, remark])
    columns = ["method", "kind", *_columns(several), "AnchoredSLR leads by", "remarks"]
    if not any(row[-1] for row in rows):
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    ours = [place for place, outcome in enumerate(standing.ranked) if outcome.ours]
    return report.table(columns, rows, bar="mAP", full=100, marked=ours, digits={"mAP": 1}, numeric=_columns(several))


def _contest_words(standing: Standing) -> list[str]:
    """Ours against the best rival of each kind, losses as plainly as gains."""
    said = {"ahead": "is ahead of", "tie": "ties with", "behind": "is behind"}
    return [
        f"{kind.capitalize()}: {c.one} {said[c.verdict]} {c.other}, the best rival of its kind: "
        f"{points(c.difference, 2)} points ({points(c.interval[0], 2)} to {points(c.interval[1], 2)}, {c.p})."
        for kind, c in standing.contests().items()
    ]


def _settings(standing: Standing) -> list[tuple[str, str]]:
    chosen = [(o.label, o.runs[0].setting) for o in standing.ranked if not o.failed]
    return [(label, ", ".join(f"{k} {_short(v)}" for k, v in found.items())) for label, found in chosen if found]


def _short(value: object) -> str:
    return (
        f"{value:.3g}"
        if isinstance(value, float)
        else "yes"
        if value is True
        else "no"
        if value is False
        else f"{value}"
    )


def _circumstances(comparison: Comparison) -> dict[str, str]:
    import numpy
    import sklearn

    return {
        "data": f"{comparison.n_rows:,} rows, {comparison.n_columns:,} columns, {comparison.n_classes:,} classes",
        "seed": str(comparison.seed),
        "likewise": __version__,
        "Python, numpy, scikit-learn": f"{platform.python_version()}, {numpy.__version__}, {sklearn.__version__}",
        "machine": f"{platform.system()} {platform.machine()}",
    }
