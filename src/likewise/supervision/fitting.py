"""`SLR.fit` from relevance, partial or several labels, or a prior."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np

from likewise.core.labels import LabelTarget
from likewise.core.solvers import Solution
from likewise.data.rows import Rows, checked_options, is_out_of_core
from likewise.errors import LikewiseError
from likewise.supervision.learning import PairOptions, Prepared, learn, learn_from_prior
from likewise.supervision.prior import choose_strength
from likewise.supervision.reading import Supervision, read_supervision
from likewise.utils.arrays import to_host

__all__ = ["PairFit", "fit_pairs"]


class PairFit(NamedTuple):
    """What was learned: M, its precision, the width of the gallery side, and attributes of a fitted model."""

    solution: Solution
    dtype: np.dtype
    gallery_width: int
    unit_rows: bool
    attributes: dict[str, Any]


def fit_pairs(model: Any, X: Any, y: Any, sample_weight: Any, gallery: Any, target: LabelTarget) -> PairFit:
    """Learn M with the parameters of `model`; sets its `n_features_in_` and nothing else."""
    _check_parameters(model)
    if isinstance(X, Rows) or is_out_of_core(X) or is_out_of_core(gallery):
        raise LikewiseError(
            "X is not an array in memory: a relevance, several labels, unlabelled rows, a gallery or a prior need "
            "one; only one label per row is learned from anywhere"
        )
    given = read_supervision(model, to_host(X), to_host(y), to_host(sample_weight), to_host(gallery))
    options = PairOptions(**{field.name: getattr(model, field.name) for field in fields(PairOptions)})
    if model.prior is None:
        return _found(given, learn(given, target, options), False)
    if given.X.shape[1] != given.gallery.shape[1]:
        raise LikewiseError(
            f"prior={model.prior!r} needs two sides of one width: "
            f"X has {given.X.shape[1]} columns and gallery {given.gallery.shape[1]}"
        )
    prepared = Prepared.of(given, target)
    strength, tried = choose_strength(prepared, options)
    solution = learn_from_prior(prepared, strength, options)
    return _found(given, solution, model.sides == "both", strength_=strength, strengths_=tried)


def _found(given: Supervision, solution: Solution, unit_rows: bool, **more: Any) -> PairFit:
    attributes = {"n_samples_": given.X.shape[0], "classes_": given.classes, **more}
    known = {name: value for name, value in attributes.items() if value is not None}
    return PairFit(solution, given.X.dtype, given.gallery.shape[1], unit_rows, known)


def _check_parameters(model: Any) -> None:
    """Raise for parameters that have a meaning for one label per row alone, rather than ignore them."""
    options = checked_options(model.rows)
    given = {name: getattr(model, name) for name in ("compress", "acceleration", "whitening_width", "init")}
    for name, value in {**given, "device": options.get("device"), "tile_dtype": options.get("tile_dtype")}.items():
        usual = "fixed" if name == "init" else None
        if value != usual:
            raise LikewiseError(
                f"{name}={value!r} is for one label per row, every row labelled and no prior: leave it at {usual!r}"
            )
    if model.prior is not None and model.alpha:
        raise LikewiseError(
            f"alpha={model.alpha!r} has no meaning with a prior: prior_strength is the ridge towards it"
        )
