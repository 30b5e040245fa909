"""What is compared: every method by name, with the size up to which it is worth running."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from likewise.errors import LikewiseError

__all__ = ["KINDS", "Method", "Size", "check_names", "own_methods", "seen_methods", "select", "unseen_methods"]

KINDS = ("linear", "kernel", "posterior")
_OASIS_STEPS = 1_000_000
_OASIS_WORK = 4e12  # floating-point operations: a minute or less on one core, at any width


@dataclass(frozen=True)
class Size:
    """Rows, columns and classes to learn from, and up to how many rows a method of cost n² is run."""

    n: int
    d: int
    k: int
    small: int


@dataclass(frozen=True)
class Method:
    """A method by name; `make` builds it, unfitted, for a size and a seed, and `obstacle` says why it is not run.

    `scaled` methods are given standardised rows wherever AnchoredSLR would standardise them, so that none loses for
    the units of its columns alone.
    """

    name: str
    label: str
    kind: str
    make: Callable[[Size, int], Any]
    ours: bool = False
    scaled: bool = False
    obstacle: Callable[[Size], str | None] = lambda size: None
    remark: Callable[[Size], str | None] = lambda size: None


def seen_methods() -> list[Method]:
    """Methods for searching rows of the classes of training, from the plainest on."""
    from likewise import SLR, AnchoredSLR, baselines
    from likewise.comparison.stopping import StoppedSLR

    def kernelised(base: str) -> Callable[[Size, int], Any]:
        return lambda size, seed: baselines.Kernelised(base, random_state=seed)

    def anchored(**setting: Any) -> Callable[[Size, int], Any]:
        return lambda size, seed: AnchoredSLR(**setting, random_state=seed)

    return [
        Method("cosine", "cosine", "linear", lambda size, seed: baselines.Cosine()),
        Method("whitening", "whitening + cosine", "linear", _seeded(baselines.Whitening), scaled=True),
        Method("lda", "LDA + cosine", "linear", _seeded(baselines.LDA), scaled=True),
        Method("ridge", "ridge + cosine", "linear", _seeded(baselines.RidgeOneHot), scaled=True),
        Method("nca", "NCA", "linear", _seeded(baselines.NCA), scaled=True, obstacle=_too_large),
        Method("oasis", "OASIS", "linear", _oasis, scaled=True, remark=_fewer_steps),
        Method("slr-fixed", "SLR-Fixed", "linear", lambda size, seed: SLR(adaptive=False, random_state=seed)),
        Method("slr", "SLR", "linear", _seeded(StoppedSLR)),
        Method("anchored-linear", "AnchoredSLR (linear)", "linear", anchored(kernel="linear"), ours=True),
        Method("nystroem-lda", "Nyström + LDA + cosine", "kernel", kernelised("lda"), scaled=True),
        Method("nystroem-ridge", "Nyström + ridge + cosine", "kernel", kernelised("ridge"), scaled=True),
        Method("anchored", "AnchoredSLR", "kernel", anchored(), ours=True),
        Method("lda-posterior", "LDA posterior", "posterior", _seeded(baselines.LDAPosterior), scaled=True),
        Method("logistic", "logistic posterior", "posterior", _seeded(baselines.LogisticPosterior), scaled=True),
        Method("nystroem-logistic", "Nyström + logistic posterior", "posterior", kernelised("logistic"), scaled=True),
        Method(
            "svm", "RBF SVM posterior", "posterior", _seeded(baselines.SVMPosterior), scaled=True, obstacle=_too_large
        ),
        Method("anchored-posterior", "AnchoredSLR (posterior)", "posterior", anchored(output="posterior"), ours=True),
    ]


def unseen_methods() -> list[Method]:
    """Methods for searching rows of other classes than those of training, each chosen by holding out classes."""
    from likewise import AnchoredSLR, baselines

    def by_class(kind: type) -> Callable[[Size, int], Any]:
        return lambda size, seed: kind(holdout="classes", random_state=seed)

    def beside(base: str) -> Callable[[Size, int], Any]:
        return lambda size, seed: baselines.WithInput(base, random_state=seed)

    def anchored(size: Size, seed: int) -> Any:
        return AnchoredSLR(unseen_classes=True, random_state=seed)

    return [
        Method("cosine", "cosine", "linear", lambda size, seed: baselines.Cosine()),
        Method("whitening", "whitening + cosine", "linear", by_class(baselines.Whitening)),
        Method("rca", "RCA (WCCN) + cosine", "linear", by_class(baselines.RCA)),
        Method("lda", "LDA + cosine", "linear", by_class(baselines.LDA)),
        Method("lda-input", "LDA and input + cosine", "linear", beside("lda")),
        Method("ridge", "ridge + cosine", "linear", by_class(baselines.RidgeOneHot)),
        Method("ridge-input", "ridge and input + cosine", "linear", beside("ridge")),
        Method("anchored", "AnchoredSLR (unseen)", "linear", anchored, ours=True),
    ]


def own_methods(models: Mapping[str, Any]) -> list[Method]:
    """Estimators that the caller brings, as rivals; each is cloned before it is fitted."""
    from sklearn.base import clone

    return [
        Method(name, name, "linear", lambda size, seed, model=model: clone(model))  # type: ignore[misc]
        for name, model in models.items()
    ]


def select(methods: Sequence[Method], names: Sequence[str] | None) -> list[Method]:
    """The methods of these names, in their own order; None is all of them."""
    return [method for method in methods if names is None or method.name in names]


def check_names(names: Sequence[str] | None, known: Sequence[Method]) -> None:
    """Refuse a name that neither table knows."""
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
    return f"not run: {size.n:,} rows to learn from are more than small={size.small:,}"


def _oasis(size: Size, seed: int) -> Any:
    from likewise.baselines import OASIS

    return OASIS(n_steps=_oasis_steps(size), random_state=seed)


def _oasis_steps(size: Size) -> int:
    """A step costs some 4d² operations; no more steps than that makes bearable, and never below 10,000."""
    bearable = _OASIS_WORK / (4 * size.d**2)
    return int(min(_OASIS_STEPS, max(10_000, round(bearable, -3))))


def _fewer_steps(size: Size) -> str | None:
    steps = _oasis_steps(size)
    return None if steps == _OASIS_STEPS else f"{steps:,} steps in place of the usual {_OASIS_STEPS:,}"
