"""The table of methods that `compare`, the paper and the demo share, and how a fit is timed."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from sklearn.base import clone

from likewise import SLR, SimilarityLearner
from likewise import rivals as baselines
from likewise.errors import LikewiseError
from likewise.learn.choose.search import Params, Sides, search_grid

KINDS = ("linear", "kernel", "posterior")
_OASIS_STEPS = 1_000_000
_OASIS_WORK = 4e12  # floating-point operations: at most a minute on one core, for any width
# Seconds that methods took on 6,000 rows of 1,280 columns and 101 classes, on one core; 2 where nothing is said.
_SECONDS = {"cosine": 0.1, "lda-posterior": 3, "slr": 5, "anchored-linear": 5, "logistic": 9, "nystroem-lda": 15}
_SECONDS |= {"nystroem-ridge": 15, "kernel-ridge": 17, "anchored": 30, "neural": 40, "neural-posterior": 30, "nca": 60}
_SECONDS |= {"anchored-posterior": 40, "kernel-ridge-posterior": 35, "nystroem-logistic": 46, "oasis": 60, "svm": 60}


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

    `scaled` methods get the rows under the scaling that SimilarityLearner would choose, so that none loses only
    because of the units of the columns; others choose for themselves, or are meant to see the rows as they are.
    `indexed` ones rank by the model of an index of the gallery.
    """

    name: str
    label: str
    kind: str
    make: Callable[[Size, int], Any]
    ours: bool = False
    scaled: bool = False
    indexed: bool = False
    obstacle: Callable[[Size], str | None] = lambda size: None
    remark: Callable[[Size], str | None] = lambda size: None

    @property
    def cost(self) -> float:
        """Time to fit in comparison with other methods: cheap ones run first, and the time left is estimated."""
        return _SECONDS.get(self.name, 2.0)


def timed_fit(model: Any, X: Any, y: np.ndarray) -> dict[str, float]:
    """Fit, and return the wall-clock and processor time that it took."""
    began, cpu = time.perf_counter(), time.process_time()
    model.fit(X, y)
    return {"fit_seconds": time.perf_counter() - began, "fit_cpu_seconds": time.process_time() - cpu}


def chosen_setting(model: Any) -> dict[str, Any]:
    """The settings that the model chose, those of a model inside it included, where they are numbers or strings."""
    setting = getattr(model, "setting_", None)
    if setting is None:
        inner = getattr(model, "base_", None)
        setting = {name: getattr(inner, f"{name}_", None) for name in getattr(inner, "_grids", ())}
        searched = [name for name in getattr(model, "_grids", ()) if isinstance(getattr(model, name), str)]
        setting |= {name: getattr(model, f"{name}_", None) for name in searched if getattr(model, name) == "auto"}
    plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in setting.items()}
    return {name: value for name, value in plain.items() if isinstance(value, int | float | str)}


def seen_methods() -> list[MethodSpec]:
    """Methods for galleries of the classes of training, the simplest first."""

    def oasis(size: Size, seed: int) -> Any:
        return baselines.OASIS(n_steps=_oasis_steps(size), random_state=seed)

    posterior = _seeded(baselines.KernelRidge, output="posterior")
    return [
        MethodSpec("cosine", "cosine", "linear", lambda size, seed: baselines.Cosine()),
        _scaled("whitening", "whitening + cosine", "linear", baselines.Whitening),
        _scaled("lda", "LDA + cosine", "linear", baselines.LDA),
        _scaled("ridge", "ridge + cosine", "linear", baselines.RidgeOneHot),
        replace(_scaled("nca", "NCA", "linear", baselines.NCA), obstacle=_too_large),
        MethodSpec("oasis", "OASIS", "linear", oasis, scaled=True, remark=_fewer_steps),
        MethodSpec("slr-fixed", "SLR-Fixed", "linear", _seeded(SLR, adaptive=False)),
        MethodSpec("slr", "SLR", "linear", _seeded(StoppedSLR)),
        _ours("anchored-linear", "SimilarityLearner (linear)", "linear", kernel="linear"),
        _scaled("nystroem-lda", "Nyström + LDA + cosine", "kernel", baselines.Kernelised, base="lda"),
        _scaled("nystroem-ridge", "Nyström + ridge + cosine", "kernel", baselines.Kernelised, base="ridge"),
        MethodSpec("kernel-ridge", "kernel ridge + cosine", "kernel", _seeded(baselines.KernelRidge)),
        _scaled("neural", "neural head + cosine", "kernel", baselines.NeuralHead),
        _ours("anchored", "SimilarityLearner", "kernel"),
        _scaled("lda-posterior", "LDA posterior", "posterior", baselines.LDAPosterior),
        _scaled("logistic", "logistic posterior", "posterior", baselines.LogisticPosterior),
        _scaled(
            "nystroem-logistic", "Nyström + logistic posterior", "posterior", baselines.Kernelised, base="logistic"
        ),
        replace(_scaled("svm", "RBF SVM posterior", "posterior", baselines.SVMPosterior), obstacle=_too_large),
        MethodSpec("kernel-ridge-posterior", "kernel ridge posterior", "posterior", posterior),
        _scaled("neural-posterior", "neural posterior", "posterior", baselines.NeuralHead, output="posterior"),
        _ours("anchored-posterior", "SimilarityLearner (posterior)", "posterior", settings={"temperature": "auto"}),
    ]


