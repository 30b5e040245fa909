"""Sums over blocks of rows, for `partial_fit` and `merge`.

The Gram matrix and the sums of each class are additive, and the solution for the fixed label target depends on nothing
else: after any blocks in any order it is that of `fit` on all of their rows. The adaptive target depends on the scores
of all pairs, which no sum holds. For it a sample of the rows is kept, drawn evenly and never without a class; while no
row has been dropped the result is that of `fit`, afterwards each kept row represents its share of its class.
"""

import logging
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from sklearn.base import clone

from likewise.errors import LikewiseError
from likewise.learn.engines.memory import MemoryEngine
from likewise.learn.maths.labels import class_sums, distinct_labels, generator, has_one_label_per_row
from likewise.learn.maths.whitening import WhiteningMap, check_room, gram, whiten_gram
from likewise.utils.arrays import dense
from likewise.utils.validation import check_sample_weight

log = logging.getLogger("likewise")

KEPT_ROWS = 5000  # for the adaptive target, unless compress_size says otherwise


@dataclass(frozen=True)
class RunningSums:
    """What is kept of rows that were seen; a model has these as attributes such as `gram_`, and saves them.

    `added` names the fields that add up; a subclass says which of its own do.
    """

    added: ClassVar[tuple[str, ...]] = ("gram", "class_sums", "class_weights", "seen")

    classes: np.ndarray  # (c,) distinct labels
    gram: np.ndarray  # (q, q) of the rows, or of features of them
    class_sums: np.ndarray  # (c, q)
    class_weights: np.ndarray  # (c,) rows of each class, counted by weight
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
            vars(model).pop(f"{field.name}_", None)

    def plus(self, other: Self) -> Self:
        """Both together."""
        typed = [c for c in (self.classes, other.classes) if c.dtype.kind != "O"]
        if len({c.dtype.kind in "US" for c in typed}) > 1:
            raise LikewiseError("y has text labels in one block and numbers in another: use one type for all")
        classes = np.unique(np.concatenate([self.classes, other.classes]))
        one, two = self.over(classes), other.over(classes)
        return replace(one, **{name: getattr(one, name) + getattr(two, name) for name in self.added})

    def over(self, classes: np.ndarray) -> Self:
        """The same over more classes."""
        places = np.searchsorted(classes, self.classes)
        sums, weights = np.zeros((len(classes), self.class_sums.shape[1])), np.zeros(len(classes))
        sums[places], weights[places] = self.class_sums, self.class_weights
        return replace(self, classes=classes, class_sums=sums, class_weights=weights)

    def limited(self, model: Any) -> Self:
        """The same with no more rows kept than a model wants."""
        return self


@dataclass(frozen=True)
class Sums(RunningSums):
    """The sums of `SLR`, and some rows for the adaptive target."""

    kept: np.ndarray  # some rows
    kept_codes: np.ndarray
    kept_weights: np.ndarray
    kept_keys: np.ndarray  # the random numbers that chose them

    @classmethod
    def with_block(cls, model: Any, X: Any, y: Any, sample_weight: Any) -> "Sums":
        """The sums of a model with those of one more block."""
        check_room(X.shape[1], X.shape)
        before, size, seed = cls.of(model), _kept_rows(model), int(generator(model.random_state).integers(2**31))
        rng = np.random.default_rng([seed, 0 if before is None else before.seen])
        block = cls._of_rows(X, *distinct_labels(y), block_weights(X, sample_weight), rng, size)
        return block if before is None else before.plus(block).limited(model)

    @classmethod
    def _of_rows(
        cls, X: Any, classes: np.ndarray, codes: np.ndarray, weights: np.ndarray, rng: np.random.Generator, size: int
    ) -> "Sums":
        counted = np.flatnonzero(weights > 0)
        X, codes, weights, keys = X[counted], codes[counted], weights[counted], rng.random(len(counted))
        chosen = _chosen(keys, codes, size)
        sums = class_sums(X, codes, weights, len(classes)), np.bincount(codes, weights, minlength=len(classes))
        kept = dense(X[chosen]), codes[chosen], weights[chosen], keys[chosen]
        return cls(classes, gram(X, weights), *sums, len(counted), *kept)

    def plus(self, other: "Sums") -> "Sums":
        summed = super().plus(other)
        one, two = self.over(summed.classes), other.over(summed.classes)
        kept: dict[str, Any] = {name: np.concatenate([getattr(one, name), getattr(two, name)]) for name in _KEPT}
        return replace(summed, **kept)

    def over(self, classes: np.ndarray) -> "Sums":
        return replace(super().over(classes), kept_codes=np.searchsorted(classes, self.classes)[self.kept_codes])

    def limited(self, model: Any) -> "Sums":
        chosen = _chosen(self.kept_keys, self.kept_codes, _kept_rows(model))
        return replace(self, **{name: getattr(self, name)[chosen] for name in _KEPT})


