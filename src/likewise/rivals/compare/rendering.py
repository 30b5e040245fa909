"""A comparison as text for a terminal and as blocks of a report."""

import io
import platform

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from likewise.rivals.compare.results import Comparison, Contest, Outcome, Standing
from likewise.utils.reporting.report import Block, Facts, Heading, TableBlock, versions
from likewise.utils.reporting.report import Text as Paragraph
from likewise.utils.wording import short

_TITLES = {
    "known classes": "Known classes: other rows",
    "new classes": "New classes: half of the classes held out",
    "both in one gallery": "Both in one gallery: half of the classes taught, rows of all classes searched",
}
_NEIGHBOURS = "With neighbours: every cosine, each row averaged with its 10 nearest among the searched rows"
_NOTES = (
    "mAP, P@1 and nDCG@10 are × 100. Intervals are 95 % bootstrap intervals over queries; taught and new are {metric} "
    "of the queries of these classes; fit s is the time to fit in seconds, tuning included; width is the number of "
    "columns in an index. Every method tuned its settings on training rows only. Lead is SimilarityLearner's lead over "
    "the method in points of {metric}, linear against linear, kernel (any map that is not linear) against kernel, "
    "posterior against posterior; p is from a paired sign-flip test over queries. A tie is p > 0.05 or less than 0.3 "
    "points; a loss is marked."
)
_OVERLAP = "Rows recur as queries in several splits, so the pooled p-values are somewhat too small."
_VERDICTS = {"ahead": "", "tie": " tie", "behind": " loss"}


def lead(contest: Contest | None) -> tuple[str, str]:
    """SimilarityLearner's lead in points, with its verdict, and the p-value."""
    if contest is None:
        return "", ""
    p = "<0.001" if contest.p_value < 0.001 else f"{contest.p_value:.2g}"
    return f"{points(contest.difference)}{_VERDICTS[contest.verdict]}", p


def points(difference: float, digits: int = 1) -> str:
    """A difference × 100, with its sign unless it rounds to zero."""
    words = f"{100 * difference:+.{digits}f}"
    return words.replace("-", "−") if float(words) else words[1:]


def size(comparison: Comparison, standing: Standing) -> str:
    """How many rows were learned from and searched."""
    times = "" if comparison.n_splits == 1 else f", {comparison.n_splits} splits"
    learned, searched = standing.n_classes
    return (
        f"{standing.n_train:,} rows of {learned:,} classes to learn from, "
        f"{standing.n_test:,} of {searched:,} to search{times}"
    )


# -- For a terminal ----------------------------------------------------------------------------------------------------


def show(comparison: Comparison, console: Console) -> None:
    """Print the tables, how to read them, and the recommendation."""
    for name, standing in comparison.standings.items():
        console.print(Text(_TITLES[name], style="bold"))
        console.print(Text(size(comparison, standing), style="dim"))
        console.print(_grid(comparison, standing, wide=console.width >= 105))
        for words in _remarks(standing):
            console.print(Text(words, style="dim"))
        if standing.with_neighbours:
            console.print(Text(_NEIGHBOURS, style="bold"))
            console.print(_grid(comparison, standing.with_neighbours, wide=console.width >= 105))
            console.print(Text(f"Here: {standing.with_neighbours.recommendation()}."))
        console.print()
    for remark in comparison.remarks:
        console.print(Text(f"Note: {remark}."))
    console.print(Text(_notes(comparison), style="dim"))
    console.print()
    console.print(Text(comparison.recommendation(), style="bold"))


def as_text(comparison: Comparison, width: int = 110) -> str:
    """The text that `show` prints, without colours."""
    console = Console(file=io.StringIO(), width=width, force_terminal=False, no_color=True)
    show(comparison, console)
    return console.file.getvalue()  # type: ignore[attr-defined]


def _grid(comparison: Comparison, standing: Standing, wide: bool) -> Grid:
    """The table; on a narrow terminal without kinds, a third metric, and without intervals if there are deviations."""
    several = comparison.n_splits > 1
    columns = _columns(standing, several)
    left_out = set() if wide else {columns[-3], *(["interval"] if several else [])}
    shown = [i for i, name in enumerate(columns) if name not in left_out]
    grid = Grid(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0) if wide else 0)
    for name in ("method", *(["kind"] if wide else [])):
        grid.add_column(name, no_wrap=True)
    for name in (*(columns[i] for i in shown), "lead", "p"):
        grid.add_column(name, justify="left" if name == "lead" else "right", no_wrap=True)
    for outcome in standing.ranked:
        style = "bold" if outcome.ours else "dim" if outcome.failed else ""
        figures = _figures(standing, outcome, several)
        cells = [outcome.label, *([outcome.kind] if wide else []), *(figures[i] for i in shown)]
        grid.add_row(*map(Text, [*cells, *lead(standing.against_ours(outcome))]), style=style)
    return grid