def unseen_methods() -> list[MethodSpec]:
    """Methods for galleries of classes that are not in training, each tuned on held-out classes."""

    def by_class(kind: type) -> Callable[[Size, int], Any]:
        return _seeded(kind, holdout="classes")

    return [
        MethodSpec("cosine", "cosine", "linear", lambda size, seed: baselines.Cosine()),
        MethodSpec("whitening", "whitening + cosine", "linear", by_class(baselines.Whitening)),
        MethodSpec("rca", "RCA (WCCN) + cosine", "linear", by_class(baselines.RCA)),
        MethodSpec("lda", "LDA + cosine", "linear", by_class(baselines.LDA)),
        MethodSpec("lda-input", "LDA and input + cosine", "linear", _seeded(baselines.WithInput, base="lda")),
        MethodSpec("ridge", "ridge + cosine", "linear", by_class(baselines.RidgeOneHot)),
        MethodSpec("ridge-input", "ridge and input + cosine", "linear", _seeded(baselines.WithInput, base="ridge")),
        _ours("anchored", "SimilarityLearner (unseen)", "linear", settings={"share": 0.0}),
    ]


def mixed_methods() -> list[MethodSpec]:
    """Methods for galleries of classes that are in training and others: all, ours by an index of the gallery."""
    known = [replace(method, indexed=method.name == "anchored") for method in seen_methods()]
    names = {method.name for method in known}
    return [*known, *(method for method in unseen_methods() if method.name not in names)]


def own_methods(models: Mapping[str, Any]) -> list[MethodSpec]:
    """The caller's own estimators as further methods; each is cloned before it is fitted."""
    return [
        MethodSpec(name, name, "linear", lambda size, seed, model=model: clone(model))  # type: ignore[misc]
        for name, model in models.items()
    ]


def check_names(names: Sequence[str] | None, known: Sequence[MethodSpec]) -> None:
    """Raise on a name that is in neither table."""
    available = list(dict.fromkeys(method.name for method in known))
    for name in names or ():
        if name not in available:
            raise LikewiseError(f"methods has {name!r}, which is not known: expected some of {', '.join(available)}")
    if names is not None and not names:
        raise LikewiseError(f"methods is empty: expected None for all, or some of {', '.join(available)}")


def _seeded(kind: type, **setting: Any) -> Callable[[Size, int], Any]:
    return lambda size, seed: kind(**setting, random_state=seed)


def _scaled(name: str, label: str, kind: str, model: type, **setting: Any) -> MethodSpec:
    return MethodSpec(name, label, kind, _seeded(model, **setting), scaled=True)


def _ours(name: str, label: str, kind: str, **setting: Any) -> MethodSpec:
    return MethodSpec(name, label, kind, _seeded(SimilarityLearner, **setting), ours=True)


def _too_large(size: Size) -> str | None:
    if size.n <= size.small:
        return None
    return f"not run: {size.n:,} training rows are more than small={size.small:,}"


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
        grid = [{"max_iter": T} for T in ITERATIONS]
        codes = np.unique(y, return_inverse=True)[1]
        self.setting_ = search_grid(grid, self._candidates, X, codes, self.random_state).best_params
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
