"""The methods that are compared, and up to which size each of them is run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import clone

from likewise import SLR, AnchoredSLR, baselines
from likewise.errors import LikewiseError
from likewise.selection.results import Params, Sides, search_grid

__all__ = ["KINDS", "MethodSpec", "Size", "check_names", "own_methods", "seen_methods", "select", "unseen_methods"]

KINDS = ("linear", "kernel", "posterior")
_OASIS_STEPS = 1_000_000
_OASIS_WORK = 4e12  # floating-point operations: at most a minute on one core, for any width


@dataclass(frozen=True)
class Size:
    """Rows, columns and classes to learn from, and the most rows for which a method of cost n² is run."""

    n: int
    d: int
    k: int
    small: int


@dataclass(frozen=True)
class MethodSpec:
    """A method by name; `make` builds it, unfitted, for a size and a seed; `obstacle` says why it is not run, if so.

    `scaled` methods get standardised rows where AnchoredSLR would standardise them, so that none loses only because
    of the units of the columns.
    """

    name: str
    label: str
    kind: str
    make: Callable[[Size, int], Any]
    ours: bool = False
    scaled: bool = False
    obstacle: Callable[[Size], str | None] = lambda size: None
    remark: Callable[[Size], str | None] = lambda size: None


def seen_methods() -> list[MethodSpec]:
    """Methods for galleries of the classes of training, the simplest first."""

    def kernelised(base: str) -> Callable[[Size, int], Any]:
        return lambda size, seed: baselines.Kernelised(base, random_state=seed)

    def anchored(**setting: Any) -> Callable[[Size, int], Any]:
        return lambda size, seed: AnchoredSLR(**setting, random_state=seed)

    return [
        MethodSpec("cosine", "cosine", "linear", lambda size, seed: baselines.Cosine()),
        MethodSpec("whitening", "whitening + cosine", "linear", _seeded(baselines.Whitening), scaled=True),
        MethodSpec("lda", "LDA + cosine", "linear", _seeded(baselines.LDA), scaled=True),
        MethodSpec("ridge", "ridge + cosine", "linear", _seeded(baselines.RidgeOneHot), scaled=True),
        MethodSpec("nca", "NCA", "linear", _seeded(baselines.NCA), scaled=True, obstacle=_too_large),
        MethodSpec("oasis", "OASIS", "linear", _oasis, scaled=True, remark=_fewer_steps),
        MethodSpec("slr-fixed", "SLR-Fixed", "linear", lambda size, seed: SLR(adaptive=False, random_state=seed)),
        MethodSpec("slr", "SLR", "linear", _seeded(StoppedSLR)),
        MethodSpec("anchored-linear", "AnchoredSLR (linear)", "linear", anchored(kernel="linear"), ours=True),
        MethodSpec("nystroem-lda", "Nyström + LDA + cosine", "kernel", kernelised("lda"), scaled=True),
        MethodSpec("nystroem-ridge", "Nyström + ridge + cosine", "kernel", kernelised("ridge"), scaled=True),
        MethodSpec("anchored", "AnchoredSLR", "kernel", anchored(), ours=True),
        MethodSpec("lda-posterior", "LDA posterior", "posterior", _seeded(baselines.LDAPosterior), scaled=True),
        MethodSpec("logistic", "logistic posterior", "posterior", _seeded(baselines.LogisticPosterior), scaled=True),
        MethodSpec(
            "nystroem-logistic", "Nyström + logistic posterior", "posterior", kernelised("logistic"), scaled=True
        ),
        MethodSpec(
            "svm", "RBF SVM posterior", "posterior", _seeded(baselines.SVMPosterior), scaled=True, obstacle=_too_large
        ),
        MethodSpec(
            "anchored-posterior", "AnchoredSLR (posterior)", "posterior", anchored(output="posterior"), ours=True
        ),
    ]


def unseen_methods() -> list[MethodSpec]:
    """Methods for galleries of classes that are not in training, each tuned on held-out classes."""

    def by_class(kind: type) -> Callable[[Size, int], Any]:
        return lambda size, seed: kind(holdout="classes", random_state=seed)

    def beside(base: str) -> Callable[[Size, int], Any]:
        return lambda size, seed: baselines.WithInput(base, random_state=seed)

    def anchored(size: Size, seed: int) -> Any:
        return AnchoredSLR(unseen_classes=True, random_state=seed)

    return [
        MethodSpec("cosine", "cosine", "linear", lambda size, seed: baselines.Cosine()),
        MethodSpec("whitening", "whitening + cosine", "linear", by_class(baselines.Whitening)),
        MethodSpec("rca", "RCA (WCCN) + cosine", "linear", by_class(baselines.RCA)),
        MethodSpec("lda", "LDA + cosine", "linear", by_class(baselines.LDA)),
        MethodSpec("lda-input", "LDA and input + cosine", "linear", beside("lda")),
        MethodSpec("ridge", "ridge + cosine", "linear", by_class(baselines.RidgeOneHot)),
        MethodSpec("ridge-input", "ridge and input + cosine", "linear", beside("ridge")),
        MethodSpec("anchored", "AnchoredSLR (unseen)", "linear", anchored, ours=True),
    ]


def own_methods(models: Mapping[str, Any]) -> list[MethodSpec]:
    """The caller's own estimators as further methods; each is cloned before it is fitted."""
    return [
        MethodSpec(name, name, "linear", lambda size, seed, model=model: clone(model))  # type: ignore[misc]
        for name, model in models.items()
    ]


