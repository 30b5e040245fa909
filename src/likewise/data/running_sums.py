"""Sums over blocks of rows, for `SLR.partial_fit` and `merge`.

The Gram matrix and the sums of each class are additive, and the solution for the fixed label target depends on nothing
else: after any blocks in any order it is that of `fit` on all of their rows. The adaptive target depends on the scores
of all pairs, which no sum holds. For it a sample of the rows is kept, drawn evenly and never without a class; while no
row has been dropped the result is that of `fit`, afterwards each kept row represents its share of its class.
"""

import logging
from dataclasses import dataclass, fields
from typing import Any, Self, TypeVar

import numpy as np
from sklearn.base import clone

from likewise.core.labels import class_sums, distinct_labels, generator, has_one_label_per_row
from likewise.core.whitening import WhiteningMap, check_room, gram, whiten_gram
from likewise.data.memory import MemoryEngine
from likewise.errors import LikewiseError
from likewise.utils.arrays import dense
from likewise.utils.validation import check_sample_weight

log = logging.getLogger("likewise")

KEPT_ROWS = 5000  # for the adaptive target, unless compress_size says otherwise


@dataclass(frozen=True)
class Sums:
    """What is kept of rows that were seen; a model has these as attributes such as `gram_`, and saves them."""

    classes: np.ndarray  # (c,) distinct labels
    gram: np.ndarray  # (d, d) XᵀX
    class_sums: np.ndarray  # (c, d)
    class_weights: np.ndarray  # (c,) rows of each class, counted by weight
    kept: np.ndarray  # some rows
    kept_codes: np.ndarray
    kept_weights: np.ndarray
    kept_keys: np.ndarray  # the random numbers that chose them
    seen: int  # number of rows

    @classmethod
    def of(cls, model: Any) -> Self | None:
        """The sums of a model; None if it has none."""
        if not hasattr(model, "gram_"):
            return None
        return cls(**{field.name: getattr(model, f"{field.name}_") for field in fields(cls)})

    def store(self, model: Any) -> None:
        for field in fields(self):
            setattr(model, f"{field.name}_", getattr(self, field.name))
        model.n_samples_ = self.seen

    @classmethod
    def drop(cls, model: Any) -> None:
        for field in fields(cls):
            delattr(model, f"{field.name}_")

    @classmethod
    def with_block(cls, model: Any, X: Any, y: Any, sample_weight: Any) -> "Sums":
        """The sums of a model with those of one more block."""
        check_room(X.shape[1], X.shape)
        before, size, seed = cls.of(model), _kept_rows(model), int(generator(model.random_state).integers(2**31))
        weights = np.ones(X.shape[0])
        if sample_weight is not None:
            weights = check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        rng = np.random.default_rng([seed, 0 if before is None else before.seen])
        block = cls._of_rows(X, *distinct_labels(y), weights, rng, size)
        return block if before is None else before.plus(block, size)

    @classmethod
    def _of_rows(
        cls, X: Any, classes: np.ndarray, codes: np.ndarray, weights: np.ndarray, rng: np.random.Generator, size: int
    ) -> "Sums":
        counted = np.flatnonzero(weights > 0)
        X, codes, weights, keys = X[counted], codes[counted], weights[counted], rng.random(len(counted))
        chosen = _chosen(keys, codes, size)
        return cls(
            classes,
            gram(X, weights),
            class_sums(X, codes, weights, len(classes)),
            np.bincount(codes, weights, minlength=len(classes)),
            dense(X[chosen]),
            codes[chosen],
            weights[chosen],
            keys[chosen],
            len(counted),
        )

    def plus(self, other: "Sums", size: int) -> "Sums":
        """Both together; at most about `size` rows are kept."""
        typed = [c for c in (self.classes, other.classes) if c.dtype.kind != "O"]
        if len({c.dtype.kind in "US" for c in typed}) > 1:
            raise LikewiseError("y has text labels in one block and numbers in another: use one type for all")
        classes = np.unique(np.concatenate([self.classes, other.classes]))
        one, two = self._over(classes), other._over(classes)
        summed = {name: getattr(one, name) + getattr(two, name) for name in _ADDED}
        kept = {name: np.concatenate([getattr(one, name), getattr(two, name)]) for name in _KEPT}
        chosen = _chosen(kept["kept_keys"], kept["kept_codes"], size)
        return Sums(classes, **summed, **{name: values[chosen] for name, values in kept.items()})

    def _over(self, classes: np.ndarray) -> "Sums":
        """The same over more classes."""
        places = np.searchsorted(classes, self.classes)
        sums, weights = np.zeros((len(classes), self.class_sums.shape[1])), np.zeros(len(classes))
        sums[places], weights[places] = self.class_sums, self.class_weights
        kept = self.kept, places[self.kept_codes], self.kept_weights, self.kept_keys
        return Sums(classes, self.gram, sums, weights, *kept, self.seen)


