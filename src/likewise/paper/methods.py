"""The methods of the tables by name: the variants of SLR as in the paper, rivals as their authors recommend."""

import re
from typing import Any

import numpy as np
from sklearn.base import clone

from likewise import rivals
from likewise.errors import LikewiseError
from likewise.learn.maths.labels import rows_by_class
from likewise.learn.similarity import SimilarityLearner
from likewise.learn.slr import SLR
from likewise.paper.protocol import ProtocolSettings, TrainingBudget

ORDER = (
    "Euclid", "LMNN", "FRML", "OASIS", "LDA", "SLR", "SLR-Fixed", "SLR-Whole", "SLR-G", "SLR-C", "SimilarityLearner",
)  # fmt: skip
_VARIANTS: dict[str, dict[str, Any]] = {
    "SLR": {},
    "SLR-Fixed": {"adaptive": False},
    "SLR-Whole": {"rank": None, "adaptive": False},
}
# Parameters of a small fit that only triggers compilation.
_LIGHT: dict[str, dict[str, Any]] = {
    "OASIS": {"n_steps": 300},
    "FRML": {"n_iter": 20, "step": 0.1},
    "LMNN": {"n_rounds": 1, "n_iter": 2, "k": 3, "mu": 0.5},
}
_COMPRESS = {"G": "gaussian", "C": "sample"}


def variant(name: str, **parameters: Any) -> SLR:
    """An unfitted `SLR` for a name of the paper: SLR, SLR-Fixed, SLR-Whole, SLR-G-m or SLR-C-m.

    m is a number such as 2000 or 20k. As in the paper: no ridge, all T iterations, its starts; `parameters` override.

    >>> variant("SLR-C-20k").compress_size
    20000
    """
    settings = {"alpha": 0.0, "tol": 0.0, "init": "paper"}
    if name in _VARIANTS:
        return SLR(**{**settings, **_VARIANTS[name], **parameters})
    match = re.fullmatch(r"SLR-([GC])-(\d+)(k?)", name)
    if match is None or int(match[2]) == 0:
        raise LikewiseError(
            f"name={name!r} is not a variant of the paper: expected {', '.join(_VARIANTS)}, SLR-G-m or SLR-C-m"
        )
    sizes = {"compress": _COMPRESS[match[1]], "compress_size": int(match[2]) * (1000 if match[3] else 1)}
    return SLR(**{**settings, **sizes, **parameters})


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
    names = {other.lower(): other for other in (*ORDER, *rivals.__all__) if other not in ("SLR-G", "SLR-C")}
    if name.lower() in names:
        return names[name.lower()]
    match = re.fullmatch(r"slr-([gc])(-m|-\d+k?)?", name.lower())
    if match is None:
        raise LikewiseError(f"--methods: unknown method {name!r}; expected some of {', '.join(ORDER)}")
    half = int(min(float(f"{n_train / 2:.1g}"), 20_000))  # about half of the rows, at most the 20,000 of the paper
    size = match[2] if match[2] and match[2] != "-m" else f"-{half}"
    return f"SLR-{match[1].upper()}{size}"


def make(name: str, settings: ProtocolSettings, budget: TrainingBudget, seed: int) -> Any:
    """An unfitted model with the rank, T and margins of the settings, as far as it has them."""
    if name in ("Euclid", "Cosine"):
        return getattr(rivals, name)()
    if name == "SimilarityLearner":
        return SimilarityLearner(random_state=seed)
    rank = {} if name == "SLR-Whole" else {"rank": settings.rank}
    if name.startswith("SLR"):
        return variant(name, max_iter=settings.n_iter, margins=settings.margins, random_state=seed, **rank)
    parameters: dict[str, dict[str, Any]] = {
        "OASIS": {"n_steps": budget.oasis_steps},
        "FRML": {"n_iter": budget.frml_steps, **rank},
        "LMNN": {"n_rounds": budget.lmnn_rounds, "grid_k": budget.lmnn_neighbours, **rank},
    }
    return getattr(rivals, name)(**parameters.get(name, {}), random_state=seed)


def at_setting(name: str, model: Any, setting: dict[str, Any]) -> Any:
    """A rival at the setting it chose, so that a fit does not search; our methods choose within their fit."""
    parameters = model.get_params() if hasattr(rivals, name) else {}
    return clone(model).set_params(**{key: value for key, value in setting.items() if key in parameters})


def warm_up(name: str, model: Any, X: np.ndarray, y: np.ndarray) -> None:
    """A small fit before timing: compiling and loading do not count as training."""
    if name in _LIGHT:
        some = np.sort(np.concatenate([rows[:6] for rows in rows_by_class(y)[:10]]))
        clone(model).set_params(**_LIGHT[name]).fit(X[some], y[some])
