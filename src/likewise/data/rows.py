"""Which engine a fit runs on, by what it is given: an array, a path or memmap, blocks, a dask array, a tensor."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from likewise.core.engine import Engine
from likewise.data.disk import DiskEngine
from likewise.data.labels import checked_weights, encode_labels
from likewise.data.memory import MemoryEngine
from likewise.data.sources import BlockStream, NpyFile, Source
from likewise.errors import LikewiseError
from likewise.tables.table import tidy_labels
from likewise.utils.arrays import is_foreign

__all__ = ["Opened", "elsewhere", "is_blocks", "labelled_source", "open_elsewhere", "open_engine"]


class Opened(NamedTuple):
    """An engine over the labelled rows, and the labels that its classes stand for."""

    engine: Engine
    classes: np.ndarray


def open_engine(model: Any, X: Any, y: Any, sample_weight: Any) -> Opened:
    """The engine for X; a row of weight zero, or of a store and without a label, is as if it were not there."""
    on_arrays = any(getattr(model, name, None) is not None for name in ("device", "tile_dtype"))
    if elsewhere(X, model):
        if on_arrays:
            raise LikewiseError(f"X is {type(X).__name__}: device and tile_dtype are for arrays in memory")
        return open_elsewhere(model, X, y, sample_weight)
    if hasattr(model, "device") and (on_arrays or is_foreign(X)) and model.compress != "gaussian":
        from likewise.data.array_api import open_arrays

        return Opened(*open_arrays(model, X, y, sample_weight))
    X, y = model._validated_for_fit(X, y)
    classes, codes = encode_labels(y)
    weights, there = checked_weights(sample_weight, X, codes)
    return Opened(MemoryEngine(X[there], codes[there], len(classes), weights), classes)


def elsewhere(X: Any, model: Any = None) -> bool:
    """Whether X is something other than an array in memory."""
    if isinstance(X, np.memmap):
        # a Gaussian sketch needs the rows in memory
        return getattr(model, "compress", None) != "gaussian" and NpyFile.of_memmap(X) is not None
    return isinstance(X, str | os.PathLike | NpyFile) or _is_store(X) or _is_dask(X) or is_blocks(X)


def open_elsewhere(model: Any, X: Any, y: Any, sample_weight: Any) -> Opened:
    """The engine for rows that are not in memory; sets the width that `model` was fitted on."""
    source, classes, codes, weights = labelled_source(X, y, sample_weight)
    model.n_features_in_ = int(source.shape[1])
    vars(model).pop("feature_names_in_", None)
    if _is_dask(source):
        from likewise.data.dask import DaskEngine

        return Opened(DaskEngine(source, codes, len(classes), weights), classes)
    limit = getattr(model, "memory_limit", None)
    return Opened(DiskEngine(source, codes, len(classes), weights, limit), classes)


def labelled_source(
    X: Any, y: Any = None, sample_weight: Any = None
) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray | None]:
    """Where the rows are (a `Source`, or a dask array), distinct labels, the class of each row, and weights or None."""
    own = y is None
    X, y = _opened(X, y)
    if y is None:
        raise LikewiseError("y is None, and X brings no labels of its own: give one label a row")
    y = np.asarray(y.compute() if _is_dask(y) else y)
    if y.ndim != 1:
        raise LikewiseError(f"y has shape {y.shape}: expected one label a row")
    source = X if not is_blocks(X) else BlockStream(X, len(y))
    if source.shape[0] != len(y):
        raise LikewiseError(f"X has {source.shape[0]} rows and y {len(y)} labels: expected one a row")
    return source, *_labels(y, sample_weight, own)


def _opened(X: Any, y: Any) -> tuple[Any, Any]:
    """A source (or a dask array, or blocks), and labels: those given, else the store's own."""
    if _is_store(X):
        X = X.path
    if isinstance(X, np.memmap):
        return NpyFile.of_memmap(X), y
    if _is_dask(X):
        from likewise.data.dask import whole_rows

        return whole_rows(X), y
    if not isinstance(X, str | os.PathLike):
        return X, y
    path = Path(X)
    if not path.is_dir():
        return NpyFile.open(path), y
    from likewise.data.store import read_labels, read_meta

    read_meta(path)
    return _store_rows(path), read_labels(path / "items.csv") if y is None else y


def _store_rows(path: Path) -> Source:
    return NpyFile.open(path / "features.npy")


def _labels(y: np.ndarray, sample_weight: Any, own: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Distinct labels, the class of each row, and weights, which are zero for rows without a label ("")."""
    labelled = y != "" if y.dtype.kind == "U" else np.ones(len(y), dtype=bool)
    classes, found = encode_labels(y[labelled])
    if own or not labelled.all():  # a file's labels are text: whole numbers become numbers, as in every table
        names, classes = classes, np.unique(tidy_labels(classes))
        found = np.searchsorted(classes, tidy_labels(names))[found]
    codes = np.zeros(len(y), dtype=np.int32)
    codes[labelled] = found
    given, there = checked_weights(sample_weight, codes, codes)
    if given is None and labelled.all():
        return classes, codes, None
    weights = np.zeros(len(y))
    weights[there] = 1.0 if given is None else given
    weights[~labelled] = 0.0
    return classes, codes, weights


def _is_store(X: Any) -> bool:
    from likewise.data.store import FeatureStore

    return isinstance(X, FeatureStore)


def _is_dask(X: Any) -> bool:
    return type(X).__module__.startswith("dask.array")


def is_blocks(X: Any) -> bool:
    """A function that gives blocks, an iterable of them that is no array, or a list of matrices."""
    if isinstance(X, list | tuple):
        return bool(X) and all(isinstance(block, np.ndarray) and block.ndim == 2 for block in X)
    if isinstance(X, type) or any(hasattr(X, name) for name in ("shape", "__array__", "__dataframe__", "keys")):
        return False
    return callable(X) or isinstance(X, Iterable)