_ADDED = ("gram", "class_sums", "class_weights", "seen")
_KEPT = ("kept", "kept_codes", "kept_weights", "kept_keys")


class SumsEngine(MemoryEngine):
    """The sums of all rows, and the kept ones to sweep over, each representing its share of its class."""

    def __init__(self, sums: Sums) -> None:
        n_classes = len(sums.classes)
        present = np.bincount(sums.kept_codes, sums.kept_weights, minlength=n_classes)
        share = np.divide(sums.class_weights, present, out=np.ones(n_classes), where=present > 0)
        weights = sums.kept_weights * share[sums.kept_codes]
        plain = bool(np.all(weights == 1.0))
        super().__init__(sums.kept, sums.kept_codes, n_classes, None if plain else weights)
        self._sums = sums

    @classmethod
    def of(cls, model: Any) -> Self | None:
        """The engine over the sums of a model; None as long as they have one class."""
        sums = Sums.of(model)
        if sums is None:
            raise LikewiseError("solve: there is nothing to learn from, call partial_fit first")
        if np.count_nonzero(sums.class_weights) < 2:
            log.info("partial_fit has seen one class only: a similarity is learned once there are two")
            return None
        if model.adaptive and not len(sums.kept):
            raise LikewiseError("adaptive=True needs rows, and none were kept: the blocks came with adaptive=False")
        return cls(sums)

    def whiten(self, alpha: float, width: int | None = None) -> WhiteningMap:
        """Whitening of all rows, from their Gram matrix alone."""
        G, shape = self._sums.gram, (self._sums.seen, self._sums.gram.shape[0])
        return whiten_gram(G.copy(order="F"), shape, self.dtype, alpha, lambda W: W.T @ G @ W).leading(width)

    def class_sums(self, L: np.ndarray) -> np.ndarray:
        return self._sums.class_sums @ L


def check_partial(model: Any, y: Any) -> None:
    """Raise for what sums over blocks cannot give."""
    if hasattr(model, "components_") and not hasattr(model, "gram_"):
        log.warning("partial_fit after fit begins anew: fit keeps no sums that a block could be added to")
    if model.prior is not None or not has_one_label_per_row(y):
        what = "unlabelled rows, or several labels per row" if model.prior is None else f"prior={model.prior!r}"
        raise LikewiseError(f"{what}: supervision of pairs does not add up, partial_fit takes one label per row")
    if model.compress not in (None, "landmarks"):
        raise LikewiseError(
            f"compress={model.compress!r} draws from all rows at each step, and partial_fit keeps only some: "
            "set compress=None or 'landmarks'"
        )
    if model.init != "fixed":
        raise LikewiseError(f"init={model.init!r} starts from rows that are gone: partial_fit needs init='fixed'")
    if model.checkpoint is not None:
        raise LikewiseError("checkpoint has no meaning for partial_fit: save the model after a block instead")


Model = TypeVar("Model")


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
    one, two = _sums_to_merge(a, b)
    merged: Any = clone(a)
    for name in ("n_features_in_", "feature_names_in_"):
        if hasattr(a, name):
            setattr(merged, name, getattr(a, name))
    one.plus(two, _kept_rows(a)).store(merged)
    found: Model = merged.solve()
    return found


def _sums_to_merge(a: Any, b: Any) -> tuple[Sums, Sums]:
    one, two = Sums.of(a), Sums.of(b)
    if one is None or two is None:
        name, model = ("a", a) if one is None else ("b", b)
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
    return one, two


def _kept_rows(model: Any) -> int:
    if not model.adaptive:
        return 0
    return KEPT_ROWS if model.compress_size is None else int(model.compress_size)


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
