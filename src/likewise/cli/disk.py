"""Rows that a verb leaves where they are: a `.npy` file or a feature store, read in blocks here or by a cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from likewise.cli.console import note, working
from likewise.errors import LikewiseError

__all__ = ["Checkpoint", "Dask", "MemoryLimit", "RowsOnDisk", "can_stay", "file_of", "on_cluster", "on_disk"]

MemoryLimit = Annotated[
    str | None,
    typer.Option("--memory-limit", metavar="SIZE", help="What learning from a file may take. [dim]Default: 1GB.[/]"),
]
Checkpoint = Annotated[
    Path | None,
    typer.Option("--checkpoint", metavar="FILE", help="Written after each iteration; found, it is gone on from."),
]
Dask = Annotated[
    str | None,
    typer.Option("--dask", metavar="ADDRESS", help="Learn on the cluster of this Dask scheduler; it reads the file."),
]


@dataclass(frozen=True)
class RowsOnDisk:
    """Rows X that are read as they are needed, and their labels, "" where there is none."""

    X: Any
    y: np.ndarray
    source: str
    close: Callable[[], object] = lambda: None

    @property
    def n_labelled(self) -> int:
        return int(np.count_nonzero(self.y != "")) if self.y.dtype.kind == "U" else len(self.y)


def can_stay(model: Any, data: str) -> bool:
    """Whether the data is a matrix in a file, row by row, and the model reads such files itself."""
    file = file_of(data)
    parameters = model.get_params() if model is not None else {"memory_limit": None}
    if file is None or "memory_limit" not in parameters or parameters.get("compress") == "gaussian":
        return False
    try:
        header = np.load(file, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError):
        return True  # said better by whoever reads it
    return bool(header.ndim == 2 and header.flags.c_contiguous)


def file_of(data: str) -> Path | None:
    """The `.npy` file of the data, itself or in a feature store."""
    path = Path(data)
    if path.is_dir() and (path / "meta.json").is_file():
        return path / "features.npy"
    return path if path.suffix.lower() == ".npy" and path.is_file() else None


def on_disk(data: str, labels: Path | None, label_column: str | None) -> RowsOnDisk:
    """The rows of a file, with the labels that were named or that the store has."""
    from likewise.data.sources import NpyFile

    file = file_of(data)
    assert file is not None
    rows = RowsOnDisk(NpyFile.open(file), _labels(data, labels, label_column), data)
    if rows.X.shape[0] != len(rows.y):
        raise LikewiseError(f"{data} has {rows.X.shape[0]} rows but {len(rows.y)} labels: expected one a row")
    missing = len(rows.y) - rows.n_labelled
    if missing == len(rows.y):
        raise LikewiseError(f"{data} has {missing} rows and not one of them has a label")
    if missing:
        note(f"{data}: {missing} of {len(rows.y)} rows have no label and are left out")
    return rows


def on_cluster(data: str, labels: Path | None, label_column: str | None, address: str) -> RowsOnDisk:
    """The same, to be read by the workers of a Dask cluster, which must see the file under the same name."""
    from likewise.data.dask import connected, dask_rows

    rows, file = on_disk(data, labels, label_column), file_of(data)
    assert file is not None
    with working(f"connecting to {address}"):
        client = connected(address)
    return RowsOnDisk(dask_rows(file), rows.y, rows.source, client.close)


def _labels(data: str, labels: Path | None, label_column: str | None) -> np.ndarray:
    from likewise.data.store import read_labels as store_labels
    from likewise.data.store import read_meta
    from likewise.tables import read_labels
    from likewise.tables.table import tidy_labels

    if labels is not None:
        return read_labels(labels, label_column)
    if not Path(data).is_dir():
        raise LikewiseError(f"{data} has no labels: name a file with --labels or a column with --label-column")
    read_meta(Path(data))
    y = store_labels(Path(data) / "items.csv")
    if y is None:
        raise LikewiseError(f"{data} has no labels: name a file with --labels or a column with --label-column")
    names, codes = np.unique(y, return_inverse=True)
    return y if "" in names else tidy_labels(names)[codes]
