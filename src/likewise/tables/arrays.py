"""numpy files: `.npy`, memory-mapped, and `.npz`, dense or SciPy's sparse."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.lib import format as npy

from likewise.errors import FileFormatError, LikewiseError
from likewise.tables.table import LABEL_NAMES, Table, checked_rows, tidy_labels

__all__ = ["load_array", "read_npy", "read_npz"]

_FEATURE_KEYS = ("X", "features", "embeddings", "x", "data")
_NAME_KEYS = ("names", "paths", "files", "ids")
# Of the archives of scipy.sparse.save_npz, in all its formats.
_SPARSE_KEYS = {"format", "shape", "data", "_is_array", "indices", "indptr", "offsets", "coords", "row", "col"}


def load_array(path: Path) -> np.ndarray:
    """One array from a `.npy` file, memory-mapped; pickled objects are refused."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise FileFormatError(_why_not(path, ".npy", error)) from error
    if not isinstance(array, np.ndarray):
        raise FileFormatError(f"{path} is a .npz archive with the name of a .npy file: rename it")
    return array


def read_npy(path: Path) -> Table:
    """Rows from a `.npy` file; they stay on the disk until they are used."""
    notes: list[str] = []
    return Table(checked_rows(load_array(path), str(path), notes), source=str(path), notes=notes)


def read_npz(path: Path, features: str | None = None, label_column: str | None = None) -> Table:
    """Rows and labels from an `.npz` archive, under the keys people use or the ones given."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            return _from_archive(path, archive, features, label_column)
    except (zipfile.BadZipFile, ValueError, OSError, EOFError, AttributeError) as error:
        if isinstance(error, LikewiseError):
            raise
        raise FileFormatError(_why_not(path, ".npz", error)) from error


def _from_archive(path: Path, archive: Any, features: str | None, label_column: str | None) -> Table:
    keys = list(archive.files)
    if {"format", "shape", "data"} <= set(keys):
        return _from_sparse(path, archive, label_column)
    shapes = {key: _shape(archive, key) for key in keys}
    rows = _pick(path, shapes, features, _FEATURE_KEYS, "--features", matrix=True)
    y = _labels(path, archive, shapes, label_column)
    notes: list[str] = []
    X = checked_rows(archive[rows], f"{path}[{rows}]", notes)
    return Table(X, y, _names(archive, len(X)), str(path), notes)


def _from_sparse(path: Path, archive: Any, label_column: str | None) -> Table:
    """What `scipy.sparse.save_npz` wrote; labels may have been added under their usual keys."""
    X = sp.csr_array(sp.load_npz(path))
    shapes = {key: _shape(archive, key) for key in archive.files if key not in _SPARSE_KEYS}
    return Table(X, _labels(path, archive, shapes, label_column), _names(archive, X.shape[0]), str(path))


def _labels(path: Path, archive: Any, shapes: dict[str, int], label_column: str | None) -> np.ndarray | None:
    key = _pick(path, shapes, label_column, LABEL_NAMES, "--label-column", matrix=False)
    return None if key is None else tidy_labels(_vector(archive[key], f"{path}[{key}]"))


def _pick(
    path: Path,
    shapes: dict[str, int],
    asked: str | None,
    usual: tuple[str, ...],
    option: str,
    *,
    matrix: bool,
) -> str | None:
    """The key asked for, else a usual one, else the only array of the right kind."""
    if asked is not None:
        if asked not in shapes:
            raise LikewiseError(f"{path} has no key {asked!r}: it holds {_listed(shapes)}")
        return asked
    fitting = [key for key, ndim in shapes.items() if (ndim >= 2 if matrix else ndim == 1)]
    for key in usual:
        if key in fitting:
            return key
    if len(fitting) == 1:
        return fitting[0]
    if not fitting and not matrix:
        return None
    what = "the features" if matrix else "the labels"
    raise LikewiseError(f"{path} holds {_listed(shapes)}: name the key of {what} with {option}")


def _shape(archive: Any, key: str) -> int:
    """Number of dimensions, without reading the array."""
    with archive.zip.open(f"{key}.npy") as file:
        version = npy.read_magic(file)
        header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        return len(header(file)[0])


def _vector(y: np.ndarray, what: str) -> np.ndarray:
    if y.ndim == 2 and 1 in y.shape:
        y = y.ravel()
    if y.ndim != 1:
        raise LikewiseError(f"{what} has shape {y.shape}: expected one label per row")
    return y


def _names(archive: Any, n: int) -> list[str] | None:
    for key in _NAME_KEYS:
        if key in archive.files and archive[key].shape == (n,):
            return [str(value) for value in archive[key]]
    return None


def _listed(shapes: dict[str, int]) -> str:
    return ", ".join(f"{key} ({ndim}-D)" for key, ndim in shapes.items()) or "nothing"


def _why_not(path: Path, kind: str, error: Exception) -> str:
    if "pickle" in str(error).lower() or "object" in str(error).lower():
        return f"{path} holds pickled objects, which can run code: save numbers, and labels as text"
    return f"{path} is not a {kind} file, or it is truncated: {error}"
