"""From a file, a folder of features or standard input to a table, or to labels alone."""

import os
import sys
import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TextIO

import numpy as np
import scipy.sparse as sp

from likewise.errors import FileFormatError, LikewiseError
from likewise.rows.arrays import read_npy, read_npz
from likewise.rows.npy import mapped
from likewise.rows.parquet import read_parquet
from likewise.rows.store import FeatureStore, is_store, read_rows
from likewise.rows.table import Table, check_width, checked_rows, named_column, tidy_labels
from likewise.rows.text import CsvOptions, opened, read_csv, rows_of
from likewise.utils.files import StrPath

_PAIRS = ("features", "X", "embeddings")
_PAIR_LABELS = ("labels.npy", "y.npy", "labels.csv", "labels.txt", "items.csv")
_EXPECTED = ".npz, .npy, .csv, .tsv, .parquet, .svm, a folder of features, or - for CSV on standard input"


def read_table(
    source: StrPath,
    *,
    labels: StrPath | None = None,
    label_column: str | None = None,
    features: str | None = None,
    names: bool = True,
    id_column: str | None = None,
    metadata: Sequence[str] = (),
) -> Table:
    """Read rows and labels from `source`.

    Parameters
    ----------
    source : a `.npz`, `.npy`, `.csv`, `.tsv`, `.parquet` or svmlight file (`.svm`, `.svmlight`, `.libsvm`, also with
        `.gz`), a folder of features, "-" for CSV on stdin
    labels : a file of labels, one per row, used in place of those in `source`
    label_column : the column or key that holds the labels, if it is not called label, y, target or class
    features : the column or key that holds the features, where there is a choice
    names : False leaves out the names of the rows of a feature store, which take more memory than their labels, and
        the columns of a CSV that are no features
    id_column : the column that holds the ids, if it is not called id
    metadata : columns of numbers that are no features, of a CSV, or of a Parquet file without a column of lists

    Examples
    --------
    >>> import io, sys
    >>> sys.stdin = io.StringIO("width,height,label\\n1,2,cat\\n3,4,dog\\n")
    >>> table = read_table("-")
    >>> table.X.shape, table.y.tolist()
    ((2, 2), ['cat', 'dog'])
    """
    # A label column that belongs to the labels file is not looked for in the data.
    table = _read(
        source, features, CsvOptions(None if labels is not None else label_column, id_column, metadata, names)
    )
    if labels is None:
        return table
    return replace(table, y=read_labels(labels, label_column), known={**table.known, "label": str(labels)})


def _read(source: StrPath, features: str | None, options: CsvOptions) -> Table:
    if os.fspath(source) == "-":
        return read_csv(standard_input(), "standard input", options=options)
    path = Path(source)
    suffix = path.suffix.lower()
    if not path.exists():
        raise LikewiseError(f"{path} does not exist")
    if path.is_dir() and not is_store(path):
        return _read_folder(path)
    if path.is_dir():
        store = FeatureStore.open(path) if options.keep else None
        X, y = read_rows(path) if store is None else (store.features, store.labels)
        names = None if store is None else list(map(str, store.paths))
        return Table(X, None if y is None else tidy_labels(y), names, str(path))
    if suffix in (".csv", ".tsv"):
        with opened(path) as file:
            return read_csv(file, str(path), "\t" if suffix == ".tsv" else None, options)
    if suffix == ".parquet":
        return read_parquet(path, features, options.label, options.id, options.metadata)
    if options.id is not None:
        raise LikewiseError(f"{path} has no columns: an id column is one of a .csv, .tsv or .parquet file")
    if suffix == ".npz":
        return read_npz(path, features, options.label)
    if suffix == ".npy":
        return read_npy(path)
    if is_svmlight(path):
        return read_svmlight(path)
    raise LikewiseError(f"{path} ends with {path.suffix or 'nothing'}: expected {_EXPECTED}")