def select(methods: Sequence[MethodSpec], names: Sequence[str] | None) -> list[MethodSpec]:
    """The methods of these names, in the order of `methods`; None selects all."""
    return [method for method in methods if names is None or method.name in names]


def check_names(names: Sequence[str] | None, known: Sequence[MethodSpec]) -> None:
    """Raise on a name that is in neither table."""
    available = list(dict.fromkeys(method.name for method in known))
    for name in names or ():
        if name not in available:
            raise LikewiseError(f"methods has {name!r}, which is not known: expected some of {', '.join(available)}")
    if names is not None and not names:
        raise LikewiseError(f"methods is empty: expected None for all, or some of {', '.join(available)}")


def _seeded(kind: type) -> Callable[[Size, int], Any]:
    return lambda size, seed: kind(random_state=seed)


def _too_large(size: Size) -> str | None:
    if size.n <= size.small:
        return None
    return f"not run: {size.n:,} training rows are more than small={size.small:,}"


def _oasis(size: Size, seed: int) -> Any:
    return baselines.OASIS(n_steps=_oasis_steps(size), random_state=seed)


def _oasis_steps(size: Size) -> int:
    """A step costs about 4d² operations: as many steps as the budget allows, and at least 10,000."""
    affordable = _OASIS_WORK / (4 * size.d**2)
    return int(min(_OASIS_STEPS, max(10_000, round(affordable, -3))))


def _fewer_steps(size: Size) -> str | None:
    steps = _oasis_steps(size)
    return None if steps == _OASIS_STEPS else f"{steps:,} steps instead of the usual {_OASIS_STEPS:,}"


ITERATIONS = (1, 2, 5, 10)  # ten are the paper's


class StoppedSLR:
    """SLR after the number of iterations that ranks held-out training rows best.

    Attributes
    ----------
    setting_ : the number of iterations, by name.
    model_ : SLR, learned from all rows.
    """

    def __init__(self, random_state: Any = None) -> None:
        self.random_state = random_state

    def fit(self, X: Any, y: np.ndarray) -> Self:
        """Choose on 30 % of each class, then learn from all rows."""
        grid = [{"n_iter": T} for T in ITERATIONS]
        self.setting_ = search_grid(grid, self._candidates, X, y, self.random_state).best_params
        self.model_ = self._model(self.setting_).fit(X, y)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """The gallery side of rows."""
        return self.model_.transform(X)

    def transform_query(self, X: Any) -> np.ndarray:
        """The query side of rows."""
        return self.model_.transform_query(X)

    def _candidates(self, X: Any, y: np.ndarray) -> Callable[[Params], Sides]:
        def sides(params: Params) -> Sides:
            model = self._model(params).fit(X, y)
            return lambda rows: (model.transform_query(rows), model.transform(rows))

        return sides

    def _model(self, params: Params) -> SLR:
        return SLR(**params, random_state=self.random_state)
