"""Several labels per item: two items are alike if they share one."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from likewise.errors import LikewiseError


class SharedLabels:
    """An indicator of labels, (n, c), with one row per item; an item without any label is unlabelled.

    Parameters
    ----------
    Z : (n, c) matrix of zeros and ones, dense or sparse
    grade : {"jaccard"} or None, default=None
        None targets at least δ1 where a label is shared and at most δ2 elsewhere. "jaccard" targets the Jaccard
        index of the two sets of labels itself.
    """

    one_label_per_row = False

    def __init__(self, Z: Any, grade: str | None = None) -> None:
        if grade not in (None, "jaccard"):
            raise LikewiseError(f"grade={grade!r}: expected 'jaccard' or None")
        self.Z = _checked(Z)
        self.grade = grade

    @property
    def n_labels(self) -> np.ndarray:
        return np.asarray(np.diff(self.Z.indptr))

    def single(self) -> np.ndarray | None:
        """The one label of each item, -1 for none, if no item has two."""
        counts = self.n_labels
        if counts.max() > 1:
            return None
        codes = np.full(self.Z.shape[0], -1)
        codes[counts == 1] = self.Z.indices
        return codes

    def take(self, items: np.ndarray) -> "SharedLabels":
        return SharedLabels(self.Z[items], self.grade)

    def tile(self, rows: slice, columns: slice) -> sp.csr_array:
        """Targets of the pairs that share a label, from 0 to 1; other pairs are not stored."""
        shared = (self.Z[rows] @ self.Z[columns].T).tocsr()
        if self.grade is None:
            shared.data = np.ones_like(shared.data)
            return shared
        of_row = np.repeat(self.n_labels[rows], np.diff(shared.indptr))
        shared.data = shared.data / (of_row + self.n_labels[columns][shared.indices] - shared.data)
        return shared


def _checked(Z: Any) -> sp.csr_array:
    if not sp.issparse(Z):
        Z = np.asarray(Z)
        if Z.ndim != 2 or Z.dtype.kind not in "biuf":
            raise LikewiseError(f"y has shape {Z.shape} and dtype {Z.dtype}: expected labels, or an indicator (n, c)")
    Z = sp.csr_array(Z, dtype=np.float64)
    Z.sum_duplicates()
    Z.eliminate_zeros()
    if not np.all(Z.data == 1.0):
        odd = Z.data[Z.data != 1.0][0]
        raise LikewiseError(
            f"y is a matrix with the value {odd:g}: expected an indicator of zeros and ones, one column per label"
        )
    if not Z.nnz:
        raise LikewiseError("y is an indicator of zeros: no item has a label")
    return Z