def standard_input() -> TextIO:
    """Standard input, unless it is closed."""
    if sys.stdin is None or sys.stdin.closed:
        raise LikewiseError("standard input is closed: expected a table on it, or the name of a file instead of -")
    return sys.stdin


def _read_folder(path: Path) -> Table:
    """A folder that holds an array and its labels side by side."""
    array = next((path / f"{name}.npy" for name in _PAIRS if (path / f"{name}.npy").is_file()), None)
    if array is None:
        raise LikewiseError(f"{path} is a folder without features.npy: expected {_EXPECTED}")
    labels = next((path / name for name in _PAIR_LABELS if (path / name).is_file()), None)
    table = read_npy(array)
    return table if labels is None else replace(table, y=read_labels(labels))


def read_labels(path: StrPath, column: str | None = None) -> np.ndarray:
    """The labels in `path`, in its order."""
    path = Path(path)
    if not path.is_file():
        raise LikewiseError(f"the labels file {path} does not exist")
    suffix = path.suffix.lower()
    if suffix == ".npy":
        y = mapped(path)
        if y.ndim != 1:
            raise LikewiseError(f"{path} has shape {y.shape}: expected one label per row")
        return tidy_labels(np.array(y))
    if suffix in (".csv", ".tsv"):
        return tidy_labels(_labels_of_csv(path, column))
    if suffix in (".txt", ""):
        with opened(path) as file:
            return tidy_labels([line.strip() for line in file])
    raise LikewiseError(f"the labels file {path} ends with {suffix}: expected .npy, .csv, .tsv or .txt")


def _labels_of_csv(path: Path, column: str | None) -> list[str]:
    with opened(path) as file:
        rows = [row for row in rows_of(file, str(path)) if row]
    if not rows:
        raise LikewiseError(f"the labels file {path} is empty")
    first = [cell.strip() for cell in rows[0]]
    named = named_column(path, first, column)
    if named is None and len(first) > 1:
        raise LikewiseError(f"{path} has the columns {', '.join(first)}: name one with --label-column")
    place, header = (0, 0) if named is None else (first.index(named), 1)
    short = next((i for i, row in enumerate(rows, start=1) if len(row) <= place), None)
    if short is not None:
        raise LikewiseError(f"row {short} of {path} has no cell {place + 1}, where its label should be")
    return [row[place].strip() for row in rows[header:]]


def is_svmlight(path: Path) -> bool:
    """Whether a name ends as such files do, compressed or not."""
    name = Path(path.stem if path.suffix.lower() in (".gz", ".bz2") else path)
    return name.suffix.lower() in (".svm", ".svmlight", ".libsvm")


def read_svmlight(path: Path) -> Table:
    """Rows as CSR in float32, and the label that begins each line; columns are counted from 1, unless there is a 0."""
    from sklearn.datasets import load_svmlight_file

    try:
        X, y = load_svmlight_file(path, dtype=np.float32, zero_based=True)
    except (ValueError, OSError, EOFError, OverflowError, zlib.error) as error:
        raise FileFormatError(f"{path} is not an svmlight file, or it is damaged: {error}") from error
    if not X.nnz:
        raise LikewiseError(f"{path} has no column:value pair: expected lines such as 1 3:0.5 7:2")
    check_width(X.shape[1], str(path))
    notes: list[str] = []
    if X.indices.min() > 0:
        X = X[:, 1:]
    else:
        notes.append(f"{path}: its columns are counted from 0; files to compare it with must be as well")
    checked_rows(X, str(path), notes)
    return Table(sp.csr_array(X), tidy_labels(y), None, str(path), notes)


def widened(table: Table, width: int) -> Table:
    """The table with as many columns as a model expects: the file does not store empty last columns."""
    n, d = table.X.shape
    if not is_svmlight(Path(table.source)) or d >= width:
        return table
    X = sp.csr_array((table.X.data, table.X.indices, table.X.indptr), shape=(n, width))
    return replace(table, X=X)
