"""Labels and weights of rows: from what people have to class numbers and counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from likewise.data.relevance import Relevance
from likewise.data.shared_labels import SharedLabels
from likewise.errors import LikewiseError
from likewise.utils.arrays import to_host
from likewise.utils.validation import check_sample_weight

__all__ = ["distinct_labels", "encode_labels", "has_one_label_per_row", "is_unlabelled", "row_weights"]


def encode_labels(y: Any) -> tuple[np.ndarray, np.ndarray]:
    """The sorted distinct labels, at least two and not all distinct, and the class of each row."""
    classes, codes = distinct_labels(y)
    if len(classes) == 1:
        raise LikewiseError(f"y has one class only, {classes[0]!r}: a similarity is learned from at least two")
    if len(classes) == len(codes):
        raise LikewiseError(
            f"all {len(codes)} labels in y are distinct: no two rows are alike, so nothing can be learned"
        )
    return classes, codes


def distinct_labels(y: Any) -> tuple[np.ndarray, np.ndarray]:
    """The sorted distinct labels, and the class of each row."""
    y = np.asarray(y)
    _check_missing(y)
    try:
        classes, codes = np.unique(y, return_inverse=True)
    except TypeError as error:
        kinds = sorted({type(label).__name__ for label in y.tolist()})
        raise LikewiseError(f"y mixes labels of the types {', '.join(kinds)}: use one type for all") from error
    return classes, codes.ravel()


def is_unlabelled(y: np.ndarray) -> np.ndarray:
    """True where a row has no label: -1 among integers with at least two other labels, None or NaN among objects."""
    if y.dtype.kind == "i":
        unlabelled = y == -1
        return unlabelled if len(np.unique(y[~unlabelled])) > 1 else np.zeros(len(y), dtype=bool)
    if y.dtype.kind == "O":
        return np.array([label is None or label != label for label in y.tolist()], dtype=bool)
    return np.zeros(len(y), dtype=bool)


def has_one_label_per_row(y: Any) -> bool:
    """Whether y is one label per row, all of them known; labels that cannot be read count as that."""
    if isinstance(y, Relevance | SharedLabels) or sp.issparse(y):
        return False
    try:
        y = np.asarray(y)
    except (TypeError, ValueError):  # ragged, or on a device: whoever reads it raises its own error
        return True
    if y.ndim == 2:
        return bool(y.shape[1] == 1)
    return y.ndim != 1 or not is_unlabelled(y).any()


def _check_missing(y: np.ndarray) -> None:
    if y.dtype.kind == "f":
        missing = int(np.isnan(y).sum())
    elif y.dtype.kind == "O":
        missing = sum(label is None or label != label for label in y.tolist())
    else:
        return
    if missing:
        raise LikewiseError(f"y has {missing} missing labels (None or NaN): drop those rows or label them")


def row_weights(sample_weight: Any, X: Any, codes: np.ndarray) -> np.ndarray | None:
    """Weights of the rows, None if each is one; a row of weight zero counts as absent."""
    if sample_weight is None:
        return None
    weights = check_sample_weight(to_host(sample_weight), X, dtype=np.float64, ensure_non_negative=True)
    if len(np.unique(codes[weights > 0])) < 2:
        raise LikewiseError("sample_weight leaves fewer than two classes with a positive weight")
    return None if np.all(weights == 1.0) else np.asarray(weights)
