"""Arguments and options that several verbs share, and the reading of data with remarks on stderr."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from likewise.cli.console import note, working

__all__ = ["AsJson", "Data", "FeatureName", "LabelColumn", "Labels", "load_model", "load_table"]

_FORMATS = ".npz, .npy, .csv, .tsv, .parquet, .svm, a folder of features, or - for CSV on standard input"

Data = Annotated[str, typer.Argument(metavar="DATA", help=f"Rows with labels: {_FORMATS}.", show_default=False)]
Labels = Annotated[
    Path | None, typer.Option("--labels", metavar="FILE", help="Labels, one a row: .npy, .csv, .tsv or .txt.")
]
LabelColumn = Annotated[
    str | None,
    typer.Option(
        "--label-column", metavar="NAME", help="Column or .npz key of the labels. [dim]Default: label, y, target.[/]"
    ),
]
FeatureName = Annotated[
    str | None,
    typer.Option(
        "--features", metavar="NAME", help="Parquet column or .npz key of the features, where there are several."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def load_table(
    source: str,
    labels: Path | None = None,
    label_column: str | None = None,
    features: str | None = None,
    width: int | None = None,
) -> Any:
    """Read a table and pass its remarks on; `width` is what a model expects of a file that does not know its own."""
    from likewise.tables import read_table
    from likewise.tables.svmlight import widened

    with working(f"reading {source}"):
        table = read_table(source, labels=labels, label_column=label_column, features=features)
    for remark in table.notes:
        note(remark)
    return table if width is None else widened(table, width)


def labelled(table: Any) -> Any:
    """The labelled rows of a table, with a remark if some are left out."""
    kept = table.labelled()
    for remark in kept.notes[len(table.notes) :]:
        note(remark)
    return kept


def load_model(path: Path) -> Any:
    """Read any model."""
    from likewise import load

    return load(path)
