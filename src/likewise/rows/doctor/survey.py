"""The figures that `likewise.rows.doctor` is based on, from one pass over blocks of rows."""

from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import eigvalsh
from sklearn.preprocessing import StandardScaler
from sklearn.utils.sparsefuncs import mean_variance_axis

from likewise.rows.table import is_missing
from likewise.utils.arrays import dense

_BLOCK = 8_000_000  # numbers in a block: 64 MB as float64
_LARGEST_GRAM = 4096  # its eigenvalues take seconds, not minutes
_SAMPLE = 2048  # rows on which the rank is measured if the Gram matrix would be larger
_LARGEST_CLASS_TABLE = 20_000_000  # classes × columns for the search of the label among the features


@dataclass(frozen=True)
class Survey:
    """Counts and ranges of rows X and labels y; rows that are not finite are left out."""

    n: int
    d: int
    n_finite: int
    bad_rows: int
    bad_columns: int
    zero_rows: int
    duplicate_rows: int
    conflicting_rows: int
    norm_range: tuple[float, float]
    deviation_range: tuple[float, float]
    constant_columns: int
    duplicate_columns: int
    telling_columns: int
    rank: int | None
    rank_is_exact: bool
    condition: float | None
    unlabelled: int | None
    minus_one: int
    class_sizes: np.ndarray
    spellings: list[list[str]]

    @property
    def k(self) -> int:
        return len(self.class_sizes)


def survey(X: Any, y: np.ndarray | None) -> Survey:
    """One pass over the blocks of X, then its rank by a Gram matrix."""
    n, d = X.shape
    missing = np.ones(n, dtype=bool) if y is None else is_missing(y)
    classes, codes = _classes(y, missing)
    figures = _sparse_figures(X, codes, len(classes)) if sp.issparse(X) else _dense_figures(X, codes, len(classes))
    good = np.flatnonzero(figures.finite)
    rank, exact, condition = _rank(X, good)
    return Survey(
        n=n,
        d=d,
        n_finite=len(good),
        bad_rows=n - len(good),
        bad_columns=int(figures.bad_columns.sum()),
        zero_rows=int((figures.norms[good] == 0).sum()),
        **_repeats(figures.row_hashes[good], figures.norms[good] > 0, codes[good]),
        norm_range=_quantiles(figures.norms[good]),
        deviation_range=figures.deviation_range(),
        constant_columns=int(figures.constant().sum()),
        duplicate_columns=figures.duplicate_columns(),
        telling_columns=figures.telling_columns(),
        rank=rank,
        rank_is_exact=exact,
        condition=condition,
        unlabelled=None if y is None else int(missing.sum()),
        minus_one=_minus_ones(y, classes),
        class_sizes=np.bincount(codes[codes >= 0], minlength=len(classes)),
        spellings=_spellings(classes),
    )


