"""One door for every format: a path says by its ending, or by being a folder, how it is read."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from likewise.errors import LikewiseError
from likewise.tables.arrays import read_npy, read_npz
from likewise.tables.labels import read_labels
from likewise.tables.parquet import read_parquet
from likewise.tables.svmlight import is_svmlight, read_svmlight
from likewise.tables.table import Table, tidy_labels
from likewise.tables.text import opened, read_csv

__all__ = ["read_table"]

_PAIRS = ("features", "X", "embeddings")
_PAIR_LABELS = ("labels.npy", "y.npy", "labels.csv", "labels.txt", "items.csv")
_EXPECTED = ".npz, .npy, .csv, .tsv, .parquet, .svm, a folder of features, or - for CSV on standard input"


def read_table(
    source: str | os.PathLike[str],
    *,
    labels: str | os.PathLike[str] | None = None,
    label_column: str | None = None,
    features: str | None = None,
) -> Table:
    """Read rows and labels from `source`.

    Parameters
    ----------
    source : a `.npz`, `.npy`, `.csv`, `.tsv`, `.parquet` or svmlight file (`.svm`, `.svmlight`, `.libsvm`, also with
        `.gz`), a folder of features, "-" for CSV on stdin
    labels : a file of labels, one a row, used in place of those in `source`
    label_column : the column or key that holds the labels, if it is not called label, y, target or class
    features : the column or key that holds the features, where there is a choice

    Examples
    --------
    >>> import io, sys
    >>> sys.stdin = io.StringIO("width,height,label\\n1,2,cat\\n3,4,dog\\n")
    >>> table = read_table("-")
    >>> table.X.shape, table.y.tolist()
    ((2, 2), ['cat', 'dog'])
    """
    # A label column that belongs to the labels file is not looked for in the data.
    table = _read(source, None if labels is not None else label_column, features)
    if labels is None:
        return table
    return replace(table, y=read_labels(labels, label_column))


def _read(source: str | os.PathLike[str], label_column: str | None, features: str | None) -> Table:
    if os.fspath(source) == "-":
        return read_csv(sys.stdin, "standard input", label_column)
    path = Path(source)
    if not path.exists():
        raise LikewiseError(f"{path} does not exist")
    if path.is_dir():
        return _read_folder(path)
    readers: dict[str, Callable[[], Table]] = {
        ".npz": lambda: read_npz(path, features, label_column),
        ".npy": lambda: read_npy(path),
        ".csv": lambda: _read_text(path, label_column, None),
        ".tsv": lambda: _read_text(path, label_column, "\t"),
        ".parquet": lambda: read_parquet(path, features, label_column),
    }
    if is_svmlight(path):
        return read_svmlight(path)
    if path.suffix.lower() not in readers:
        raise LikewiseError(f"{path} ends with {path.suffix or 'nothing'}: expected {_EXPECTED}")
    return readers[path.suffix.lower()]()


def _read_text(path: Path, label_column: str | None, delimiter: str | None) -> Table:
    with opened(path) as file:
        return read_csv(file, str(path), label_column, delimiter)


def _read_folder(path: Path) -> Table:
    """A feature store, or a folder that holds an array and its labels side by side."""
    if (path / "meta.json").is_file():
        return _read_store(path)
    array = next((path / f"{name}.npy" for name in _PAIRS if (path / f"{name}.npy").is_file()), None)
    if array is None:
        raise LikewiseError(f"{path} is a folder without features.npy: expected {_EXPECTED}")
    labels = next((path / name for name in _PAIR_LABELS if (path / name).is_file()), None)
    table = read_npy(array)
    return table if labels is None else replace(table, y=read_labels(labels))


def _read_store(path: Path) -> Table:
    from likewise.features import FeatureStore

    store = FeatureStore.open(path)
    y = None if store.labels is None else tidy_labels(store.labels)
    return Table(store.features, y, [str(name) for name in store.paths], str(path))
