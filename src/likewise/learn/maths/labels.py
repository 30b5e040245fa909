"""Labels: their class numbers, rows sorted and summed by class, draws by class, and the target that labels make.

A label that is None, NaN, "" or -1 is missing, for every estimator, metric and file: the row is unlabelled.
"""

import warnings
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from likewise.errors import LikewiseError
from likewise.utils.arrays import Array, dense, is_foreign, like, to_host, wide
from likewise.utils.validation import check_sample_weight, is_missing

MOST_DIRECTIONS = 1_000
Seed = int | np.random.RandomState | np.random.Generator | None
Runs = list[tuple[int, int, int]]  # ranges (begin, end, class) of rows of one class
Rectangle = tuple[slice, slice]
_LABELS = (str, int, float, np.integer, np.floating, np.bool_)  # what an array of objects may hold


def encode_labels(y: ArrayLike, *, leaves_out: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """The sorted distinct labels, at least two and not all distinct, and the class of each row: -1 if it has no label.

    A warning says how many rows have none, unless `leaves_out` is False: the caller has a use for them.
    """
    y = np.asarray(y).ravel()
    missing = is_missing(y)
    n, n_missing = len(y), int(missing.sum())
    if n and n_missing == n:
        raise LikewiseError(f'y has {n} rows and not one of them has a label: None, NaN, "" and -1 mean unlabelled')
    _check_kind(y[~missing])
    codes = np.full(n, -1)
    try:
        classes, codes[~missing] = np.unique(y[~missing], return_inverse=True)
    except TypeError as error:
        kinds = sorted({type(label).__name__ for label in y[~missing].tolist()})
        raise LikewiseError(f"y mixes labels of the types {', '.join(kinds)}: use one type for all") from error
    if len(classes) == 1:
        hint = "; -1 means unlabelled" if n_missing and y.dtype.kind in "if" else ""
        raise LikewiseError(
            f"y has one class only, {classes.tolist()[0]!r}: a similarity is learned from at least two{hint}"
        )
    if len(classes) == n - n_missing:
        raise LikewiseError(
            f"all {len(classes)} labels in y are distinct: no two rows are alike, so nothing can be learned"
        )
    if n_missing and leaves_out:
        verbs = "has no label and is" if n_missing == 1 else "have no label and are"
        warnings.warn(f"y: {n_missing} of {n} rows {verbs} left out", stacklevel=2)
    return classes, codes


def with_every_label(y: ArrayLike) -> ArrayLike:
    """y with a label that it has in place of missing ones, which scikit-learn's validation refuses."""
    try:
        labels = np.asarray(y)
        missing = is_missing(labels)
    except (TypeError, ValueError):  # ragged: the error is raised where y is read
        return y
    if labels.ndim not in (1, 2) or labels.size != len(labels) or missing.all() or not missing.any():
        return y
    return np.where(missing, labels[~missing][:1], labels)


def _check_kind(y: np.ndarray) -> None:
    """Raise for labels that a model file could not hold."""
    objects = y.tolist() if y.dtype.kind == "O" else []
    other = {type(label).__name__ for label in objects if not isinstance(label, _LABELS)}
    if y.dtype.kind not in "biufUSMO" or other:
        kind = sorted(other)[0] if other else str(y.dtype)
        raise LikewiseError(
            f"y has labels of the type {kind}: expected text, numbers or booleans; dates as NumPy's datetime64"
        )


def has_one_label_per_row(y: object) -> bool:
    """Whether y is one label per row; labels that cannot be read count as that."""
    if not getattr(y, "one_label_per_row", True) or sp.issparse(y):  # a Relevance, an indicator
        return False
    try:
        y = np.asarray(y)
    except (TypeError, ValueError):  # ragged, or on a device: the error is raised where y is read
        return True
    return bool(y.ndim != 2 or y.shape[1] == 1)


def row_weights(sample_weight: ArrayLike | None, X: Array, codes: np.ndarray) -> np.ndarray | None:
    """Weights of the rows, None if each is one; a row of weight zero counts as absent."""
    if sample_weight is None:
        return None
    weights = check_sample_weight(to_host(sample_weight), X, dtype=np.float64, ensure_non_negative=True)
    if len(np.unique(codes[(weights > 0) & (codes >= 0)])) < 2:
        raise LikewiseError("sample_weight leaves fewer than two classes with a positive weight")
    check_weights(weights)
    return None if np.all(weights == 1.0) else np.asarray(weights)


def check_weights(weights: np.ndarray) -> None:
    """Raise where sums of weights would overflow, or a row would count for nothing next to another."""
    some = weights[weights > 0]
    if len(some) and not (some.max() <= 1e12 and some.min() >= 1e-12):
        raise LikewiseError(
            f"sample_weight has values from {some.min():.1e} to {some.max():.1e}: expected zero, or between 1e-12 and "
            "1e12; divide all of them by their mean"
        )


@dataclass(frozen=True)
class LabelTarget:
    """Intervals from labels, for rows and columns that are both sorted by label."""

    on_host: ClassVar[bool] = True

    same: float = 1.0  # δ1 of the paper
    other: float = 0.0  # δ2
    adaptive: bool = True  # clamps the current scores to their intervals; False targets δ1 and δ2 themselves (Eqn. 2)
    same_weight: np.ndarray | None = None  # of the pairs of each class, relative to a pair of two classes; None is 1

    @classmethod
    def of_margins(cls, margins: Sequence[float], adaptive: bool) -> Self:
        if len(margins) != 2 or not margins[0] > margins[1]:
            raise LikewiseError(f"margins={margins!r}: expected (δ1, δ2) with δ1 > δ2, such as (1.0, 0.0)")
        return cls(float(margins[0]), float(margins[1]), adaptive)

    def fold_tile(
        self, S: np.ndarray, runs: Runs, starts: np.ndarray, first: int
    ) -> list[tuple[slice, slice, np.ndarray]]:
        """Overwrite a tile of scores by 2E - (S - δ2), E = S - clamp(S) how far each lies outside its interval.

        For two labels that is |S - δ2|, all that a pair costs here; the few blocks of one label are then put right, and
        their E returned. `runs` are the row ranges (begin, end, class) of the tile, `starts` the columns at which
        classes begin, `first` its column.
        """
        blocks = same_label_blocks(S.shape[1], runs, starts, first)
        of_one_label = [S[block].copy() for block, _ in blocks]
        if self.other:
            np.subtract(S, S.dtype.type(self.other), out=S)
        np.abs(S, out=S)
        for scores, (block, c) in zip(of_one_label, blocks, strict=True):
            S[block] = scores.dtype.type(self.other) - scores
            np.subtract(scores, scores.dtype.type(self.same), out=scores)
            np.minimum(scores, 0, out=scores)
            if self.same_weight is not None:
                scores *= scores.dtype.type(self.same_weight[c])
            S[block] += 2 * scores
        return [(*block, E) for E, (block, _) in zip(of_one_label, blocks, strict=True)]


def class_target(size: np.ndarray) -> np.ndarray:
    """The target of a row of each class, (C, C - 1): one-hot / √n_c, centred, without its constant direction.

    Columns of a Householder reflection that takes √n_c to the first axis: orthonormal, and centred over the rows as
    they are. RMS row norm 1; a class without rows has no target. Above `MOST_DIRECTIONS` classes the columns are so
    many random directions, between which classes are orthogonal but for ±1 / √1000: C - 1 of them would make rows to
    search by that are as wide as there are classes.
    """
    there = np.maximum(size, 0.0)
    v = np.sqrt(there / there.sum())
    if len(v) - 1 > MOST_DIRECTIONS:
        R = np.random.default_rng(0).standard_normal((len(v), MOST_DIRECTIONS))
        T = (R - np.outer(v, v @ R)) / np.sqrt(np.where(size > 0, size, np.inf))[:, None]
        return np.asarray(T * np.sqrt(there.sum() / np.sum(there[:, None] * T**2)))
    u = v.copy()
    u[0] += 1.0
    H = np.eye(len(v)) - np.outer(u, u) / u[0]  # |u|² = 2 u₀
    T = H[:, 1:] / np.sqrt(np.where(size > 0, size, np.inf))[:, None]
    return np.asarray(T * np.sqrt(there.sum() / max(len(v) - 1, 1)))


# -- Rows sorted by class, and sums over classes ----------------------------------------------------------------------


def label_runs(codes: np.ndarray) -> Runs:
    """Ranges (begin, end, class) of equal values in a sorted array."""
    edges = np.flatnonzero(np.diff(codes)) + 1
    begins, ends = np.concatenate([[0], edges]), np.concatenate([edges, [len(codes)]])
    return [(int(a), int(b), int(codes[a])) for a, b in zip(begins, ends, strict=True) if b > a]


def class_starts(codes: np.ndarray, n_classes: int) -> np.ndarray:
    """Where each class begins in a sorted array of classes: class c is [starts[c], starts[c + 1])."""
    return np.searchsorted(codes, np.arange(n_classes + 1))


def indicator(codes: np.ndarray, weights: np.ndarray | None, n_classes: int) -> sp.csr_array:
    """Z, (n, n_classes): the weight of each row in the column of its class. Zᵀ V are the class sums of rows V."""
    count = np.ones(len(codes)) if weights is None else weights
    return sp.csr_array((count, codes, np.arange(len(codes) + 1)), shape=(len(codes), n_classes))


def same_label_blocks(width: int, runs: Runs, starts: np.ndarray, first: int) -> list[tuple[Rectangle, int]]:
    """The rectangles of a tile where row and column have one label."""
    lowest = int(np.searchsorted(starts, first, side="right")) - 1
    blocks = []
    for a, b, c in runs[bisect_left(runs, lowest, key=lambda run: run[2]) :]:
        begin, end = max(int(starts[c]) - first, 0), min(int(starts[c + 1]) - first, width)
        if begin >= width:
            break
        if begin < end:
            blocks.append(((slice(a, b), slice(begin, end)), c))
    return blocks


_SUMMED = 1024  # rows of a tensor summed by one product: rows times their classes are held


def class_sums(
    V: Array, codes: np.ndarray, weights: np.ndarray | None, n_classes: int, L: np.ndarray | None = None
) -> np.ndarray:
    """Weighted sum of the rows of V, or of V L, in each class, (n_classes, r), in float64 on the host."""
    count = np.ones(len(codes)) if weights is None else weights
    if is_foreign(V):
        return _tensor_sums(V, codes, count, n_classes)
    sums = indicator(codes, count, n_classes).T @ (V.astype(np.float64, copy=False) if sp.issparse(V) else V)
    return np.asarray(dense(sums if L is None else sums @ L))


def _tensor_sums(V: Array, codes: np.ndarray, count: np.ndarray, n_classes: int) -> np.ndarray:
    """The same on the device of V, by products with the indicators of the classes that are present."""
    total = np.zeros((n_classes, V.shape[1]))
    for first in range(0, len(codes), _SUMMED):
        rows = slice(first, min(first + _SUMMED, len(codes)))
        present, places = np.unique(codes[rows], return_inverse=True)
        onehot = np.zeros((len(present), len(places)))
        onehot[places, np.arange(len(places))] = count[rows]
        part = wide(V[rows, :])
        total[present] += to_host(like(onehot, part) @ part)
    return total


def generator(random_state: Seed) -> np.random.Generator:
    """A generator from scikit-learn's kind of seed; None means seed 0, so that a fit can be repeated."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if random_state is None:
        return np.random.default_rng(0)
    return np.random.default_rng(check_random_state(random_state).randint(2**31))


def draw_landmarks(codes: np.ndarray, n_classes: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """Places of about `size` items in label order, every class in proportion and none without."""
    starts = class_starts(codes, n_classes)
    counts, share = np.diff(starts), min(1.0, size / len(codes))
    sizes = [min(max(1, round(share * count)), count) for count in counts.tolist()]
    return np.concatenate(_drawn(np.split(np.arange(starts[-1]), starts[1:-1]), sizes, rng))


def rows_by_class(codes: np.ndarray) -> list[np.ndarray]:
    """Row numbers of each class that has any, in the order of the classes."""
    order = np.argsort(codes, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)


def sample_rows(n: int, size: int | None, rng: np.random.Generator) -> np.ndarray:
    """`size` of n row numbers drawn at random, sorted; all of them if there are no more, or if size is None."""
    return np.sort(rng.permutation(n)[:size])


def sample_by_class(codes: np.ndarray, size: int | None, rng: np.random.Generator, least: int = 2) -> np.ndarray:
    """About `size` row numbers, sorted: every class in proportion, but with at least `least` rows if it has them."""
    if size is None or len(codes) <= size:
        return np.arange(len(codes))
    share = size / len(codes)
    return _by_class(codes, lambda m: max(least, round(share * m)), rng)


def stratified_holdout(
    codes: np.ndarray, share: float, rng: np.random.Generator, least: int = 1, spare: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers to learn from and held-out ones, both sorted.

    Of a class `share` is held out, but at least `least` rows, and at least `spare` stay; a class too small for both
    stays whole.
    """

    def held_of(m: int) -> int:
        return 0 if m < least + spare else min(max(least, round(share * m)), m - spare)

    held = _by_class(codes, held_of, rng)
    return np.setdiff1d(np.arange(len(codes)), held), held


def _by_class(codes: np.ndarray, size_of: Callable[[int], int], rng: np.random.Generator) -> np.ndarray:
    """So many rows of each class, by its size; sorted row numbers."""
    groups = rows_by_class(codes)
    parts = _drawn(groups, [size_of(len(rows)) for rows in groups], rng)
    return np.sort(np.concatenate(parts)) if parts else np.empty(0, dtype=np.intp)


def _drawn(groups: Sequence[np.ndarray], sizes: Iterable[int], rng: np.random.Generator) -> list[np.ndarray]:
    """As many of each group as its size says; groups of size 0 are skipped."""
    return [rng.permutation(rows)[:size] for rows, size in zip(groups, sizes, strict=True) if size]