def _dense_figures(X: np.ndarray, codes: np.ndarray, k: int) -> "_Figures":
    """From blocks of rows as float64, so that X need not fit in memory."""
    figures = _Figures(X.shape[0], X.shape[1], codes, k)
    step = max(1, _BLOCK // X.shape[1])
    for start in range(0, X.shape[0], step):
        rows = slice(start, min(start + step, X.shape[0]))
        # Adding zero turns -0 into 0, for the hashes.
        figures.take(rows, np.asarray(X[rows]).astype(np.float64) + 0.0)
    return figures


def _sparse_figures(X: Any, codes: np.ndarray, k: int) -> "_Figures":
    """From the stored values only, so that a wide sparse matrix is never made dense."""
    figures = _Figures(X.shape[0], X.shape[1], codes, k)
    X = sp.csr_array(X, dtype=np.float64, copy=True)
    X.sum_duplicates()
    rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    wrong = ~np.isfinite(X.data)
    figures.bad_columns[X.indices[wrong]] = True
    figures.finite[rows[wrong]] = False
    X.data[~figures.finite[rows]] = 0.0
    X.eliminate_zeros()
    figures.norms[:] = np.sqrt(X.multiply(X).sum(axis=1))
    figures.row_hashes[:] = [_hash(_stored(X, i)) for i in range(X.shape[0])]
    figures.take_sparse_columns(X)
    return figures


class _Figures:
    """Figures on rows and columns, collected block by block."""

    def __init__(self, n: int, d: int, codes: np.ndarray, k: int) -> None:
        self.finite = np.ones(n, dtype=bool)
        self.norms = np.zeros(n)
        self.row_hashes = np.zeros(n, dtype=np.uint64)
        self.bad_columns = np.zeros(d, dtype=bool)
        self.low, self.high = np.full(d, np.inf), np.full(d, -np.inf)
        self.count, self.variance, self._scaler = 0, np.zeros(d), StandardScaler()
        self.column_hashes = [blake2b(digest_size=8) for _ in range(d)]
        self.codes, self.k = codes, k
        self.by_class = 2 <= k < n and k * d <= _LARGEST_CLASS_TABLE
        width = d if self.by_class else 0
        self.class_low, self.class_high = np.full((k, width), np.inf), np.full((k, width), -np.inf)

    def take(self, rows: slice, block: np.ndarray) -> None:
        wrong = ~np.isfinite(block)
        self.bad_columns |= wrong.any(axis=0)
        finite = ~wrong.any(axis=1)
        self.finite[rows] = finite
        block = block[finite]
        where = np.arange(rows.start, rows.stop)[finite]
        if not len(block):
            return
        self.norms[where] = np.linalg.norm(block, axis=1)
        self.row_hashes[where] = [_hash(row) for row in block]
        for digest, column in zip(self.column_hashes, np.ascontiguousarray(block.T), strict=True):
            digest.update(column)
        self.low = np.minimum(self.low, block.min(axis=0))
        self.high = np.maximum(self.high, block.max(axis=0))
        self._scaler.partial_fit(block)
        self.count += len(block)
        self.variance = self._scaler.var_
        if self.by_class:
            self._spread_by_class(block, self.codes[where])

    def _spread_by_class(self, block: np.ndarray, codes: np.ndarray) -> None:
        order = np.argsort(codes, kind="stable")
        order = order[codes[order] >= 0]
        present, starts = np.unique(codes[order], return_index=True)
        if len(present):
            sorted_rows = block[order]
            self.class_low[present] = np.minimum(self.class_low[present], np.minimum.reduceat(sorted_rows, starts))
            self.class_high[present] = np.maximum(self.class_high[present], np.maximum.reduceat(sorted_rows, starts))

    def take_sparse_columns(self, X: Any) -> None:
        """All figures on the columns of a sparse X; its rows that are not finite are empty."""
        X = X[np.flatnonzero(self.finite)]
        codes, self.count = self.codes[self.finite], X.shape[0]
        if not self.count:
            return
        self.low, self.high = X.min(axis=0).toarray().ravel(), X.max(axis=0).toarray().ravel()
        self.variance = mean_variance_axis(X, axis=0)[1]
        by_column = X.tocsc()
        for column, digest in enumerate(self.column_hashes):
            digest.update(_stored(by_column, column))
        for c in range(self.k if self.by_class else 0):
            members = X[np.flatnonzero(codes == c)]
            if members.shape[0]:
                self.class_low[c] = members.min(axis=0).toarray().ravel()
                self.class_high[c] = members.max(axis=0).toarray().ravel()

    def constant(self) -> np.ndarray:
        """Columns with one value in every row."""
        return (self.low == self.high) & (self.count > 1)

    def deviation_range(self) -> tuple[float, float]:
        """Smallest and largest deviation of the columns that vary."""
        varied = self.variance[~self.constant() & (self.variance > 0)]
        return (float(np.sqrt(varied.min())), float(np.sqrt(varied.max()))) if len(varied) else (0.0, 0.0)

    def duplicate_columns(self) -> int:
        """Columns that repeat an earlier one; constant columns are counted elsewhere."""
        digests = [
            digest.digest() for digest, still in zip(self.column_hashes, self.constant(), strict=True) if not still
        ]
        return len(digests) - len(set(digests))

    def telling_columns(self) -> int:
        """Columns with one value per class, and a different one in every class."""
        if not self.by_class or self.count == 0:
            return 0
        candidates = np.flatnonzero((self.class_low == self.class_high).all(axis=0))
        return sum(len(np.unique(self.class_low[:, column])) == self.k for column in candidates)


def _hash(row: Any) -> int:
    return int.from_bytes(blake2b(row, digest_size=8).digest(), "little")


def _stored(X: Any, i: int) -> bytes:
    """Indices and values stored for one row of a CSR matrix, or one column of a CSC matrix."""
    part = slice(X.indptr[i], X.indptr[i + 1])
    return X.indices[part].tobytes() + X.data[part].tobytes()


def _repeats(hashes: np.ndarray, nonzero: np.ndarray, codes: np.ndarray) -> dict[str, int]:
    """Rows equal to an earlier one, and rows equal to one with another label, without zero rows."""
    hashes, codes = hashes[nonzero], codes[nonzero]
    unique, group = np.unique(hashes, return_inverse=True)
    known = codes >= 0
    pairs = np.unique(np.column_stack([group[known], codes[known]]), axis=0)
    labels_in_group = np.bincount(pairs[:, 0], minlength=len(unique))
    conflicting = int((labels_in_group[group[known]] > 1).sum())
    return {"duplicate_rows": len(hashes) - len(unique), "conflicting_rows": conflicting}


def _quantiles(norms: np.ndarray) -> tuple[float, float]:
    norms = norms[norms > 0]
    if not len(norms):
        return 0.0, 0.0
    low, high = np.quantile(norms, [0.01, 0.99])
    return float(low), float(high)


def _rank(X: Any, good: np.ndarray) -> tuple[int | None, bool, float | None]:
    """Rank and condition number by the eigenvalues of the smaller Gram matrix, in float64."""
    n, d = len(good), X.shape[1]
    if not n:
        return None, False, None
    exact = min(n, d) <= _LARGEST_GRAM
    if not exact:
        good = np.sort(np.random.default_rng(0).choice(good, _SAMPLE, replace=False))
    values = eigvalsh(_gram(X, good), overwrite_a=True, check_finite=False)
    # Eigenvalues below the rounding of the Gram matrix, or of the entries of X, count as zero, as in whitening.
    eps = np.finfo(X.dtype if X.dtype.kind == "f" else np.float64).eps
    floor = values[-1] * max(max(len(good), d) * np.finfo(np.float64).eps, float(8 * eps) ** 2)
    positive = values[values > max(floor, 0.0)]
    if not len(positive):
        return 0, exact, None
    return len(positive), exact, float(np.sqrt(positive[-1] / positive[0])) if exact else None


def _gram(X: Any, good: np.ndarray) -> np.ndarray:
    """XᵀX summed over blocks if X is tall, XXᵀ summed over blocks of columns if it is wide."""
    n, d = len(good), X.shape[1]
    side = min(n, d)
    G = np.zeros((side, side))
    step = max(1, _BLOCK // max(1, side))
    for start in range(0, max(n, d), step):
        stop = start + step
        block = X[good[start:stop]] if d <= n else X[good, start:stop] if sp.issparse(X) else X[:, start:stop][good]
        block = dense(block).astype(np.float64, copy=False)
        G += block.T @ block if d <= n else block @ block.T
    return G


def _classes(y: np.ndarray | None, missing: np.ndarray) -> tuple[list[Any], np.ndarray]:
    """The distinct labels, and the index of each row's label among them, -1 where it is missing."""
    codes = np.full(len(missing), -1)
    if y is None or missing.all():
        return [], codes
    present = y[~missing]
    # A mix of types cannot be sorted, but text can.
    classes, inverse = np.unique(present if present.dtype.kind != "O" else present.astype(str), return_inverse=True)
    codes[~missing] = inverse
    return classes.tolist(), codes


def _minus_ones(y: np.ndarray | None, classes: list[Any]) -> int:
    """How many rows have the label -1 while the others count up from 0: the usual mark of a missing label."""
    if y is None or y.dtype.kind not in "if" or len(classes) < 3 or -1 not in classes:
        return 0
    return int((y == -1).sum()) if min(value for value in classes if value != -1) >= 0 else 0


def _spellings(classes: list[Any]) -> list[list[str]]:
    """Groups of labels that differ only by case or blanks."""
    groups: dict[str, list[str]] = {}
    for name in classes:
        if isinstance(name, str):
            groups.setdefault(" ".join(name.casefold().split()), []).append(name)
    return [group for group in groups.values() if len(group) > 1]
