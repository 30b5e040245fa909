"""Labels in a file of their own: `.npy`, `.csv`, `.tsv`, or `.txt` with one per line."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from likewise.errors import LikewiseError
from likewise.tables.arrays import load_array
from likewise.tables.table import LABEL_NAMES, tidy_labels
from likewise.tables.text import opened, rows_of

__all__ = ["read_labels"]


def read_labels(path: str | os.PathLike[str], column: str | None = None) -> np.ndarray:
    """The labels in `path`, in its order."""
    path = Path(path)
    if not path.is_file():
        raise LikewiseError(f"the labels file {path} does not exist")
    suffix = path.suffix.lower()
    if suffix == ".npy":
        y = load_array(path)
        if y.ndim != 1:
            raise LikewiseError(f"{path} has shape {y.shape}: expected one label per row")
        return tidy_labels(np.array(y))
    if suffix in (".csv", ".tsv"):
        return tidy_labels(_from_csv(path, column))
    if suffix in (".txt", ""):
        with opened(path) as file:
            return tidy_labels([line.strip() for line in file])
    raise LikewiseError(f"the labels file {path} ends with {suffix}: expected .npy, .csv, .tsv or .txt")


def _from_csv(path: Path, column: str | None) -> list[str]:
    with opened(path) as file:
        rows = [row for row in rows_of(file, str(path)) if row]
    if not rows:
        raise LikewiseError(f"the labels file {path} is empty")
    place, header = _place(path, [cell.strip() for cell in rows[0]], column)
    short = next((i for i, row in enumerate(rows, start=1) if len(row) <= place), None)
    if short is not None:
        raise LikewiseError(f"row {short} of {path} has no cell {place + 1}, where its label should be")
    return [row[place].strip() for row in rows[header:]]


def _place(path: Path, first: list[str], column: str | None) -> tuple[int, int]:
    """The index of the label column, and 1 if the first row is a header."""
    if column is not None:
        if column not in first:
            raise LikewiseError(f"{path} has no column {column!r}: it has {', '.join(first)}")
        return first.index(column), 1
    lowered = [name.lower() for name in first]
    for name in LABEL_NAMES:
        if name in lowered:
            return lowered.index(name), 1
    if len(first) == 1:
        return 0, 0
    raise LikewiseError(f"{path} has the columns {', '.join(first)}: name one with --label-column")
