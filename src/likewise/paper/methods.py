"""The methods of the tables by name: the variants of SLR as in the paper, rivals as their authors recommend."""

import re
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import clone

from likewise import rivals as baselines
from likewise.errors import LikewiseError
from likewise.learn.maths.labels import rows_by_class
from likewise.learn.similarity import SimilarityLearner
from likewise.learn.slr import SLR
from likewise.paper.protocol import ProtocolSettings, TrainingBudget

IN_PAPER = ("Euclid", "LMNN", "FRML", "OASIS", "SLR")
ORDER = (*IN_PAPER[:4], "LDA", "SLR", "SLR-Fixed", "SLR-Whole", "SLR-G", "SLR-C", "SimilarityLearner")
_VARIANTS: dict[str, dict[str, Any]] = {
    "SLR": {},
    "SLR-Fixed": {"adaptive": False},
    "SLR-Whole": {"rank": None, "adaptive": False},
}
_COMPRESS = {"G": "gaussian", "C": "sample"}


def variant(name: str, **parameters: Any) -> SLR:
    """An unfitted `SLR` for a name of the paper: SLR, SLR-Fixed, SLR-Whole, SLR-G-m or SLR-C-m.

    m is a number such as 2000 or 20k. As in the paper: no ridge, all T iterations, its starts; `parameters` override.

    >>> variant("SLR-C-20k").compress_size
    20000
    """
    settings = {"alpha": 0.0, "tol": 0.0, "init": "paper"}
    return SLR(**{**settings, **_named(name), **parameters})


def _named(name: str) -> dict[str, Any]:
    if name in _VARIANTS:
        return _VARIANTS[name]
    match = re.fullmatch(r"SLR-([GC])-(\d+)(k?)", name)
    if match is None or int(match[2]) == 0:
        raise LikewiseError(
            f"name={name!r} is not a variant of the paper: expected {', '.join(_VARIANTS)}, SLR-G-m or SLR-C-m"
        )
    return {"compress": _COMPRESS[match[1]], "compress_size": int(match[2]) * (1000 if match[3] else 1)}


@dataclass(frozen=True)
class PaperMethod:
    """A named, unfitted model; `light` are parameters for a small fit that only triggers compilation."""

    name: str
    model: Any
    light: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TimedFit:
    """A fitted model, the setting it chose, and the time it took."""

    model: Any
    setting: dict[str, Any]
    seconds: dict[str, float]


def default_methods(n_train: int) -> list[str]:
    """All methods in the order of the tables, the compressed ones with m of half the rows."""
    return [_spelled(name, n_train) for name in ORDER]


def methods_from(text: str, n_train: int) -> list[str]:
    """Method names from a comma-separated list, in any case; SLR-C-m has the default m."""
    names = [part.strip() for part in text.split(",") if part.strip()]
    if not names:
        raise LikewiseError(f"--methods {text!r} has no method: expected some of {', '.join(ORDER)}")
    return list(dict.fromkeys(_spelled(name, n_train) for name in names))


def _spelled(name: str, n_train: int) -> str:
    known = {other.lower(): other for other in (*ORDER, *baselines.__all__) if other not in ("SLR-G", "SLR-C")}
    if name.lower() in known:
        return known[name.lower()]
    match = re.fullmatch(r"slr-([gc])(-m|-\d+k?)?", name.lower())
    if match is None:
        raise LikewiseError(f"--methods: unknown method {name!r}; expected some of {', '.join(ORDER)}")
    half = int(min(float(f"{n_train / 2:.1g}"), 20_000))  # about half of the rows, at most the 20,000 of the paper
    size = match[2] if match[2] and match[2] != "-m" else f"-{half}"
    return f"SLR-{match[1].upper()}{size}"


def method(name: str, settings: ProtocolSettings, budget: TrainingBudget, seed: int) -> PaperMethod:
    """The method with the rank, T and margins of the settings, as far as it has them."""
    if name == "SimilarityLearner":
        return PaperMethod(name, SimilarityLearner(random_state=seed))
    if name.startswith("SLR"):
        rank = {} if name == "SLR-Whole" else {"rank": settings.rank}
        given = {"n_iter": settings.n_iter, "margins": settings.margins, "random_state": seed}
        return PaperMethod(name, variant(name, **given, **rank))
    wanted, light = _rival_parameters(name, settings, budget)
    model = getattr(baselines, name)()
    seeded = {"random_state": seed} if "random_state" in model.get_params() else {}
    return PaperMethod(name, model.set_params(**wanted, **seeded), light)


def _rival_parameters(
    name: str, settings: ProtocolSettings, budget: TrainingBudget
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parameters of the paper for a rival, and those of a small fit."""
    if name == "OASIS":
        return {"n_steps": budget.oasis_steps}, {"n_steps": 300}
    if name == "FRML":
        return {"rank": settings.rank, "n_iter": budget.frml_steps}, {"n_iter": 20, "step": 0.1}
    if name == "LMNN":
        given = {"rank": settings.rank, "n_rounds": budget.lmnn_rounds, "grid_k": budget.lmnn_neighbours}
        return given, {"n_rounds": 1, "n_iter": 2, "k": 3, "mu": 0.5}
    return {}, {}


def fit(model: Any, X: np.ndarray, y: np.ndarray) -> TimedFit:
    """Fit, measuring wall-clock and processor time; the setting are the values chosen for "auto" parameters."""
    began, cpu = time.perf_counter(), time.process_time()
    model.fit(X, y)
    seconds = {"fit_seconds": time.perf_counter() - began, "fit_cpu_seconds": time.process_time() - cpu}
    return TimedFit(model, chosen(model), seconds)


def chosen(model: Any) -> dict[str, Any]:
    """The parameters that the model chose itself, if their values are numbers or strings."""
    taken = getattr(model, "setting_", None)
    if taken is None:
        asked = [name for name, value in model.get_params(deep=False).items() if isinstance(value, str)]
        taken = {name: getattr(model, f"{name}_", None) for name in asked if getattr(model, name) == "auto"}
    plain = {name: value.item() if hasattr(value, "item") else value for name, value in taken.items()}
    return {name: value for name, value in plain.items() if isinstance(value, int | float | str)}


def at_setting(found: PaperMethod, setting: dict[str, Any]) -> Any:
    """A rival at the setting it chose, so that a fit does not search; our methods choose within their fit."""
    known = found.model.get_params() if hasattr(baselines, found.name) else {}
    return clone(found.model).set_params(**{key: value for key, value in setting.items() if key in known})


def warm_up(found: PaperMethod, X: np.ndarray, y: np.ndarray) -> None:
    """A small fit before timing: compiling and loading do not count as training."""
    if found.light:
        some = np.sort(np.concatenate([rows[:6] for rows in rows_by_class(y)[:10]]))
        clone(found.model).set_params(**found.light).fit(X[some], y[some])
