"""`likewise fit --relevance FILE`: pairs instead of labels tell what belongs together."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from likewise.cli.console import note
from likewise.cli.options import load_table
from likewise.cli.rows import TrainingRows
from likewise.errors import LikewiseError

__all__ = ["Gallery", "Prior", "Relevance", "Sides", "Unstored", "related_rows"]

Relevance = Annotated[
    Path | None,
    typer.Option(
        "--relevance",
        metavar="FILE",
        help="CSV, TSV or Parquet: query, item[, grade]; query, item, clicked; anchor, positive, negative; a, b, link.",
    ),
]
Gallery = Annotated[
    str | None, typer.Option("--gallery", metavar="DATA", help="Items of --relevance, if they are not in DATA.")
]
Unstored = Annotated[
    str, typer.Option("--unstored", help="Pairs that --relevance does not list: unknown or irrelevant.")
]
Sides = Annotated[
    str | None, typer.Option("--sides", help="both, query (an index of raw rows stays), or gallery; for slr.")
]
Prior = Annotated[
    str | None, typer.Option("--prior", help="identity: what was not taught keeps its raw ranking; for slr.")
]


def related_rows(
    model: Any, data: str, gallery: str | None, features: str | None, relevance: Path, unstored: str
) -> TrainingRows:
    """Read rows, gallery and relevance; ids are the names of rows, or row numbers where rows have none."""
    from likewise.data import read_relevance
    from likewise.slr import SLR

    if not isinstance(model, SLR):
        raise LikewiseError("--relevance is for the methods slr and slr-fixed: the others learn from labels")
    table = load_table(data, features=features)
    items = table if gallery is None else load_table(gallery, features=features)
    known = read_relevance(
        relevance,
        query_ids=table.names,
        item_ids=items.names,
        shape=(table.X.shape[0], items.X.shape[0]),
        unstored=unstored,
    )
    for side, rows in (("", table), *([("--gallery ", items)] if gallery is not None else [])):
        if rows.names is None:
            note(f"{side}{rows.source} has no column of names: ids are row numbers, counted from 0")
    return TrainingRows(table.X, known, table.source, table.X.shape, gallery=None if gallery is None else items.X)
