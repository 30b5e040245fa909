"""The one way in: from whatever holds rows and labels to an engine over them."""

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from likewise.errors import LikewiseError
from likewise.learn.engines.disk import DEFAULT_LIMIT, DiskEngine, in_bytes
from likewise.learn.maths.engine import Engine, MemoryEngine
from likewise.learn.maths.labels import encode_labels, row_weights, with_every_label
from likewise.rows.parquet import is_parquet, streamed_parquet
from likewise.rows.reading import read_table
from likewise.rows.sources import NpyFile, spooled
from likewise.rows.store import FeatureStore, is_store, read_rows
from likewise.rows.table import Table, tidy_labels
from likewise.utils.arrays import check_magnitude, is_foreign, to_host
from likewise.utils.validation import NUMERIC_ROWS, check_X_y, feature_names, is_missing

Labels = tuple[np.ndarray, np.ndarray, np.ndarray | None]
"""Distinct labels sorted, the class of each row, and weights or None."""


@dataclass(frozen=True)
class Rows:
    """Labelled rows, opened: `fit` takes them as X.

    Attributes
    ----------
    engine : the rows, sorted by label, and the sums over them that a fit asks for.
    classes : the distinct labels, sorted.
    where : "memory", "disk", "dask" or "array", an array of another library or bound for a device.
    given_codes : the class of each row of X, in the order of X.
    given_rows : the row of X at each place of the label order.
    feature_names : names of the columns, if X was a data frame.
    memory_limit : bytes that work on the rows may take.
    unlabelled : the rows of an array in memory that have no label, None without any.
    checkpoint : file that a fit keeps its state in, and is resumed from; None keeps none.
    """

    engine: Engine
    classes: np.ndarray
    where: str
    given_codes: np.ndarray
    given_rows: np.ndarray
    feature_names: np.ndarray | None = None
    memory_limit: int = DEFAULT_LIMIT
    checkpoint: Path | None = None
    unlabelled: Any = None

    @property
    def n_rows(self) -> int:
        """Rows that have a label and a positive weight."""
        return self.engine.shape[0]

    @property
    def n_features(self) -> int:
        return self.engine.shape[1]


def open_rows(
    X: Any,
    y: Any = None,
    sample_weight: Any = None,
    *,
    memory_limit: int | str | None = None,
    device: Any = None,
    checkpoint: str | os.PathLike[str] | None = None,
) -> Rows:
    """Open rows and labels where they are.

    Parameters
    ----------
    X : an array, dense or CSR, or a data frame; a `.npy` or Parquet file, a feature store, a memmap or blocks of rows
        (an iterable of them, or a function that returns one), which stay on disk; another file that `read_table` reads;
        a dask array, which stays on its cluster; or a torch tensor or other array-API array, which stays on its device
    y : one label per row; None takes those of the file or store, whose rows without a label are left out
    sample_weight : (n,) a row of weight w counts as w rows
    memory_limit : bytes, or a size such as "500MB", for rows on disk at a time, and for a kernel; None is 1 GB
    device : a torch device such as "cuda" to which blocks of an array are moved; None keeps X on its own device
    checkpoint : file that `SLR` writes after each iteration, and `SimilarityLearner` when it has chosen its settings; a
        fit goes on from an existing one

    Examples
    --------
    >>> import numpy as np
    >>> from likewise import SLR, open_rows
    >>> rows = open_rows(np.random.default_rng(0).standard_normal((60, 4)), np.arange(60) % 3)
    >>> rows.where, rows.n_rows, rows.n_features
    ('memory', 60, 4)
    >>> SLR(rank=2).fit(rows).n_features_in_
    4
    """
    limit = DEFAULT_LIMIT if memory_limit is None else in_bytes(memory_limit)
    if not (device is None or isinstance(device, str) or type(device).__module__ == "torch"):
        raise LikewiseError(f"device={device!r}: expected a torch device such as 'cuda', or None")
    if not isinstance(checkpoint, str | os.PathLike | None):
        raise LikewiseError(f"checkpoint={checkpoint!r}: expected the path of a file, or None")
    has_own_labels, (X, y) = y is None, _with_labels(X, y)
    place = where(X, device)
    if place in ("disk", "dask"):
        if device is not None:
            raise LikewiseError(f"X is {type(X).__name__}: device is for arrays in memory")
        rows = _distant_rows(X, y, sample_weight, memory_limit or DEFAULT_LIMIT, has_own_labels)
    elif place == "array":
        from likewise.learn.engines.array_api import ArrayEngine, array_labels

        classes, codes, weights = array_labels(X, y, sample_weight)
        engine = ArrayEngine(X, codes, len(classes), weights, device)
        rows = Rows(engine, classes, place, codes, engine.order)
    else:
        names = feature_names(X)
        y = to_host(y)
        filled = with_every_label(y)
        X, labels = check_X_y(X, filled, ensure_min_samples=2, **NUMERIC_ROWS)
        check_magnitude(X)
        rows = memory_rows(X, labels if filled is y else np.ravel(y), sample_weight, names)
    return replace(rows, memory_limit=limit, checkpoint=None if checkpoint is None else Path(checkpoint))