_KEPT = ("kept", "kept_codes", "kept_weights", "kept_keys")


def block_weights(X: Any, sample_weight: Any) -> np.ndarray:
    """How many times each row of a block counts."""
    if sample_weight is None:
        return np.ones(X.shape[0])
    return np.asarray(check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True))


def has_two_classes(sums: RunningSums | None) -> bool:
    """Whether there is something to learn from; blocks of one class wait for another."""
    if sums is None:
        raise LikewiseError("solve: there is nothing to learn from, call partial_fit first")
    if np.count_nonzero(sums.class_weights) < 2:
        log.info("partial_fit has seen one class only: a similarity is learned once there are two")
        return False
    return True


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
        if not has_two_classes(sums):
            return None
        assert sums is not None
        if model.adaptive and not len(sums.kept):
            raise LikewiseError("adaptive=True needs rows, and none were kept: the blocks came with adaptive=False")
        return cls(sums)

    def whiten(self, alpha: float, width: int | None = None) -> WhiteningMap:
        """Whitening of all rows, from their Gram matrix alone."""
        G, shape = self._sums.gram, (self._sums.seen, self._sums.gram.shape[0])
        return whiten_gram(G.copy(order="F"), shape, self.dtype, alpha, lambda W: W.T @ G @ W).leading(width)

    def class_sums(self, L: np.ndarray) -> np.ndarray:
        return self._sums.class_sums @ L


def warn_of_fit(model: Any) -> None:
    """Say that a block after `fit` is the first one."""
    if model.__sklearn_is_fitted__() and not hasattr(model, "gram_"):
        log.warning("partial_fit after fit begins anew: fit keeps no sums that a block could be added to")


def check_partial(model: Any, y: Any) -> None:
    """Raise for what sums over blocks cannot give."""
    warn_of_fit(model)
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
    for name in ("n_features_in_", "feature_names_in_", "frequencies_"):
        if hasattr(a, name):
            setattr(merged, name, getattr(a, name))
    one.plus(two).limited(merged).store(merged)
    found: Model = merged.solve()
    return found


def _sums_to_merge(a: Any, b: Any) -> tuple[Any, Any]:
    one, two = (model._running_sums.of(model) if hasattr(model, "_running_sums") else None for model in (a, b))
    if one is None or two is None:
        name, model = ("a", a) if one is None else ("b", b)
        raise LikewiseError(
            f"merge: {name} is {type(model).__name__} without sums; only models built by partial_fit can be merged"
        )
    if type(a) is not type(b):
        raise LikewiseError(f"merge: a is {type(a).__name__} and b {type(b).__name__}: expected two of one class")
    aside = ("random_state", "verbose", "rows")  # they decide how a model is found, not which
    mine, yours = a.get_params(), b.get_params()
    differing = [name for name in mine if name not in aside and mine[name] != yours[name]]
    if differing:
        said = ", ".join(f"{name}={mine[name]!r} and {yours[name]!r}" for name in differing)
        raise LikewiseError(f"merge: the models differ in {said}; set the same parameters for both")
    if a.n_features_in_ != b.n_features_in_:
        raise LikewiseError(f"merge: a has {a.n_features_in_} features and b {b.n_features_in_}: expected one width")
    drawn = [np.asarray(getattr(model, "frequencies_", None), dtype=float) for model in (a, b)]
    if not np.array_equal(drawn[0], drawn[1], equal_nan=True):
        raise LikewiseError("merge: a and b have other random features: give both the same random_state")
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
