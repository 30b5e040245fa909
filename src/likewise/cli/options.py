"""Arguments and options shared by several verbs, and reading data with its notes on stderr."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from likewise.cli.console import note, working

__all__ = ["AsJson", "Data", "FeatureName", "LabelColumn", "Labels", "labelled", "load_model", "load_table"]

_FORMATS = ".npz, .npy, .csv, .tsv, .parquet, .svm, a folder of features, or - for CSV on standard input"

Data = Annotated[str, typer.Argument(metavar="DATA", help=f"Rows with labels: {_FORMATS}.", show_default=False)]
Labels = Annotated[
    Path | None, typer.Option("--labels", metavar="FILE", help="Labels, one per row: .npy, .csv, .tsv or .txt.")
]
LabelColumn = Annotated[
    str | None,
    typer.Option(
        "--label-column", metavar="NAME", help="Column or .npz key of the labels. [dim]Default: label, y, target, …[/]"
    ),
]
FeatureName = Annotated[
    str | None,
    typer.Option(
        "--features", metavar="NAME", help="Parquet column or .npz key of the features, if there are several."
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
    """Read a table and print its notes; `width` is the number of columns a model expects of sparse rows."""
    from likewise.tables import read_table
    from likewise.tables.svmlight import widened

    with working(f"reading {source}"):
        table = read_table(source, labels=labels, label_column=label_column, features=features)
    for text in table.notes:
        note(text)
    return table if width is None else widened(table, width)


def labelled(table: Any) -> Any:
    """The labelled rows of a table, with a note if unlabelled rows were dropped."""
    kept = table.labelled()
    for text in kept.notes[len(table.notes) :]:
        note(text)
    return kept


def load_model(path: Path) -> Any:
    """Read a saved model of any class."""
    from likewise import load

    return load(path)
