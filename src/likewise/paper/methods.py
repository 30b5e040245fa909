"""The methods by name: what is fitted in every table, each as its authors recommend."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from likewise import baselines
from likewise.errors import LikewiseError
from likewise.paper.protocol import Budget, Settings
from likewise.paper.variants import variant

__all__ = ["Fitted", "Method", "default_methods", "fit", "method", "methods_from"]

IN_PAPER = ("Euclid", "LMNN", "FRML", "OASIS", "SLR")
ORDER = (*IN_PAPER[:4], "LDA", "SLR", "SLR-Fixed", "SLR-Whole", "SLR-G", "SLR-C", "AnchoredSLR")


@dataclass(frozen=True)
class Method:
    """An unfitted model by its name; `light` are parameters for a fit that only warms up compiled loops."""

    name: str
    model: Any
    light: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Fitted:
    """A fitted model, the setting it chose for itself, and how long it took."""

    model: Any
    setting: dict[str, Any]
    seconds: dict[str, float]


def default_methods(n_train: int, settings: Settings) -> list[str]:
    """All that are there, the sketched ones at half the rows."""
    m = default_size(n_train)
    names = [f"{name}-{m}" if name in ("SLR-G", "SLR-C") else name for name in ORDER]
    return [name for name in names if is_there(name)]


def default_size(n_train: int) -> int:
    """m where a name says none: about half of the rows, at most the 20,000 of the paper."""
    return int(min(float(f"{n_train / 2:.1g}"), 20_000))


def is_there(name: str) -> bool:
    """Whether this installation has the method."""
    if name == "AnchoredSLR":
        return _anchored() is not None
    return name.startswith("SLR") or hasattr(baselines, name)


def methods_from(text: str, n_train: int, settings: Settings) -> list[str]:
    """Names from a list with commas; case does not matter, and SLR-C-m takes the default m."""
    names = [part.strip() for part in text.split(",") if part.strip()]
    if not names:
        raise LikewiseError(f"--methods {text!r} names no method: expected some of {', '.join(ORDER)}")
    return list(dict.fromkeys(_spelled(name, n_train) for name in names))


def _spelled(name: str, n_train: int) -> str:
    known = {other.lower(): other for other in (*ORDER, *baselines.__all__) if other not in ("SLR-G", "SLR-C")}
    if name.lower() in known and is_there(known[name.lower()]):
        return known[name.lower()]
    match = re.fullmatch(r"slr-([gc])(-m|-\d+k?)?", name.lower())
    if match is None:
        raise LikewiseError(f"--methods: {name!r} is not a method here; expected some of {', '.join(ORDER)}")
    size = match[2] if match[2] and match[2] != "-m" else f"-{default_size(n_train)}"
    return f"SLR-{match[1].upper()}{size}"


def method(name: str, settings: Settings, budget: Budget, seed: int) -> Method:
    """The method at the paper's settings: rank, T and margins for all that have them."""
    if name == "AnchoredSLR":
        return Method(name, _anchored_model(seed))
    if name.startswith("SLR"):
        given: dict[str, Any] = {"n_iter": settings.n_iter, "margins": settings.margins, "random_state": seed}
        if name != "SLR-Whole":
            given["rank"] = settings.rank
        return Method(name, variant(name, **given))
    wanted, light = _rival_parameters(name, settings, budget)
    model = getattr(baselines, name)()
    known = model.get_params()
    wanted = {key: value for key, value in {**wanted, "random_state": seed}.items() if key in known}
    return Method(name, model.set_params(**wanted), {key: value for key, value in light.items() if key in known})


def _rival_parameters(name: str, settings: Settings, budget: Budget) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the paper set for a rival, and the little that warms it up."""
    if name == "OASIS":
        return {"n_steps": budget.oasis_steps}, {"n_steps": 300}
    if name == "FRML":
        return {"rank": settings.rank, "n_iter": budget.frml_steps}, {"n_iter": 20, "step": 0.1}
    if name == "LMNN":
        given = {"rank": settings.rank, "n_rounds": budget.lmnn_rounds, "grid_k": budget.lmnn_neighbours}
        return given, {"n_rounds": 1, "n_iter": 2, "k": 3, "mu": 0.5}
    return {}, {}


def fit(model: Any, X: np.ndarray, y: np.ndarray) -> Fitted:
    """Fit, and measure wall clock and processor time; the setting is whatever was "auto" and has been chosen."""
    began, cpu = time.perf_counter(), time.process_time()
    model.fit(X, y)
    seconds = {"fit_seconds": time.perf_counter() - began, "fit_cpu_seconds": time.process_time() - cpu}
    return Fitted(model, chosen(model), seconds)


def chosen(model: Any) -> dict[str, Any]:
    """Parameters that were left to the model, with the values it took, where these are numbers or words."""
    if hasattr(model, "setting_"):
        return {
            name: _plain(value)
            for name, value in model.setting_.items()
            if isinstance(_plain(value), int | float | str)
        }
    asked = [name for name, value in model.get_params(deep=False).items() if isinstance(value, str) and value == "auto"]
    taken = {name: _plain(getattr(model, f"{name}_", None)) for name in asked}
    return {name: value for name, value in taken.items() if isinstance(value, int | float | str)}


def at_setting(found: Method, setting: dict[str, Any]) -> Any:
    """The rival's model with the setting it chose, so that a fit searches no more; ours choose within their fit."""
    from sklearn.base import clone

    known = found.model.get_params() if hasattr(baselines, found.name) else {}
    return clone(found.model).set_params(**{key: value for key, value in setting.items() if key in known})


def warm_up(found: Method, X: np.ndarray, y: np.ndarray) -> None:
    """A small fit before the clock runs: compiling and loading are not training."""
    from sklearn.base import clone

    order = np.argsort(y, kind="stable")
    some = np.sort(np.concatenate([rows[:6] for rows in np.split(order, np.flatnonzero(np.diff(y[order])) + 1)[:10]]))
    if found.light:
        clone(found.model).set_params(**found.light).fit(X[some], y[some])


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


def _anchored_model(seed: int) -> Any:
    model = _anchored()
    if model is None:
        raise LikewiseError("AnchoredSLR is not part of this version of likewise")
    return model(random_state=seed)


def _anchored() -> Callable[..., Any] | None:
    import likewise

    return getattr(likewise, "AnchoredSLR", None)
