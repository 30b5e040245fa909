"""The methods of the tables by name, each as its authors recommend."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from likewise import baselines
from likewise.anchored import AnchoredSLR
from likewise.errors import LikewiseError
from likewise.paper.protocol import ProtocolSettings, TrainingBudget
from likewise.paper.variants import variant

__all__ = ["PaperMethod", "TimedFit", "default_methods", "fit", "method", "methods_from"]

IN_PAPER = ("Euclid", "LMNN", "FRML", "OASIS", "SLR")
ORDER = (*IN_PAPER[:4], "LDA", "SLR", "SLR-Fixed", "SLR-Whole", "SLR-G", "SLR-C", "AnchoredSLR")


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
    """All methods, the compressed ones with m of half the rows."""
    m = default_size(n_train)
    return [f"{name}-{m}" if name in ("SLR-G", "SLR-C") else name for name in ORDER]


def default_size(n_train: int) -> int:
    """Default m: about half of the rows, at most the 20,000 of the paper."""
    return int(min(float(f"{n_train / 2:.1g}"), 20_000))


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
    size = match[2] if match[2] and match[2] != "-m" else f"-{default_size(n_train)}"
    return f"SLR-{match[1].upper()}{size}"


def method(name: str, settings: ProtocolSettings, budget: TrainingBudget, seed: int) -> PaperMethod:
    """The method with the rank, T and margins of the settings, as far as it has them."""
    if name == "AnchoredSLR":
        return PaperMethod(name, AnchoredSLR(random_state=seed))
    if name.startswith("SLR"):
        given: dict[str, Any] = {"n_iter": settings.n_iter, "margins": settings.margins, "random_state": seed}
        if name != "SLR-Whole":
            given["rank"] = settings.rank
        return PaperMethod(name, variant(name, **given))
    wanted, light = _rival_parameters(name, settings, budget)
    model = getattr(baselines, name)()
    known = model.get_params()
    wanted = {key: value for key, value in {**wanted, "random_state": seed}.items() if key in known}
    return PaperMethod(name, model.set_params(**wanted), {key: value for key, value in light.items() if key in known})


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
    if hasattr(model, "setting_"):
        return {
            name: _plain(value)
            for name, value in model.setting_.items()
            if isinstance(_plain(value), int | float | str)
        }
    asked = [name for name, value in model.get_params(deep=False).items() if isinstance(value, str) and value == "auto"]
    taken = {name: _plain(getattr(model, f"{name}_", None)) for name in asked}
    return {name: value for name, value in taken.items() if isinstance(value, int | float | str)}


def at_setting(found: PaperMethod, setting: dict[str, Any]) -> Any:
    """A rival at the setting it chose, so that a fit does not search; our methods choose within their fit."""
    from sklearn.base import clone

    known = found.model.get_params() if hasattr(baselines, found.name) else {}
    return clone(found.model).set_params(**{key: value for key, value in setting.items() if key in known})


def warm_up(found: PaperMethod, X: np.ndarray, y: np.ndarray) -> None:
    """A small fit before timing: compiling and loading do not count as training."""
    from sklearn.base import clone

    order = np.argsort(y, kind="stable")
    some = np.sort(np.concatenate([rows[:6] for rows in np.split(order, np.flatnonzero(np.diff(y[order])) + 1)[:10]]))
    if found.light:
        clone(found.model).set_params(**found.light).fit(X[some], y[some])


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value
