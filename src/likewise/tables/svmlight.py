"""svmlight (libsvm) files: a label and `column:value` pairs per line; rows stay sparse."""

from __future__ import annotations

import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from likewise.errors import FileFormatError, LikewiseError
from likewise.tables.table import Table, checked_rows, tidy_labels

__all__ = ["SVMLIGHT", "is_svmlight", "read_svmlight", "widened"]

SVMLIGHT = (".svm", ".svmlight", ".libsvm")


def is_svmlight(path: Path) -> bool:
    """Whether a name ends as such files do, compressed or not."""
    return Path(path.stem if path.suffix.lower() in (".gz", ".bz2") else path).suffix.lower() in SVMLIGHT


def read_svmlight(path: Path) -> Table:
    """Rows as CSR in float32, and the label that begins each line; columns are counted from 1, unless there is a 0."""
    from sklearn.datasets import load_svmlight_file

    try:
        X, y = load_svmlight_file(path, dtype=np.float32, zero_based=True)
    except (ValueError, OSError, EOFError, OverflowError, zlib.error) as error:
        raise FileFormatError(f"{path} is not an svmlight file, or it is damaged: {error}") from error
    if not X.nnz:
        raise LikewiseError(f"{path} has no column:value pair: expected lines such as 1 3:0.5 7:2")
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
