"""One reader for every format, chosen by the ending of a path, or by its being a folder."""

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
from likewise.tables.store import FeatureStore, is_store, read_features, read_meta
from likewise.tables.store import read_labels as read_store_labels
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
    names: bool = True,
) -> Table:
    """Read rows and labels from `source`.

    Parameters
    ----------
    source : a `.npz`, `.npy`, `.csv`, `.tsv`, `.parquet` or svmlight file (`.svm`, `.svmlight`, `.libsvm`, also with
        `.gz`), a folder of features, "-" for CSV on stdin
    labels : a file of labels, one per row, used in place of those in `source`
    label_column : the column or key that holds the labels, if it is not called label, y, target or class
    features : the column or key that holds the features, where there is a choice
    names : False leaves out the names of the rows of a feature store, which take more memory than their labels

    Examples
    --------
    >>> import io, sys
    >>> sys.stdin = io.StringIO("width,height,label\\n1,2,cat\\n3,4,dog\\n")
    >>> table = read_table("-")
    >>> table.X.shape, table.y.tolist()
    ((2, 2), ['cat', 'dog'])
    """
    # A label column that belongs to the labels file is not looked for in the data.
    table = _read(source, None if labels is not None else label_column, features, names)
    if labels is None:
        return table
    return replace(table, y=read_labels(labels, label_column))


def _read(source: str | os.PathLike[str], label_column: str | None, features: str | None, names: bool) -> Table:
    if os.fspath(source) == "-":
        return read_csv(sys.stdin, "standard input", label_column)
    path = Path(source)
    if not path.exists():
        raise LikewiseError(f"{path} does not exist")
    if path.is_dir():
        return _read_store(path, names) if is_store(path) else _read_folder(path)
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
    """A folder that holds an array and its labels side by side."""
    array = next((path / f"{name}.npy" for name in _PAIRS if (path / f"{name}.npy").is_file()), None)
    if array is None:
        raise LikewiseError(f"{path} is a folder without features.npy: expected {_EXPECTED}")
    labels = next((path / name for name in _PAIR_LABELS if (path / name).is_file()), None)
    table = read_npy(array)
    return table if labels is None else replace(table, y=read_labels(labels))


def _read_store(path: Path, names: bool) -> Table:
    if names:
        store = FeatureStore.open(path)
        y, X, paths = store.labels, store.features, list(map(str, store.paths))
        return Table(X, None if y is None else tidy_labels(y), paths, str(path))
    read_meta(path)
    y = read_store_labels(path / "items.csv")
    return Table(read_features(path / "features.npy"), None if y is None else tidy_labels(y), None, str(path))
