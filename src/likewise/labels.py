"""Labels of rows: from whatever people have to class numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from likewise.errors import LikewiseError

__all__ = ["encode_labels"]


def encode_labels(y: Any) -> tuple[np.ndarray, np.ndarray]:
    """The sorted distinct labels, and the number of each row's label among them."""
    y = np.asarray(y)
    _check_missing(y)
    try:
        classes, codes = np.unique(y, return_inverse=True)
    except TypeError as error:
        kinds = sorted({type(label).__name__ for label in y.tolist()})
        raise LikewiseError(f"y mixes labels of the types {', '.join(kinds)}: use one type for all") from error
    if len(classes) == 1:
        raise LikewiseError(f"y has one class only, {classes[0]!r}: a similarity is learned from at least two")
    if len(classes) == len(y):
        raise LikewiseError(f"all {len(y)} labels in y are distinct: no two rows are alike, so nothing can be learned")
    return classes, codes.ravel()


def _check_missing(y: np.ndarray) -> None:
    if y.dtype.kind == "f":
        missing = int(np.isnan(y).sum())
    elif y.dtype.kind == "O":
        missing = sum(label is None or label != label for label in y.tolist())
    else:
        return
    if missing:
        raise LikewiseError(f"y has {missing} missing labels (None or NaN): drop those rows or label them")