def memory_rows(
    X: Any, y: Any, sample_weight: Any, names: np.ndarray | None = None, fewest_used: float = np.inf
) -> Rows:
    """Rows that scikit-learn has checked; those without a label or with weight zero count as absent.

    A warning says how many have no label, unless the caller uses so many.
    """
    classes, codes = encode_labels(y, leaves_out=is_missing(np.ravel(y)).sum() < fewest_used)
    weights = row_weights(sample_weight, X, codes)
    order = np.argsort(codes, kind="stable")[(codes < 0).sum() :]
    order = order if weights is None else order[weights[order] > 0]
    # Sorted once: a block of rows is then a slice, not a copy.
    engine = MemoryEngine(X[order], codes[order], len(classes), None if weights is None else weights[order])
    unlabelled = X[codes < 0] if (codes < 0).any() else None
    return Rows(engine, classes, "memory", codes, order, names, unlabelled=unlabelled)


def where(X: Any, device: Any = None) -> str:
    """Where rows are, or would be after `open_rows` with this device: see `Rows.where`."""
    if is_out_of_core(X):
        return "dask" if _is_dask(X) else "disk"
    return "array" if device is not None or (not _is_numpy(X) and is_foreign(X)) else "memory"


def is_out_of_core(X: Any) -> bool:
    """Whether X is something else than an array in memory: a file, a store, a memmap, blocks or a dask array."""
    if isinstance(X, np.memmap):
        return NpyFile.of_memmap(X) is not None
    if _is_numpy(X):
        return False
    return isinstance(X, str | os.PathLike | NpyFile | FeatureStore | Table) or _is_dask(X) or is_blocks(X)


def _with_labels(X: Any, y: Any) -> tuple[Any, Any]:
    """An array or a source of rows, and labels: y, or those that X has itself."""
    if isinstance(X, FeatureStore):
        return X.features, X.labels if y is None else y
    if isinstance(X, str | os.PathLike):
        X, y = _opened(X, y)
    if isinstance(X, Table):
        table = X if y is not None or is_out_of_core(X.X) else X.labelled()
        return table.X, table.y if y is None else y
    return X, y


def _opened(path: str | os.PathLike[str], y: Any) -> tuple[Any, Any]:
    """A `.npy` file, a feature store or the vectors of a Parquet file as a source of rows; any other as a table."""
    path = Path(path)
    if is_store(path):
        X, labels = read_rows(path)
        return X, labels if y is None else y
    if path.suffix.lower() == ".npy" or NpyFile.is_one(path):
        return NpyFile.open(path), y
    return (streamed_parquet(path) if is_parquet(path) else read_table(path)), y


def _distant_rows(X: Any, y: Any, sample_weight: Any, memory_limit: int | str, has_own_labels: bool) -> Rows:
    """Rows on disk, in blocks or on a cluster; one without a label, or of weight zero, counts as absent."""
    source, (classes, codes, weights) = _labelled_source(X, y, sample_weight, has_own_labels)
    if _is_dask(source):
        from likewise.learn.engines.dask import DaskEngine

        cluster = DaskEngine(source, codes, len(classes), weights)
        return Rows(cluster, classes, "dask", codes, cluster.order)
    engine = DiskEngine(source, codes, len(classes), weights, memory_limit)
    return Rows(engine, classes, "disk", codes, engine.order)


def _labelled_source(X: Any, y: Any, sample_weight: Any, has_own_labels: bool) -> tuple[Any, Labels]:
    """Where the rows are (a file, or a dask array), and their labels."""
    if y is None:
        raise LikewiseError("y is None, and X brings no labels of its own: give one label per row")
    y = np.asarray(y.compute() if _is_dask(y) else to_host(y))
    if y.ndim != 1:
        raise LikewiseError(f"y has shape {y.shape}: expected one label per row")
    source = _source(X)
    if source.shape[0] != len(y):
        raise LikewiseError(f"X has {source.shape[0]} rows and y {len(y)} labels: expected one per row")
    return source, _labels(y, sample_weight, has_own_labels)


def _source(X: Any) -> Any:
    X = spooled(X) if is_blocks(X) else X
    if isinstance(X, np.memmap):
        return NpyFile.of_memmap(X)
    if _is_dask(X):
        from likewise.learn.engines.dask import whole_rows

        return whole_rows(X)
    return X


def _labels(y: np.ndarray, sample_weight: Any, from_file: bool) -> Labels:
    """Distinct labels, the class of each row, and weights, which are zero for rows without a label."""
    classes, codes = encode_labels(y, leaves_out=not from_file)
    labelled = codes >= 0
    if from_file or not labelled.all():  # a file's labels are text: whole numbers become numbers, as in every table
        names, classes = classes, np.unique(tidy_labels(classes))
        codes = np.where(labelled, np.searchsorted(classes, tidy_labels(names))[codes], -1)
    weights = row_weights(sample_weight, codes, codes)
    if labelled.all():
        return classes, codes.astype(np.int32), weights
    return classes, np.maximum(codes, 0).astype(np.int32), labelled * (1.0 if weights is None else weights)


def _is_numpy(X: Any) -> bool:
    return isinstance(X, np.ndarray) or sp.issparse(X)


def _is_dask(X: Any) -> bool:
    return type(X).__module__.startswith("dask.array")


def is_blocks(X: Any) -> bool:
    """A function that returns blocks, an iterable of them other than an array, or a list of matrices."""
    if isinstance(X, list | tuple):
        return bool(X) and all(isinstance(block, np.ndarray) and block.ndim == 2 for block in X)
    if isinstance(X, type) or any(hasattr(X, name) for name in ("shape", "__array__", "__dataframe__", "keys")):
        return False
    return callable(X) or isinstance(X, Iterable)