def _remarks(standing: Standing) -> list[str]:
    """Why a method has no figures, and remarks on those that have."""
    remarks = [(o.label, [o.error] if o.failed else o.remarks) for o in standing.ranked]
    return [f"{label}: {words}" for label, lines in remarks for words in lines]


def _columns(standing: Standing, several: bool) -> list[str]:
    """The metric compared by, how sure it is, that of taught and new queries, other metrics, seconds and width."""
    names = dict.fromkeys(name for outcome in standing.outcomes for name in outcome.figures if name != standing.metric)
    parts, others = ([name for name in names if (name in ("taught", "new")) == is_part] for is_part in (True, False))
    return [standing.metric, *(["± sd"] if several else []), *(parts or ["interval"]), *others, "fit s", "width"]


def _figures(standing: Standing, outcome: Outcome, several: bool) -> list[str]:
    """The row's figures in the order of `_columns`."""
    columns = _columns(standing, several)
    if outcome.failed:
        return ["–"] * len(columns)
    low, high = outcome.interval or (float("nan"), float("nan"))
    cells = {
        **{name: f"{100 * value:.1f}" for name, value in outcome.figures.items()},
        "± sd": f"{100 * (outcome.deviation or 0):.1f}",
        "interval": f"{100 * low:.1f}–{100 * high:.1f}",
        "fit s": f"{outcome.seconds:.2f}",
        "width": f"{outcome.width:,}",
    }
    return [cells[name] for name in columns]


def _notes(comparison: Comparison) -> str:
    notes = _NOTES.format(metric=comparison.metric)
    return notes if comparison.n_splits == 1 else f"{notes} {_OVERLAP}"


# -- For a page --------------------------------------------------------------------------------------------------------


def blocks(comparison: Comparison) -> list[Block]:
    """The tables with their headings and remarks."""
    parts: list[Block] = []
    for name, standing in comparison.standings.items():
        parts += [Heading(_TITLES[name]), Paragraph(f"{size(comparison, standing)}."), _table(comparison, standing)]
        parts += map(Paragraph, [*_remarks(standing), *_contest_words(standing)])
        if standing.with_neighbours:
            parts += [Paragraph(f"{_NEIGHBOURS}."), _table(comparison, standing.with_neighbours)]
            parts += map(Paragraph, _contest_words(standing.with_neighbours))
        settings = [
            [outcome.label, ", ".join(f"{name} {short(value)}" for name, value in outcome.runs[0].setting.items())]
            for outcome in standing.ranked
            if not outcome.failed and outcome.runs[0].setting
        ]
        if settings:
            parts.append(Heading("Settings chosen on training rows"))
            parts.append(TableBlock(("method", "settings"), settings, text_columns=2))
    parts += [Paragraph(f"Note: {remark}.") for remark in comparison.remarks]
    return [*parts, Heading("How to read it"), Paragraph(_notes(comparison))]


def circumstances(comparison: Comparison) -> Facts:
    """The data, the seed, and versions."""
    data = f"{comparison.n_rows:,} rows, {comparison.n_columns:,} columns, {comparison.n_classes:,} classes"
    machine = f"{platform.system()} {platform.machine()}"
    software = versions("numpy", "scipy", "scikit-learn")
    return Facts({"data": data, "seed": str(comparison.seed), **software, "machine": machine})


def _table(comparison: Comparison, standing: Standing) -> TableBlock:
    several = comparison.n_splits > 1
    rows = [
        [outcome.label, outcome.kind, *_figures(standing, outcome, several), *lead(standing.against_ours(outcome))]
        for outcome in standing.ranked
    ]
    ours = [place for place, outcome in enumerate(standing.ranked) if outcome.ours]
    columns = ["method", "kind", *_columns(standing, several), "lead", "p"]
    return TableBlock(columns, rows, marked=ours, bar=standing.metric, full=100, text_columns=2)


def _contest_words(standing: Standing) -> list[str]:
    """Ours against the best rival of each kind, in words."""
    verdicts = {"ahead": "is ahead of", "tie": "ties with", "behind": "is behind"}
    return [
        f"{kind.capitalize()}: {c.one} {verdicts[c.verdict]} {c.other}, the best rival of its kind: "
        f"{points(c.difference, 2)} points ({points(c.interval[0], 2)} to {points(c.interval[1], 2)}, {c.p})."
        for kind, c in standing.contests().items()
    ]
