"""`likewise doctor`: problems in the data."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING

from rich.text import Text
from typer import Exit

from likewise.cli.console import SERIOUS, emit_json, results, working
from likewise.cli.options import AsJson, Data, FeatureName, LabelColumn, Labels, load_table
from likewise.utils.wording import plural

if TYPE_CHECKING:
    from likewise.rows.doctor import Findings

_MARKS = {"serious": ("✗", "bold red"), "warning": ("!", "bold yellow"), "note": ("·", "cyan")}


def doctor(
    data: Data,
    labels: Labels = None,
    label_column: LabelColumn = None,
    features: FeatureName = None,
    as_json: AsJson = False,
) -> None:
    """Find problems in the data that hurt a model, and say what to do about them.

    Looks for NaN, zero and duplicate rows, conflicting labels, columns and rows of different scale, constant and
    repeated columns, the label among the features, classes of one row, imbalance, rank, condition number and fewer rows
    than columns. Then it names the lines of docs/choosing.md that concern these data: which estimator to use. Exits
    with 1 if something serious was found.

    [bold]Examples[/bold]

    \b
      likewise doctor photos.csv
      likewise doctor embeddings.npy --labels labels.txt
      likewise doctor embeddings.parquet --json | jq .findings
    """
    table = load_table(data, labels, label_column, features)
    from likewise.rows.doctor import examine

    with working("examining"):
        findings = examine(table.X, table.y)
    emit_json({"source": table.source, **findings.to_dict()}) if as_json else _show(table.source, findings)
    if findings.serious:
        raise Exit(SERIOUS)


def _show(source: str, findings: Findings) -> None:
    console = results()
    width, at_least = max(console.width, 40), "" if findings.rank_is_exact else "at least "
    parts = [plural(findings.n_rows, "row"), plural(findings.n_columns, "column")]
    parts += [] if findings.n_classes is None else [plural(findings.n_classes, "class")]
    parts += [] if findings.rank is None else [f"rank {at_least}{findings.rank:,}"]
    parts += [] if findings.condition is None else [f"condition number {findings.condition:.3g}"]
    console.print(Text(f"{source}: {', '.join(parts)}", style="bold"), soft_wrap=True)
    for finding in findings:
        mark, style = _MARKS[finding.severity]
        console.print()
        console.print(Text.assemble((f"{mark} {finding.severity}: ", style), finding.what))
        for line in (finding.effect, f"→ {finding.remedy}"):
            console.print(Text(fill(line, width, initial_indent="  ", subsequent_indent="  ")), soft_wrap=True)
    console.print(Text("\nWhich estimator? Lines of docs/choosing.md:", style="bold"))
    for choice in findings.choosing:
        text = f"{choice.number}. {choice.have}: {choice.use}; not if {choice.unless}".replace("`", "")
        console.print(Text(fill(text, width, initial_indent="  ", subsequent_indent="     ")))
    if not findings.findings:
        console.print(Text("\nNo problems found.", style="green"))
        return
    counts = {kind: sum(finding.severity == kind for finding in findings) for kind in _MARKS}
    parts = [f"{counts['serious']} serious", *(plural(counts[kind], kind) for kind in ("warning", "note"))]
    console.print(Text("\n" + ", ".join(parts), style="bold"))
