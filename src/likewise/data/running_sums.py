"""Learning from blocks of rows that come one after the other, and merging what was learned apart.

The Gram matrix and the sums of each class are additive, and the solution for the fixed label target depends on nothing
else: after any blocks in any order it is that of `fit` on all of their rows. The adaptive target depends on the scores
of all pairs, which no sum holds. For it a sample of the rows is kept, drawn evenly and never without a class; while no
row has been dropped the result is that of `fit`, afterwards each kept row stands for its share of its class.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.utils.validation import _check_sample_weight, validate_data

from likewise.core.class_sums import class_sums
from likewise.core.sampling import generator
from likewise.core.whitening import Whitening, check_room, gram, whiten_gram
from likewise.data.labels import distinct_labels
from likewise.data.memory import MemoryEngine
from likewise.errors import LikewiseError
from likewise.persistence import save_model
from likewise.supervision.lessons import is_plain

if TYPE_CHECKING:
    import os
    from pathlib import Path

__all__ = ["KEPT_ROWS", "PartialFits", "Sums", "merge"]

log = logging.getLogger("likewise")

KEPT_ROWS = 5000  # for the adaptive target, unless compress_size says otherwise


@dataclass(frozen=True)
class Sums:
    """What is kept of rows that have gone by.

    Attributes
    ----------
    gram : (d, d) XᵀX. class_sums : (n_classes, d). class_weights : (n_classes,) rows, counted by weight.
    kept, kept_codes, kept_weights : some rows with class and weight; kept_keys : the random numbers that chose them.
    seen : number of rows.
    """

    gram: np.ndarray
    class_sums: np.ndarray
    class_weights: np.ndarray
    kept: np.ndarray
    kept_codes: np.ndarray
    kept_weights: np.ndarray
    kept_keys: np.ndarray
    seen: int

    def over(self, places: np.ndarray, n_classes: int) -> Sums:
        """The same with class c at `places[c]` of `n_classes`."""
        sums, weights = np.zeros((n_classes, self.class_sums.shape[1])), np.zeros(n_classes)
        sums[places], weights[places] = self.class_sums, self.class_weights
        return Sums(
            self.gram, sums, weights, self.kept, places[self.kept_codes], self.kept_weights, self.kept_keys, self.seen
        )

    def plus(self, other: Sums, size: int) -> Sums:
        """Both together; at most about `size` rows are kept."""
        summed = {name: getattr(self, name) + getattr(other, name) for name in _ADDED}
        kept = {name: np.concatenate([getattr(self, name), getattr(other, name)]) for name in _KEPT}
        chosen = _chosen(kept["kept_keys"], kept["kept_codes"], size)
        return Sums(**summed, **{name: values[chosen] for name, values in kept.items()})


_ADDED = ("gram", "class_sums", "class_weights", "seen")
_KEPT = ("kept", "kept_codes", "kept_weights", "kept_keys")


class SumsEngine(MemoryEngine):
    """The sums of all rows, and the kept ones to sweep over, each standing for its share of its class."""

    def __init__(self, sums: Sums, dtype: np.dtype) -> None:
        n_classes = len(sums.class_weights)
        there = np.bincount(sums.kept_codes, sums.kept_weights, minlength=n_classes)
        share = np.divide(sums.class_weights, there, out=np.ones(n_classes), where=there > 0)
        weights = sums.kept_weights * share[sums.kept_codes]
        plain = bool(np.all(weights == 1.0))
        super().__init__(sums.kept.astype(dtype, copy=False), sums.kept_codes, n_classes, None if plain else weights)
        self._sums = sums

    def whiten(self, alpha: float) -> Whitening:
        """Whitening of all rows, from their Gram matrix alone."""
        G, shape = self._sums.gram, (self._sums.seen, self._sums.gram.shape[0])
        return whiten_gram(G.copy(order="F"), shape, self.dtype, alpha, lambda W: W.T @ G @ W)

    def class_sums(self, L: np.ndarray) -> np.ndarray:
        """Sums over all rows."""
        return self._sums.class_sums @ L


class PartialFits:
    """`partial_fit` for `SLR`; what it keeps are attributes such as `gram_`, which are saved with the model."""

    adaptive: bool
    prior: str | None
    compress: str | None
    compress_size: int | None
    init: str
    checkpoint: Any
    random_state: Any
    classes_: np.ndarray
    n_samples_: int

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None, *, solve: bool = True) -> Self:
        """Add a block of rows, and learn from all blocks so far.

        With `adaptive=False` the model is that of `fit` on the rows of all blocks, to rounding. With `adaptive=True`
        that is so while no more than `compress_size` (5,000 if None) rows have come; beyond, as many rows are kept,
        drawn evenly, and stand for the others. Classes may appear in any block.

        Parameters
        ----------
        solve : bool, default=True
            False only adds the block, which is cheap: pass True with the last one, or call `solve`.
        """
        self._validate_params()  # type: ignore[attr-defined]
        self._check_partial(y)
        before = None if not hasattr(self, "gram_") else self._sums()
        X, y = validate_data(
            self, X, y, reset=before is None, accept_sparse="csr", dtype=[np.float64, np.float32], order="C"
        )
        check_room(X.shape[1], X.shape)
        classes, codes = distinct_labels(y)
        block = self._block_sums(X, codes, len(classes), sample_weight, 0 if before is None else before.seen)
        dtype = X.dtype if before is None else np.result_type(X.dtype, before.kept.dtype)
        if before is not None:
            classes, (before, block) = _aligned([(self.classes_, before), (classes, block)])
            block = before.plus(block, self._kept_rows())
        self.classes_ = classes
        self._keep_sums(block, dtype)
        return self.solve() if solve else self

    def solve(self) -> Self:
        """Learn from the blocks so far; of one class only there is nothing to learn yet."""
        if not hasattr(self, "gram_"):
            raise LikewiseError("solve: there is nothing to learn from, call partial_fit first")
        sums = self._sums()
        if np.count_nonzero(sums.class_weights) < 2:
            log.info("partial_fit has seen one class only: a similarity is learned once there are two")
            return self
        if self.adaptive and not len(sums.kept):
            raise LikewiseError("adaptive=True needs rows, and none were kept: the blocks came with adaptive=False")
        model: Any = self
        model._learn(SumsEngine(sums, sums.kept.dtype), model._target())
        return self

    def save(self, path: str | os.PathLike[str], metrics: dict[str, float] | None = None) -> Path:
        """Write the model to one file, with its sums if it has any: `partial_fit` goes on after `load`."""
        if hasattr(self, "gram_"):
            return save_model(self, path, metrics)
        return super().save(path, metrics)  # type: ignore[misc]

    def __sklearn_is_fitted__(self) -> bool:
        """Sums alone are no model yet."""
        return hasattr(self, "components_")

    def _check_partial(self, y: Any) -> None:
        """What sums over blocks cannot give is refused in words."""
        if hasattr(self, "components_") and not hasattr(self, "gram_"):
            log.warning("partial_fit after fit begins anew: fit keeps no sums that a block could be added to")
        if self.prior is not None or not is_plain(y, None):
            what = "rows without a label, or many a row" if self.prior is None else f"prior={self.prior!r}"
            raise LikewiseError(f"{what}: what is known of pairs does not add up, partial_fit takes one label a row")
        if self.compress not in (None, "landmarks"):
            raise LikewiseError(
                f"compress={self.compress!r} draws from all rows at each step, and partial_fit keeps some only: "
                "set compress=None or 'landmarks'"
            )
        if self.init != "fixed":
            raise LikewiseError(f"init={self.init!r} starts from rows that are gone: partial_fit needs init='fixed'")
        if self.checkpoint is not None:
            raise LikewiseError("checkpoint has no meaning for partial_fit: save the model after a block instead")

    def _kept_rows(self) -> int:
        if not self.adaptive:
            return 0
        return KEPT_ROWS if self.compress_size is None else int(self.compress_size)

    def _block_sums(self, X: Any, codes: np.ndarray, n_classes: int, sample_weight: Any, seen: int) -> Sums:
        """The sums of one block."""
        weights = np.ones(X.shape[0])
        if sample_weight is not None:
            weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        there = np.flatnonzero(weights > 0)
        X, codes, weights = X[there], codes[there], weights[there]
        seed = int(generator(self.random_state).integers(2**31))
        keys = np.random.default_rng([seed, seen]).random(len(there))
        chosen = _chosen(keys, codes, self._kept_rows())
        rows = X[chosen].toarray() if sp.issparse(X) else X[chosen]
        return Sums(
            gram(X, weights),
            class_sums(X, codes, weights, n_classes),
            np.bincount(codes, weights, minlength=n_classes),
            rows,
            codes[chosen],
            weights[chosen],
            keys[chosen],
            len(there),
        )

    def _sums(self) -> Sums:
        return Sums(**{field.name: getattr(self, f"{field.name}_") for field in fields(Sums)})

    def _keep_sums(self, sums: Sums, dtype: np.dtype) -> None:
        for field in fields(Sums):
            setattr(self, f"{field.name}_", getattr(sums, field.name))
        self.kept_, self.n_samples_ = sums.kept.astype(dtype, copy=False), sums.seen

    def _forget_sums(self) -> None:
        for field in fields(Sums):
            vars(self).pop(f"{field.name}_", None)


Model = TypeVar("Model", bound=PartialFits)


def merge(a: Model, b: Model) -> Model:
    """The model that has seen the blocks of both: two models built by `partial_fit`, wherever each was built.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from likewise import SLR, merge
    >>> X, y = load_digits(return_X_y=True)
    >>> a, b = (SLR(9, adaptive=False).partial_fit(X[half], y[half]) for half in (slice(900), slice(900, None)))
    >>> merge(a, b).n_samples_
    1797
    """
    _check_mergeable(a, b)
    merged: Any = clone(a)
    merged.classes_, sums = _aligned([(a.classes_, a._sums()), (b.classes_, b._sums())])
    for name in ("n_features_in_", "feature_names_in_"):
        if hasattr(a, name):
            setattr(merged, name, getattr(a, name))
    both = sums[0].plus(sums[1], a._kept_rows())
    merged._keep_sums(both, both.kept.dtype)
    found: Model = merged.solve()
    return found


def _check_mergeable(a: Any, b: Any) -> None:
    for name, model in (("a", a), ("b", b)):
        if not hasattr(model, "gram_"):
            raise LikewiseError(
                f"merge: {name} is {type(model).__name__} without sums; only models built by partial_fit can be merged"
            )
    aside = ("random_state", "verbose", "rows")  # they decide how a model is found, not which
    mine, yours = a.get_params(), b.get_params()
    differing = [name for name in mine if name not in aside and mine[name] != yours[name]]
    if differing:
        said = ", ".join(f"{name}={mine[name]!r} and {yours[name]!r}" for name in differing)
        raise LikewiseError(f"merge: the models differ in {said}; set the same parameters for both")
    if a.n_features_in_ != b.n_features_in_:
        raise LikewiseError(f"merge: a has {a.n_features_in_} features and b {b.n_features_in_}: expected one width")


def _aligned(parts: list[tuple[np.ndarray, Sums]]) -> tuple[np.ndarray, list[Sums]]:
    """All classes, and each part's sums over them."""
    kinds = {"U" if classes.dtype.kind in "US" else "n" for classes, _ in parts if classes.dtype.kind != "O"}
    if len(kinds) > 1:
        raise LikewiseError("y has text labels in one block and numbers in another: use one type for all")
    classes = np.unique(np.concatenate([classes for classes, _ in parts]))
    return classes, [sums.over(np.searchsorted(classes, own), len(classes)) for own, sums in parts]


def _chosen(keys: np.ndarray, codes: np.ndarray, size: int) -> np.ndarray:
    """Places of the `size` rows of the smallest keys, and of the smallest key of each class; none for size 0.

    The keys are random, so this is an even sample; and the sample of two parts together is found in their samples.
    """
    if size == 0:
        return np.zeros(0, dtype=int)
    if len(keys) <= size:
        return np.arange(len(keys))
    order = np.argsort(keys, kind="stable")
    first = np.unique(codes[order], return_index=True)[1]
    return np.sort(order[np.union1d(np.arange(size), first)])
